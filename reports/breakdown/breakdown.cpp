#include "reports/breakdown/breakdown.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/breakdown/kernel_names.h"
#include "reports/breakdown/modules.h"

namespace steplens {
namespace {

constexpr std::string_view kNone = "none";

Interval interval_of(const GpuOp& op) { return {.start_ns = op.start_ns, .end_ns = op.end_ns}; }

bool is_transfer(const GpuOp& op) {
  return op.kind == GpuOpKind::kCopy || op.kind == GpuOpKind::kSet;
}

bool needs_module(Phase phase) { return phase == Phase::kForward || phase == Phase::kBackward; }

// A stretch of time that belongs to one operation.
struct Piece {
  Interval interval;
  std::uint32_t op = kNoRow;
};

// Groups by a key that is a small number.
class Grouping {
 public:
  explicit Grouping(std::size_t num_steps) : num_steps_(num_steps) {}

  UsageGroup& at(std::string_view key) {
    const auto [it, is_new] = index_by_key_.try_emplace(std::string(key), groups_.size());
    if (is_new) {
      UsageGroup& group = groups_.emplace_back();
      group.key = key;
      group.display = key;
      group.by_step.resize(num_steps_);
    }
    return groups_[it->second];
  }
  std::size_t index_of(std::string_view key) {
    at(key);
    return index_by_key_.at(std::string(key));
  }
  UsageGroup& operator[](std::size_t index) { return groups_[index]; }

  std::vector<UsageGroup> sorted() && {
    std::ranges::sort(groups_, [](const UsageGroup& a, const UsageGroup& b) {
      if (a.total.exclusive_ns != b.total.exclusive_ns) {
        return a.total.exclusive_ns > b.total.exclusive_ns;
      }
      return a.key < b.key;
    });
    return std::move(groups_);
  }

 private:
  std::size_t num_steps_;
  std::vector<UsageGroup> groups_;
  std::unordered_map<std::string, std::size_t> index_by_key_;  // Key -> index in groups_.
};

class BreakdownBuilder {
 public:
  BreakdownBuilder(const Trace& trace, std::uint8_t device)
      : trace_(trace),
        device_(device),
        idle_(trace) {}

  Breakdown build() {
    result_.quality = trace_.quality;
    result_.has_lost_data = steplens::has_lost_data(trace_.quality);
    result_.host = find_host_facts(trace_);
    select_operations();
    if (ops_.empty()) return std::move(result_);
    find_categories();
    find_steps();
    drop_what_is_outside();
    measure_unions();
    measure_idle();
    measure_groups();
    sum_up();
    return std::move(result_);
  }

 private:
  const GpuOp& op(std::uint32_t row) const { return trace_.gpu_ops[row]; }

  void select_operations() {
    const auto& rows = trace_.gpu_ops;
    const bool has_graph_nodes = std::ranges::any_of(rows, [](const GpuOp& op) {
      return op.kind == GpuOpKind::kKernel && op.graph_node_id != 0;
    });
    const auto clock_zero_ns = -start_unix_ns();
    for (std::uint32_t row = 0; row < rows.size(); ++row) {
      const GpuOp& op = rows[row];
      if (op.device != device_) {
        ++result_.num_other_devices;
      } else if (op.start_ns == op.end_ns && (op.start_ns == 0 || op.start_ns == clock_zero_ns)) {
        ++result_.num_zero_timestamps;
      } else if (op.end_ns < op.start_ns) {
        ++result_.num_end_before_start;
      } else if (op.kind != GpuOpKind::kGraph || !has_graph_nodes) {
        ops_.push_back(row);
        result_.has_whole_graphs = result_.has_whole_graphs || op.kind == GpuOpKind::kGraph;
      }
    }
    std::ranges::sort(ops_, [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(op(a).start_ns, a) < std::pair(op(b).start_ns, b);
    });
  }

  std::int64_t start_unix_ns() const {
    const auto it = trace_.info.find("start_unix_ns");
    return it != trace_.info.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
  }

  void find_categories() {
    category_by_name_.assign(trace_.strings.size(), KernelCategory::kOther);
    std::vector<bool> is_known(trace_.strings.size(), false);
    for (const std::uint32_t row : ops_) {
      const StringId name = op(row).name;
      if (is_known[name]) continue;
      is_known[name] = true;
      category_by_name_[name] = category_of(trace_.text(name));
    }
  }

  KernelCategory category(const GpuOp& op) const {
    return is_transfer(op) ? KernelCategory::kCopy : category_by_name_[op.name];
  }

  // Copies may lack a name: "copy h2d", "set".
  std::string name(const GpuOp& op) const {
    if (op.name != 0) return trace_.text(op.name);
    std::string name(name_of(op.kind));
    if (op.copy_kind != CopyKind::kNone) name += fmt::format(" {}", name_of(op.copy_kind));
    return name;
  }

  DeviceWork work(const GpuOp& op) const {
    if (is_transfer(op)) return DeviceWork::kCopy;
    return category(op) == KernelCategory::kCommunication ? DeviceWork::kCommunication
                                                          : DeviceWork::kCompute;
  }

  void find_steps() {
    std::int32_t last_index = -1;
    for (const std::uint32_t row : ops_) last_index = std::max(last_index, op(row).step_index);
    // Start of the first operation that opens the step, and of the first one at all.
    std::vector<std::optional<std::int64_t>> starts(static_cast<std::size_t>(last_index + 1));
    std::vector<std::optional<std::int64_t>> any_starts(starts.size());
    std::int64_t last_end_ns = op(ops_.front()).start_ns;
    for (const std::uint32_t row : ops_) {
      const GpuOp& op = this->op(row);
      if (last_index < 0 || op.step_index == last_index) {
        last_end_ns = std::max(last_end_ns, op.end_ns);
      }
      if (op.step_index < 0) continue;
      const auto index = static_cast<std::size_t>(op.step_index);
      if (!any_starts[index]) any_starts[index] = op.start_ns;
      const bool runs_ahead = is_transfer(op) && op.phase == Phase::kData;
      if (!runs_ahead && !starts[index]) starts[index] = op.start_ns;
    }
    result_.has_steps = last_index >= 0;
    if (!result_.has_steps) {
      result_.steps.push_back({.device = {.start_ns = op(ops_.front()).start_ns}});
    }
    for (std::size_t index = 0; index < starts.size(); ++index) {
      if (!starts[index]) starts[index] = any_starts[index];
      if (!starts[index]) ++result_.num_idle_steps;
      // What comes before the first step that ran has no place in the window.
      if (!starts[index] && result_.steps.empty()) continue;
      StepBreakdown step = {.step_index = static_cast<std::int32_t>(index)};
      step.device.start_ns = starts[index].value_or(0);
      result_.steps.push_back(step);
    }
    close_steps(starts, last_end_ns);
  }

  void close_steps(const std::vector<std::optional<std::int64_t>>& starts,
                   std::int64_t last_end_ns) {
    std::vector<StepBreakdown>& steps = result_.steps;
    StepBreakdown& last = steps.back();
    last.device.end_ns = std::max(last_end_ns, last.device.start_ns);
    const std::optional<std::int64_t> fence_ns = fence_end(last.device.start_ns);
    last.is_closed = fence_ns.has_value();
    if (fence_ns) last.device.end_ns = std::max(last.device.end_ns, *fence_ns);
    // Backwards: a step without operations begins where the next one does.
    for (std::size_t i = steps.size() - 1; i-- > 0;) {
      StepBreakdown& step = steps[i];
      const std::int64_t next_ns = steps[i + 1].device.start_ns;
      const bool has_start =
          step.step_index < 0 || starts[static_cast<std::size_t>(step.step_index)].has_value();
      // Steps that overlap (several streams) cannot both have the time: the later one has it.
      step.device.start_ns = has_start ? std::min(step.device.start_ns, next_ns) : next_ns;
      step.device.end_ns = next_ns;
    }
    result_.window = {.start_ns = steps.front().device.start_ns,
                      .end_ns = steps.back().device.end_ns};
  }

  // End of the first range "fence" that began at `from_ns` or later.
  std::optional<std::int64_t> fence_end(std::int64_t from_ns) const {
    std::optional<Interval> first;
    for (const RangeInstance& instance : trace_.range_instances) {
      if (instance.start_ns < from_ns || instance.range >= trace_.ranges.size()) continue;
      if (trace_.text(trace_.ranges[instance.range].name) != kFenceRangeName) continue;
      if (!first || instance.start_ns < first->start_ns) {
        first = Interval{.start_ns = instance.start_ns, .end_ns = instance.end_ns};
      }
    }
    return first ? std::optional(first->end_ns) : std::nullopt;
  }

  void drop_what_is_outside() {
    result_.num_outside_window = static_cast<std::int64_t>(
        std::erase_if(ops_, [&](std::uint32_t row) { return is_outside(op(row)); }));
    result_.num_operations = static_cast<std::int64_t>(ops_.size());
  }

  bool is_outside(const GpuOp& op) const {
    const Interval& window = result_.window;
    // One without length, at the very end of the window, still ran in it.
    return op.end_ns < window.start_ns || op.start_ns > window.end_ns ||
           (op.end_ns == window.start_ns && op.start_ns < op.end_ns) ||
           (op.start_ns == window.end_ns && op.start_ns < op.end_ns);
  }

  // Calls `visit(step index, part)` for the parts of an interval in the steps that it touches.
  template <typename Visit>
  void for_each_step(Interval interval, Visit visit) const {
    const std::vector<StepBreakdown>& steps = result_.steps;
    auto it = std::ranges::upper_bound(
        steps, interval.start_ns, {}, [](const StepBreakdown& step) { return step.device.end_ns; });
    for (; it != steps.end() && it->device.start_ns < interval.end_ns; ++it) {
      const Interval part = {.start_ns = std::max(interval.start_ns, it->device.start_ns),
                             .end_ns = std::min(interval.end_ns, it->device.end_ns)};
      if (!part.is_empty()) visit(static_cast<std::size_t>(it - steps.begin()), part);
    }
  }

  // The step in which an operation of the window began.
  std::size_t step_at(std::int64_t start_ns) const {
    const std::vector<StepBreakdown>& steps = result_.steps;
    const auto it =
        std::ranges::upper_bound(steps, std::max(start_ns, result_.window.start_ns), {},
                                 [](const StepBreakdown& step) { return step.device.end_ns; });
    return it == steps.end() ? steps.size() - 1 : static_cast<std::size_t>(it - steps.begin());
  }

  void add_by_step(const Intervals& intervals, std::int64_t StepTimes::* member) {
    for (const Interval& interval : intervals) {
      for_each_step(interval, [&](std::size_t step, Interval part) {
        result_.steps[step].times.*member += part.length_ns();
      });
    }
  }

  void measure_unions() {
    std::array<Intervals, kNumDeviceWorks> unions;
    for (const std::uint32_t row : ops_) {
      Intervals& intervals = unions[static_cast<std::size_t>(work(op(row)))];
      // Sorted by start, so they can be merged on the way: fewer to keep.
      const Interval interval = interval_of(op(row));
      if (interval.is_empty()) continue;
      if (!intervals.empty() && interval.start_ns <= intervals.back().end_ns) {
        intervals.back().end_ns = std::max(intervals.back().end_ns, interval.end_ns);
      } else {
        intervals.push_back(interval);
      }
    }
    const auto& [compute, communication, copy] = unions;
    compute_or_communication_ = unite(compute, communication);
    busy_ = unite(compute_or_communication_, copy);
    add_by_step(compute, &StepTimes::compute_ns);
    add_by_step(communication, &StepTimes::communication_ns);
    add_by_step(subtract(communication, compute), &StepTimes::communication_exposed_ns);
    add_by_step(copy, &StepTimes::copy_ns);
    add_by_step(subtract(copy, compute_or_communication_), &StepTimes::copy_exposed_ns);
    compute_ = compute;
    for (StepBreakdown& step : result_.steps) step.times.step_ns = step.device.length_ns();
  }

  void measure_idle() {
    for (const Interval& gap : subtract(Intervals{result_.window}, busy_)) {
      for_each_step(gap, [&](std::size_t step, Interval part) {
        StepTimes& times = result_.steps[step].times;
        times.idle_ns += part.length_ns();
        idle_.classify(part, op_starting_at(part.end_ns), times.idle_by_class_ns);
      });
    }
  }

  std::uint32_t op_starting_at(std::int64_t time_ns) const {
    const auto it = std::ranges::lower_bound(ops_, time_ns, {},
                                             [&](std::uint32_t row) { return op(row).start_ns; });
    return it != ops_.end() && op(*it).start_ns == time_ns ? *it : kNoRow;
  }

  // What is left of each operation of a kind of work when `hidden` and earlier ones are taken out.
  std::vector<Piece> exclusive_pieces(DeviceWork kind, const Intervals& hidden) const {
    std::vector<Piece> pieces;
    std::int64_t covered_until_ns = result_.window.start_ns;
    for (const std::uint32_t row : ops_) {
      if (work(op(row)) != kind) continue;
      const Interval own = {.start_ns = std::max(op(row).start_ns, covered_until_ns),
                            .end_ns = op(row).end_ns};
      covered_until_ns = std::max(covered_until_ns, own.end_ns);
      if (own.is_empty()) continue;
      for (const Interval& part : subtract(Intervals{own}, clip(hidden, own))) {
        pieces.push_back({.interval = part, .op = row});
      }
    }
    return pieces;
  }

  // Indices of an operation's groups, one of each grouping.
  struct GroupIndices {
    std::size_t phase, module, module_kind, category, kernel;
  };

  void measure_groups() {
    const std::size_t num_steps = result_.steps.size();
    Grouping phases(num_steps), modules(num_steps), kinds(num_steps), categories(num_steps),
        kernels(num_steps);
    const std::vector<std::string> paths = module_paths(trace_);
    // Texts become indices once per distinct value, never per row.
    std::vector<std::pair<std::size_t, std::size_t>> module_indices;
    module_indices.reserve(paths.size());
    for (const std::string& path : paths) {
      module_indices.emplace_back(modules.index_of(path), kinds.index_of(module_kind(path)));
    }
    std::array<std::size_t, kNumPhases> phase_indices = {};
    std::array<std::pair<std::size_t, std::size_t>, kNumPhases> phase_module_indices;
    for (std::size_t i = 0; i < kNumPhases; ++i) {
      const auto phase = static_cast<Phase>(i);
      const std::string_view name = phase == Phase::kNone ? kNone : name_of(phase);
      const std::string_view module = needs_module(phase) ? kNone : name;
      phase_indices[i] = phases.index_of(name);
      phase_module_indices[i] = {modules.index_of(module), kinds.index_of(module)};
    }
    std::array<std::size_t, kNumKernelCategories> category_indices = {};
    for (std::size_t i = 0; i < kNumKernelCategories; ++i) {
      category_indices[i] = categories.index_of(name_of(static_cast<KernelCategory>(i)));
    }
    std::vector<std::size_t> kernel_indices(trace_.strings.size(), kNoRow);
    const auto kernel_index = [&](const GpuOp& op) {
      if (op.name != 0 && kernel_indices[op.name] != kNoRow) return kernel_indices[op.name];
      const std::size_t index = kernels.index_of(name(op));
      kernels[index].display = kernel_display_name(kernels[index].key);
      kernels[index].category = category(op);
      kernel_indices[op.name] = index;
      return index;
    };
    const auto indices_of = [&](const GpuOp& op) {
      const auto phase_index = static_cast<std::size_t>(op.phase);
      const bool has_module = op.range < paths.size() && !paths[op.range].empty();
      const auto [module, kind] =
          has_module ? module_indices[op.range] : phase_module_indices[phase_index];
      return GroupIndices{.phase = phase_indices[phase_index],
                          .module = module,
                          .module_kind = kind,
                          .category = category_indices[static_cast<std::size_t>(category(op))],
                          .kernel = kernel_index(op)};
    };
    const auto add = [&](const GroupIndices& indices, Phase phase, std::size_t step,
                         const Usage& usage) {
      for (UsageGroup* group :
           {&phases[indices.phase], &modules[indices.module], &kinds[indices.module_kind],
            &categories[indices.category], &kernels[indices.kernel]}) {
        group->by_step[step] += usage;
        if (!is_counted(step)) continue;
        group->total += usage;
        group->exclusive_by_phase_ns[static_cast<std::size_t>(phase)] += usage.exclusive_ns;
      }
    };

    for (const std::uint32_t row : ops_) {
      const GpuOp& op = this->op(row);
      const GroupIndices indices = indices_of(op);
      const std::size_t first_step = step_at(op.start_ns);
      add(indices, op.phase, first_step, {.num_operations = 1});
      for_each_step(interval_of(op), [&](std::size_t step, Interval part) {
        add(indices, op.phase, step, {.summed_ns = part.length_ns()});
        count_coverage(op, op.range < paths.size() && !paths[op.range].empty(), part.length_ns());
      });
      StepTimes& times = result_.steps[first_step].times;
      ++(is_transfer(op) ? times.num_copies : times.num_kernels);
      if (op.attribution == Attribution::kNone) ++result_.num_unattributed;
      const bool needs_launch = op.kind == GpuOpKind::kKernel || op.kind == GpuOpKind::kGraph;
      if (needs_launch && idle_.launch_of(op) == nullptr) ++result_.num_without_launch;
    }
    exclusive_by_step_ns_.assign(num_steps, 0);
    const Intervals nothing;
    const std::array<const Intervals*, kNumDeviceWorks> hidden = {&nothing, &compute_,
                                                                  &compute_or_communication_};
    for (std::size_t kind = 0; kind < kNumDeviceWorks; ++kind) {
      for (const Piece& piece : exclusive_pieces(static_cast<DeviceWork>(kind), *hidden[kind])) {
        const GroupIndices indices = indices_of(op(piece.op));
        for_each_step(piece.interval, [&](std::size_t step, Interval part) {
          add(indices, op(piece.op).phase, step, {.exclusive_ns = part.length_ns()});
          exclusive_by_step_ns_[step] += part.length_ns();
        });
      }
    }
    result_.phases = used(std::move(phases).sorted());
    result_.modules = used(std::move(modules).sorted());
    result_.module_kinds = used(std::move(kinds).sorted());
    result_.categories = used(std::move(categories).sorted());
    result_.kernels = used(std::move(kernels).sorted());
  }

  // Without the modules in which no operation ran.
  static std::vector<UsageGroup> used(std::vector<UsageGroup> groups) {
    std::erase_if(groups, [](const UsageGroup& group) {
      return std::ranges::all_of(group.by_step,
                                 [](const Usage& usage) { return usage == Usage(); });
    });
    return groups;
  }

  void count_coverage(const GpuOp& op, bool has_module, std::int64_t duration_ns) {
    // A bucket of gradients belongs to many modules.
    const bool is_whole =
        has_module || !needs_module(op.phase) || work(op) == DeviceWork::kCommunication;
    const bool is_covered =
        op.attribution != Attribution::kNone && op.phase != Phase::kNone && is_whole;
    result_.operation_ns += duration_ns;
    if (is_covered) result_.covered_ns += duration_ns;
  }

  bool is_counted(std::size_t step) const {
    return result_.steps[step].is_closed || result_.steps.size() == 1;
  }

  void sum_up() {
    for (std::size_t i = 0; i < result_.steps.size(); ++i) {
      const StepTimes& times = result_.steps[i].times;
      std::int64_t idle_ns = 0;
      for (const std::int64_t part_ns : times.idle_by_class_ns) idle_ns += part_ns;
      for (const std::int64_t imbalance_ns :
           {times.step_ns - times.busy_ns() - times.idle_ns, times.idle_ns - idle_ns,
            times.busy_ns() - exclusive_by_step_ns_[i]}) {
        result_.max_imbalance_ns = std::max(result_.max_imbalance_ns, std::abs(imbalance_ns));
      }
      if (!is_counted(i)) continue;
      ++result_.num_counted_steps;
      result_.total += times;
    }
  }

  const Trace& trace_;
  std::uint8_t device_;
  IdleClassifier idle_;
  Breakdown result_;
  std::vector<std::uint32_t> ops_;                // Rows of usable operations, by start.
  std::vector<KernelCategory> category_by_name_;  // StringId -> category.
  Intervals compute_;
  Intervals compute_or_communication_;
  Intervals busy_;
  std::vector<std::int64_t> exclusive_by_step_ns_;
};

}  // namespace

StepTimes& StepTimes::operator+=(const StepTimes& other) {
  step_ns += other.step_ns;
  compute_ns += other.compute_ns;
  communication_ns += other.communication_ns;
  communication_exposed_ns += other.communication_exposed_ns;
  copy_ns += other.copy_ns;
  copy_exposed_ns += other.copy_exposed_ns;
  idle_ns += other.idle_ns;
  for (std::size_t i = 0; i < kNumIdleClasses; ++i) {
    idle_by_class_ns[i] += other.idle_by_class_ns[i];
  }
  num_kernels += other.num_kernels;
  num_copies += other.num_copies;
  return *this;
}

Usage& Usage::operator+=(const Usage& other) {
  exclusive_ns += other.exclusive_ns;
  summed_ns += other.summed_ns;
  num_operations += other.num_operations;
  return *this;
}

double Breakdown::per_step(std::int64_t sum) const {
  return num_counted_steps == 0 ? 0
                                : static_cast<double>(sum) / static_cast<double>(num_counted_steps);
}

std::optional<double> Breakdown::busy_ratio() const {
  if (total.step_ns == 0) return std::nullopt;
  return static_cast<double>(total.busy_ns()) / static_cast<double>(total.step_ns);
}

std::optional<double> Breakdown::coverage_ratio() const {
  if (operation_ns == 0 || has_whole_graphs) return std::nullopt;
  return static_cast<double>(covered_ns) / static_cast<double>(operation_ns);
}

Breakdown compute_breakdown(const Trace& trace, std::uint8_t device) {
  return BreakdownBuilder(trace, device).build();
}

}  // namespace steplens
