#include "reports/roofline/roofline.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "reports/breakdown/kernel_names.h"
#include "reports/breakdown/modules.h"

namespace steplens {
namespace {

using nlohmann::json;

constexpr std::string_view kAttentionModule = "block/attention";

// Sums up what the first part of a split product leaves: a kernel more for the same product.
bool is_part_of_product(std::string_view name) {
  constexpr std::string_view kSplit = "splitkreduce";
  const auto is_same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  };
  return std::ranges::search(name, kSplit, is_same).begin() != name.end();
}

// Operations of one module (not its kind), phase and micro-step.
struct Place {
  std::int32_t step_index;
  std::int32_t micro_step_index;
  Phase phase;
  std::string_view path;
  auto operator<=>(const Place&) const = default;
};

struct Group {
  std::vector<std::uint32_t> products;   // Rows, by start.
  std::vector<std::uint32_t> attention;  // The same.
};

class RooflineBuilder {
 public:
  RooflineBuilder(const Trace& trace, const Breakdown& breakdown, const RunConfig& config,
                  std::uint8_t device)
      : trace_(trace),
        breakdown_(breakdown),
        config_(config),
        device_(device),
        paths_(module_paths(trace)),
        work_(trace.gpu_ops.size()) {
    for (const std::string& path : paths_) kinds_.push_back(module_kind(path));
  }

  Roofline build() {
    result_.precision = name_of(config_.precision);
    find_peaks();
    select();
    if (rows_.empty()) return std::move(result_);
    group();
    for (const auto& [place, group] : groups_) assign(place, group);
    add_notes();
    add_kernels();
    add_parts();
    return std::move(result_);
  }

 private:
  const GpuOp& op(std::uint32_t row) const { return trace_.gpu_ops[row]; }
  std::string_view path_of(const GpuOp& op) const {
    return op.range == kNoRow ? std::string_view() : std::string_view(paths_[op.range]);
  }
  std::string_view kind_of(const GpuOp& op) const {
    return op.range == kNoRow ? std::string_view() : std::string_view(kinds_[op.range]);
  }
  double per_step(double sum) const {
    return sum / static_cast<double>(breakdown_.num_counted_steps);
  }
  static double duration_ns(const GpuOp& op) {
    return static_cast<double>(op.end_ns - op.start_ns);
  }

  void find_peaks() {
    if (device_ >= trace_.devices.size()) return;
    const std::string& name = trace_.text(trace_.devices[device_].name);
    result_.peak_flops = peak_matmul_flops_per_s(name, config_.precision);
    result_.peak_bytes = peak_memory_bytes_per_s(name);
  }

  // Rows of the counted steps, by start.
  void select() {
    std::set<std::int32_t> counted;
    for (const StepBreakdown& step : breakdown_.steps) {
      if (step.is_closed || breakdown_.steps.size() == 1) counted.insert(step.step_index);
    }
    for (std::uint32_t row = 0; row < trace_.gpu_ops.size(); ++row) {
      const GpuOp& op = trace_.gpu_ops[row];
      const bool is_operation = op.kind == GpuOpKind::kKernel || op.kind == GpuOpKind::kOperator;
      if (!is_operation || op.device != device_ || op.end_ns <= op.start_ns) continue;
      if (counted.contains(op.step_index)) rows_.push_back(row);
    }
    std::ranges::sort(rows_, {},
                      [&](std::uint32_t row) { return std::pair(op(row).start_ns, row); });
    double sum_ns = 0;
    for (const std::uint32_t row : rows_) sum_ns += duration_ns(op(row));
    if (!rows_.empty()) result_.operation_ns = per_step(sum_ns);
  }

  KernelCategory category(StringId name) {
    const auto [it, is_new] = categories_.try_emplace(name, KernelCategory::kOther);
    if (is_new) it->second = category_of(trace_.text(name));
    return it->second;
  }

  void group() {
    for (const std::uint32_t row : rows_) {
      const GpuOp& op = trace_.gpu_ops[row];
      if (op.phase != Phase::kForward && op.phase != Phase::kBackward) continue;
      const KernelCategory kind = category(op.name);
      if (kind != KernelCategory::kGemm && kind != KernelCategory::kAttention) continue;
      Group& group = groups_[{op.step_index, op.micro_step_index, op.phase, path_of(op)}];
      if (kind == KernelCategory::kAttention) {
        group.attention.push_back(row);
      } else if (!is_part_of_product(trace_.text(op.name))) {
        group.products.push_back(row);
      }
    }
  }

  void assign(const Place& place, const Group& group) {
    const std::string kind = module_kind(place.path);
    const std::vector<Work> products = matmuls_of(config_, kind, place.phase);
    if (products.size() != group.products.size()) {
      mismatches_.insert({kind, place.phase, group.products.size(), products.size()});
      return;
    }
    for (std::size_t i = 0; i < products.size(); ++i) work_[group.products[i]] = products[i];
    if (kind == kAttentionModule) assign_attention(place.phase, group.attention);
  }

  // The longest kernel does the products; what runs around it converts and sums.
  void assign_attention(Phase phase, std::vector<std::uint32_t> rows) {
    const Work work = attention_work(config_, phase);
    if (work == Work() || rows.empty()) return;
    const bool is_recomputed =
        phase == Phase::kBackward && config_.checkpoint == Checkpoint::kFull && rows.size() > 1;
    if (is_recomputed) {
      work_[rows.front()] = attention_work(config_, Phase::kForward);
      rows.erase(rows.begin());
    }
    work_[*std::ranges::max_element(
        rows, {}, [&](std::uint32_t row) { return op(row).end_ns - op(row).start_ns; })] = work;
  }

  void add_notes() {
    for (const auto& [kind, phase, num_found, num_expected] : mismatches_) {
      result_.notes.push_back(fmt::format(
          "{}, {}: {} matrix products ran where the model needs {}, so none of them is rated.",
          kind.empty() ? "outside of modules" : kind, name_of(phase), num_found, num_expected));
    }
  }

  void add_kernels() {
    std::map<std::string_view, RatedWork> kernels;
    for (const std::uint32_t row : rows_) {
      if (work_[row] == Work()) continue;
      const std::string& name = trace_.text(op(row).name);
      RatedWork& kernel = kernels[name];
      kernel.name = name;
      kernel.category = category(op(row).name);
      kernel.duration_ns += duration_ns(op(row));
      kernel.num_operations += 1;
      kernel.work += work_[row];
    }
    for (auto& [name, kernel] : kernels) {
      kernel.display = kernel_display_name(name);
      kernel.duration_ns = per_step(kernel.duration_ns);
      kernel.num_operations = per_step(kernel.num_operations);
      kernel.work.flops = per_step(kernel.work.flops);
      kernel.work.bytes = per_step(kernel.work.bytes);
      result_.rated_ns += kernel.duration_ns;
      result_.kernels.push_back(std::move(kernel));
    }
    std::ranges::sort(result_.kernels, [](const RatedWork& a, const RatedWork& b) {
      return std::pair(-a.duration_ns, std::string_view(a.name)) <
             std::pair(-b.duration_ns, std::string_view(b.name));
    });
  }

  void add_parts() {
    for (const BandwidthPart& part : memory_parts_of(config_)) {
      RatedWork rated{.name = part.label,
                      .display = part.label,
                      .work = {.bytes = part.bytes},
                      .formula = std::string(part.formula)};
      for (const std::uint32_t row : rows_) {
        const GpuOp& op = trace_.gpu_ops[row];
        if (op.phase != part.phase || work_[row] != Work()) continue;
        if (!part.module_kind.empty() && kind_of(op) != part.module_kind) continue;
        rated.duration_ns += duration_ns(op);
        rated.num_operations += 1;
      }
      if (rated.num_operations == 0) continue;
      rated.duration_ns = per_step(rated.duration_ns);
      rated.num_operations = per_step(rated.num_operations);
      result_.rated_ns += rated.duration_ns;
      result_.parts.push_back(std::move(rated));
    }
  }

  const Trace& trace_;
  const Breakdown& breakdown_;
  const RunConfig& config_;
  std::uint8_t device_;
  std::vector<std::string> paths_;  // Of each range.
  std::vector<std::string> kinds_;  // The same.
  std::vector<Work> work_;          // Of each operation; zero: none is derived.
  std::vector<std::uint32_t> rows_;
  std::map<StringId, KernelCategory> categories_;
  std::map<Place, Group> groups_;
  std::set<std::tuple<std::string, Phase, std::size_t, std::size_t>> mismatches_;
  Roofline result_;
};

std::optional<double> rate(double amount, double duration_ns) {
  return amount > 0 && duration_ns > 0 ? std::optional(amount / (duration_ns * 1e-9))
                                       : std::nullopt;
}

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }

json peak_json(const std::optional<PeakRate>& peak) {
  return peak ? json{{"per_s", peak->per_s}, {"source", peak->source}} : json();
}

}  // namespace

std::optional<double> RatedWork::flops_per_s() const { return rate(work.flops, duration_ns); }
std::optional<double> RatedWork::bytes_per_s() const { return rate(work.bytes, duration_ns); }
std::optional<double> RatedWork::intensity_ratio() const {
  if (work.flops <= 0 || work.bytes <= 0) return std::nullopt;
  return work.flops / work.bytes;
}

bool Roofline::is_bound_by_memory(const RatedWork& work) const {
  const std::optional<double> intensity = work.intensity_ratio();
  if (!intensity) return true;
  return peak_flops && peak_bytes && *intensity * peak_bytes->per_s < peak_flops->per_s;
}

std::optional<double> Roofline::flops_per_s(KernelCategory category) const {
  double flops = 0;
  double duration_ns = 0;
  for (const RatedWork& kernel : kernels) {
    if (kernel.category != category) continue;
    flops += kernel.work.flops;
    duration_ns += kernel.duration_ns;
  }
  return rate(flops, duration_ns);
}

std::optional<double> Roofline::roof_share_ratio(const RatedWork& work) const {
  const std::optional<double> flops_per_s = work.flops_per_s();
  const std::optional<double> bytes_per_s = work.bytes_per_s();
  if (!flops_per_s) {
    return bytes_per_s && peak_bytes ? std::optional(*bytes_per_s / peak_bytes->per_s)
                                     : std::nullopt;
  }
  if (!peak_flops || !peak_bytes || !bytes_per_s || work.work.is_fp32) return std::nullopt;
  return is_bound_by_memory(work) ? *bytes_per_s / peak_bytes->per_s
                                  : *flops_per_s / peak_flops->per_s;
}

Roofline compute_roofline(const Trace& trace, const Breakdown& breakdown, const RunConfig& config,
                          std::uint8_t device) {
  if (breakdown.num_counted_steps == 0 || !breakdown.has_steps) return {};
  if (breakdown.has_whole_graphs) {
    Roofline roofline;
    roofline.notes = {"Graphs are one row a launch here, so their kernels cannot be rated."};
    return roofline;
  }
  const std::string reason = why_not_derived(config);
  if (!reason.empty()) {
    Roofline roofline;
    roofline.notes = {fmt::format("No FLOPs and bytes are derived: {}.", reason)};
    return roofline;
  }
  return RooflineBuilder(trace, breakdown, config, device).build();
}

Roofline compute_roofline(const Trace& trace, const Breakdown& breakdown) {
  const auto config = trace.info.find("config");
  if (config == trace.info.end()) return {};
  try {
    return compute_roofline(trace, breakdown, run_config_from_json(*config));
  } catch (const ConfigError& error) {
    Roofline roofline;
    roofline.notes = {
        fmt::format("No FLOPs and bytes are derived: the trace's config: {}.", error.what())};
    return roofline;
  }
}

json to_json(const Roofline& roofline) {
  const auto rows = [&](const std::vector<RatedWork>& works) {
    json array = json::array();
    for (const RatedWork& work : works) {
      json row = {{"name", work.name},
                  {"category", name_of(work.category)},
                  {"duration_ns", work.duration_ns},
                  {"num_operations", work.num_operations},
                  {"derived_flops", work.work.flops > 0 ? json(work.work.flops) : json()},
                  {"least_bytes", work.work.bytes},
                  {"achieved_flops_per_s", or_null(work.flops_per_s())},
                  {"achieved_bytes_per_s", or_null(work.bytes_per_s())},
                  {"intensity_ratio", or_null(work.intensity_ratio())},
                  {"roof_share_ratio", or_null(roofline.roof_share_ratio(work))}};
      if (!work.formula.empty()) row["formula"] = work.formula;
      array.push_back(std::move(row));
    }
    return array;
  };
  return {{"precision", roofline.precision},
          {"peak_flops", peak_json(roofline.peak_flops)},
          {"peak_bytes", peak_json(roofline.peak_bytes)},
          {"operation_ns", roofline.operation_ns},
          {"rated_ns", roofline.rated_ns},
          {"kernels", rows(roofline.kernels)},
          {"parts", rows(roofline.parts)},
          {"notes", roofline.notes}};
}

}  // namespace steplens
