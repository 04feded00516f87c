#include "viewer/data/names.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "harness/trace/range_names.h"
#include "reports/breakdown/idle.h"
#include "reports/breakdown/kernel_names.h"
#include "reports/breakdown/modules.h"
#include "reports/export/op_names.h"

namespace steplens {
namespace {

constexpr std::size_t kNumCopyKinds = 7;
constexpr std::size_t kNumMemoryKinds = 6;
constexpr std::size_t kNumPhases = 7;
constexpr std::size_t kNumCopyNames = kNumCopyKinds * kNumMemoryKinds * kNumMemoryKinds;

ApiTone api_tone_of(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (is_allocator_call(name)) return ApiTone::kAllocator;
  if (is_waiting_call(name)) return ApiTone::kWait;
  if (has("Graph")) return ApiTone::kGraph;
  if (has("Launch")) return ApiTone::kLaunch;
  if (has("Memcpy") || has("Memset")) return ApiTone::kCopy;
  return ApiTone::kOther;
}

// The same of every block, and in every run of the program.
Tone module_tone_of(std::string_view kind) {
  std::uint32_t sum = 0;
  for (const char c : kind) sum = sum * 31 + static_cast<unsigned char>(c);
  return static_cast<Tone>(kFirstModuleTone + sum % kNumModuleTones);
}

Tone range_tone_of(std::string_view name) {
  if (const Phase phase = phase_of_range_name(name); phase != Phase::kNone) {
    return static_cast<Tone>(phase);
  }
  if (is_structure_range_name(name) || name == kFenceRangeName) return kStructureTone;
  return module_tone_of(module_kind(name));
}

}  // namespace

NameTable::NameTable(const Trace& trace)
    : raw_(trace.strings),
      first_made_(static_cast<NameId>(trace.strings.size())) {
  // A copy names both ends, a set one, a graph none.
  GpuOp op{.kind = GpuOpKind::kCopy};
  for (std::size_t copy = 0; copy < kNumCopyKinds; ++copy) {
    for (std::size_t source = 0; source < kNumMemoryKinds; ++source) {
      for (std::size_t target = 0; target < kNumMemoryKinds; ++target) {
        op.copy_kind = static_cast<CopyKind>(copy);
        op.source_memory = static_cast<MemoryKind>(source);
        op.target_memory = static_cast<MemoryKind>(target);
        add(op_title(trace, op));
      }
    }
  }
  op.kind = GpuOpKind::kSet;
  for (std::size_t target = 0; target < kNumMemoryKinds; ++target) {
    op.target_memory = static_cast<MemoryKind>(target);
    add(op_title(trace, op));
  }
  op.kind = GpuOpKind::kGraph;
  graph_ = add(op_title(trace, op));
  first_phase_ = static_cast<NameId>(raw_.size());
  for (std::size_t phase = 0; phase < kNumPhases; ++phase) {
    add(phase == 0 ? "no phase" : std::string(steplens::name_of(static_cast<Phase>(phase))));
  }
  step_ = add("step");
  const std::size_t first_module = raw_.size();
  const std::vector<std::string> modules = module_paths(trace);
  module_of_range_.resize(modules.size());
  std::unordered_map<std::string_view, NameId> ids;
  for (std::size_t range = 0; range < modules.size(); ++range) {
    if (modules[range].empty()) continue;
    const auto [it, is_new] = ids.try_emplace(modules[range], static_cast<NameId>(raw_.size()));
    if (is_new) add(modules[range]);
    module_of_range_[range] = it->second;
  }

  display_.resize(raw_.size());
  kernel_tones_.resize(raw_.size(), static_cast<Tone>(KernelCategory::kOther));
  for (NameId id = first_made_; id < graph_; ++id) {
    kernel_tones_[id] = static_cast<Tone>(KernelCategory::kCopy);
  }
  api_tones_.resize(raw_.size(), static_cast<Tone>(ApiTone::kOther));
  range_tones_.resize(raw_.size(), kStructureTone);
  for (std::size_t id = 0; id < first_made_; ++id) {
    const std::string& name = raw_[id];
    if (name.starts_with("cu")) api_tones_[id] = static_cast<Tone>(api_tone_of(name));
  }
  for (const Range& range : trace.ranges)
    range_tones_[range.name] = range_tone_of(raw_[range.name]);
  for (NameId id = first_phase_; id < step_; ++id) {
    range_tones_[id] = static_cast<Tone>(id - first_phase_);
  }
  for (std::size_t id = first_module; id < raw_.size(); ++id) {
    range_tones_[id] = module_tone_of(module_kind(raw_[id]));
  }
}

NameId NameTable::add(std::string name) {
  raw_.push_back(std::move(name));
  return static_cast<NameId>(raw_.size() - 1);
}

NameId NameTable::name_of(const GpuOp& op) const {
  const auto index = [](auto value) { return static_cast<NameId>(value); };
  switch (op.kind) {
    case GpuOpKind::kCopy:
      return first_made_ +
             (index(op.copy_kind) * NameId{kNumMemoryKinds} + index(op.source_memory)) *
                 NameId{kNumMemoryKinds} +
             index(op.target_memory);
    case GpuOpKind::kSet: return first_made_ + NameId{kNumCopyNames} + index(op.target_memory);
    case GpuOpKind::kGraph:
      if (op.name == 0) return graph_;
      [[fallthrough]];
    default: return op.name;
  }
}

void NameTable::describe_operations(const std::vector<std::uint8_t>& is_used) {
  for (NameId id = 0; id < is_used.size(); ++id) {
    if (is_used[id] == 0) continue;
    operations_.push_back(id);
    if (id >= first_made_) continue;
    display_[id] = kernel_display_name(raw_[id]);
    kernel_tones_[id] = static_cast<Tone>(category_of(raw_[id]));
  }
}

}  // namespace steplens
