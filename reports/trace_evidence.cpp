#include "reports/trace_evidence.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "harness/trace/range_names.h"
#include "reports/breakdown/kernel_patterns.h"
#include "reports/communication/communication.h"

namespace steplens {
namespace {

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// Families of fused attention kernels, by the names that their libraries give them.
std::string_view attention_family(std::string_view name) {
  if (has(name, "cudnn") && (has(name, "sdpa") || has(name, "flash") || has(name, "attention"))) {
    return "attention_cudnn";
  }
  if (has(name, "fmha_cutlass") || has(name, "AttentionKernel") ||
      has(name, "AttentionBackwardKernel")) {
    return "attention_mem_efficient";
  }
  if (has(name, "flash_fwd") || has(name, "flash_bwd") || has(name, "pytorch_flash")) {
    return "attention_flash";
  }
  return "";
}

// Part of the model that a kernel of kernels/ computes, by the names given there.
std::string_view fused_part(std::string_view name) {
  if (!has(name, "steplens")) return "";
  if (has(name, "rms_norm")) return "norm_fused";
  if (has(name, "rope")) return "rope_fused";
  if (has(name, "swiglu")) return "mlp_fused";
  if (has(name, "cross_entropy")) return "loss_fused";
  if (has(name, "embedding")) return "embedding_fused";
  if (has(name, "adamw")) return "adamw_fused";
  return "";
}

// The same parts by ATen's kernels; `category`: of category_of.
std::string_view aten_part(std::string_view name, KernelCategory category) {
  if (category == KernelCategory::kNorm) return "norm_aten";
  if (category == KernelCategory::kLoss) return "loss_aten";
  if (category == KernelCategory::kEmbedding) return "embedding_aten";
  return has(name, "silu") ? "silu_aten" : "";
}

bool is_attention_forward(std::string_view name) {
  return has(name, "flash_fwd") || has(name, "fmha_cutlassF") ||
         has(name, "sdpa_sm90_flash_fprop") || (has(name, "fprop") && has(name, "sdpa"));
}

bool is_launch_call(std::string_view name) {
  return name.starts_with("cudaLaunchKernel") || name.starts_with("cuLaunchKernel") ||
         name.starts_with("cudaLaunchCooperative") || name.starts_with("cuLaunchCooperative");
}

class Counter {
 public:
  explicit Counter(const Trace& trace) : trace_(trace) {}

  std::map<std::string, double> count() {
    count_operations();
    count_calls();
    count_ranges();
    const auto num_steps = static_cast<double>(std::max<std::size_t>(1, trace_.steps.size()));
    for (auto& [name, value] : counts_) value /= num_steps;
    const CommunicationUse communication = compute_communication(trace_);
    if (!communication.ranks.empty()) {
      counts_["overlapped_communication"] = communication.ranks.front().num_hidden_collectives;
    }
    return std::move(counts_);
  }

 private:
  // By distinct name: names repeat, and matching them is slow.
  struct NameFacts {
    bool is_known = false;
    std::string category, family, part;
    bool is_forward = false, is_softmax = false, is_triton = false;
  };
  const NameFacts& facts_of(StringId id) {
    if (names_.empty()) names_.resize(trace_.strings.size());
    NameFacts& facts = names_[id];
    if (!facts.is_known) {
      const std::string& name = trace_.text(id);
      const KernelCategory category = category_of(name);
      const std::string_view fused = fused_part(name);
      facts = {.is_known = true,
               .category = fmt::format("kernels_{}", name_of(category)),
               .family = std::string(attention_family(name)),
               .part = std::string(fused.empty() ? aten_part(name, category) : fused),
               .is_forward = is_attention_forward(name),
               .is_softmax = has(name, "softmax") || has(name, "SoftMax"),
               .is_triton = name.starts_with("triton_")};
    }
    return facts;
  }

  bool is_in_attention(std::uint32_t range) const {
    for (; range != kNoRow; range = trace_.ranges[range].parent) {
      if (trace_.text(trace_.ranges[range].name) == "attention") return true;
    }
    return false;
  }

  void add(std::string_view name) { ++counts_[std::string(name)]; }

  void count_operations() {
    for (const GpuOp& op : trace_.gpu_ops) {
      if (op.step_index < 0 && !trace_.steps.empty()) continue;
      if (op.phase == Phase::kOptimizer) add("optimizer_kernels");
      if (op.kind == GpuOpKind::kCopy || op.kind == GpuOpKind::kSet) {
        count_copy(op);
        continue;
      }
      add(op.kind == GpuOpKind::kOperator ? "operators" : "kernels");
      const NameFacts& facts = facts_of(op.name);
      add(facts.category);
      if (!facts.family.empty()) add(facts.family);
      if (!facts.part.empty()) add(facts.part);
      if (facts.is_forward) add("attention_forward");
      if (facts.is_triton) add("triton_kernels");
      if (facts.is_softmax && facts.family.empty() && is_in_attention(op.range)) {
        add("attention_softmax");
      }
    }
  }

  void count_copy(const GpuOp& op) {
    add("copies");
    const MemoryKind host =
        op.copy_kind == CopyKind::kHostToDevice ? op.source_memory : op.target_memory;
    if (op.copy_kind != CopyKind::kHostToDevice && op.copy_kind != CopyKind::kDeviceToHost) return;
    if (host == MemoryKind::kPinned) add("host_copies_pinned");
    if (host == MemoryKind::kPageable) add("host_copies_pageable");
  }

  void count_calls() {
    for (const Api& api : trace_.apis) {
      const std::string& name = trace_.text(api.name);
      if (name.starts_with("cudaGraphLaunch") || name.starts_with("cuGraphLaunch")) {
        add("graph_launches");
      } else if (is_launch_call(name)) {
        add("launch_calls");
      } else if (has(name, "Synchronize")) {
        add("synchronize_calls");
      } else if (name.starts_with("cudaMalloc") || name.starts_with("cuMemAlloc") ||
                 name.starts_with("cuMemCreate")) {
        add("device_allocs");
      }
    }
  }

  void count_ranges() {
    std::set<std::uint32_t> step_threads;
    for (const RangeInstance& instance : trace_.range_instances) {
      if (name_of_range(instance.range) == kStepRangeName) step_threads.insert(instance.thread);
    }
    for (const RangeInstance& instance : trace_.range_instances) {
      if (trace_.ranges[instance.range].domain != 0) continue;
      const std::string_view name = name_of_range(instance.range);
      if (name == "forward") add("forward_ranges");
      if (name == "optimizer") add("optimizer_ranges");
      if (name == "data" && !step_threads.contains(instance.thread)) add("data_ranges_elsewhere");
      if (name.starts_with("block ") && is_recomputed(instance)) add("recomputed_blocks");
    }
  }

  std::string_view name_of_range(std::uint32_t range) const {
    return trace_.text(trace_.ranges[range].name);
  }

  // A block's own range, opened while a node of the backward pass ran.
  bool is_recomputed(const RangeInstance& instance) const {
    if (instance.parent == kNoRow) return false;
    for (std::uint32_t range = trace_.range_instances[instance.parent].range; range != kNoRow;
         range = trace_.ranges[range].parent) {
      if (name_of_range(range) == "backward") return true;
    }
    return false;
  }

  const Trace& trace_;
  std::map<std::string, double> counts_;
  std::vector<NameFacts> names_;
};

}  // namespace

std::map<std::string, double> trace_counters(const Trace& trace) { return Counter(trace).count(); }

}  // namespace steplens
