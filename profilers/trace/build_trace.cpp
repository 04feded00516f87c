#include "profilers/trace/build_trace.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "harness/trace/range_names.h"
#include "profilers/trace/range_lookup.h"
#include "profilers/trace/range_tree.h"

namespace steplens {
namespace {

class TraceBuilder {
 public:
  TraceBuilder(RawRecords raw, const RangeRecorder::Snapshot& ranges,
               const GraphNodeOrigins& node_origins, std::vector<std::string> strings,
               const TraceWindow& window)
      : raw_(std::move(raw)),
        recorded_(ranges),
        node_origins_(node_origins),
        window_(window) {
    trace_.strings = std::move(strings);
    trace_.ranges = recorded_.ranges;
    trace_.launch_shapes = std::move(raw_.launch_shapes);
    trace_.quality = std::move(raw_.quality);
  }

  Trace build() {
    trace_.info["start_unix_ns"] = window_.start_ns;
    trace_.info["duration_ns"] = window_.end_ns - window_.start_ns;
    count(quality::kOpenRanges, recorded_.num_stray_pops);
    operator_domain_ = find_string(kOperatorDomainName);
    add_devices();
    add_instances();
    add_overheads(kProfilerDomainName, /*is_of_driver=*/false);
    add_overheads(kDriverDomainName, /*is_of_driver=*/true);
    sort_instances();
    find_steps();
    add_apis();
    attribute_ops();
    attribute_operators();
    for (const GpuOp& op : trace_.gpu_ops) {
      if (op.phase == Phase::kNone) count(quality::kUnattributed);
    }
    for (Sync& sync : raw_.syncs) {
      if (!is_in_window(sync.start_ns, sync.end_ns)) continue;
      rebase(sync);
      trace_.syncs.push_back(sync);
    }
    std::ranges::stable_sort(trace_.gpu_ops, {}, &GpuOp::start_ns);
    std::ranges::stable_sort(trace_.apis, {}, &Api::start_ns);
    std::ranges::stable_sort(trace_.syncs, {}, &Sync::start_ns);
    return std::move(trace_);
  }

 private:
  void count(std::string_view name, std::int64_t by = 1) {
    trace_.quality[std::string(name)] += by;
  }

  template <typename Row>
  void rebase(Row& row) const {
    row.start_ns -= window_.start_ns;
    row.end_ns -= window_.start_ns;
  }
  bool is_in_window(std::int64_t start_ns, std::int64_t end_ns) const {
    return end_ns >= window_.start_ns && start_ns <= window_.end_ns;
  }
  StringId find_string(std::string_view text) const {
    const auto it = std::ranges::find(trace_.strings, text);
    return it == trace_.strings.end() ? 0 : static_cast<StringId>(it - trace_.strings.begin());
  }
  StringId add_string(std::string_view text) {
    const StringId id = find_string(text);
    if (id != 0) return id;
    trace_.strings.emplace_back(text);
    return static_cast<StringId>(trace_.strings.size() - 1);
  }

  std::uint32_t thread_row(std::uint64_t tid) {
    const auto [it, is_new] =
        thread_rows_.emplace(tid, static_cast<std::uint32_t>(trace_.threads.size()));
    if (is_new) trace_.threads.push_back({.tid = tid});
    return it->second;
  }

  void add_devices() {
    for (const auto& [ordinal, device] : raw_.devices) {
      device_rows_[static_cast<std::uint8_t>(ordinal)] =
          static_cast<std::uint8_t>(trace_.devices.size());
      trace_.devices.push_back({.name = device.first, .uuid = device.second});
    }
  }
  std::uint8_t device_row(std::uint8_t ordinal) {
    const auto [it, is_new] =
        device_rows_.emplace(ordinal, static_cast<std::uint8_t>(trace_.devices.size()));
    if (is_new) trace_.devices.push_back({});
    return it->second;
  }

  void add_instances() {
    for (const RangeRecorder::Thread& thread : recorded_.threads) {
      std::vector<std::uint32_t> rows(thread.instances.size(), kNoRow);
      for (std::size_t i = 0; i < thread.instances.size(); ++i) {
        std::optional<RangeInstance> row = window_row(thread.instances[i], thread.tid);
        if (!row) continue;
        if (row->parent != kNoRow) row->parent = rows[row->parent];
        if (operator_domain_ != 0 && trace_.ranges[row->range].domain == operator_domain_) {
          operators_.push_back(*row);
        } else {
          rows[i] = add_instance(*row, trace_.ranges[row->range].domain == 0);
        }
      }
      for (const RangeRecorder::Instance& instance : thread.started) {
        if (const auto row = window_row(instance, thread.tid)) add_instance(*row, false);
      }
    }
  }

  // The instance in the trace's times, its parent as it was; absent outside the window.
  std::optional<RangeInstance> window_row(const RangeRecorder::Instance& instance,
                                          std::uint64_t tid) {
    const std::int64_t end_ns =
        instance.end_ns == 0 ? std::max(window_.end_ns, instance.start_ns) : instance.end_ns;
    if (!is_in_window(instance.start_ns, end_ns)) return std::nullopt;
    return RangeInstance{.start_ns = instance.start_ns - window_.start_ns,
                         .end_ns = end_ns - window_.start_ns,
                         .range = instance.range,
                         .thread = thread_row(tid),
                         .parent = instance.parent};
  }

  std::uint32_t add_instance(const RangeInstance& instance, bool is_own) {
    trace_.range_instances.push_back(instance);
    is_own_.push_back(is_own);
    return static_cast<std::uint32_t>(trace_.range_instances.size() - 1);
  }

  // What the profiler or the driver did besides, as ranges of a domain of its own on a thread of
  // its own: tids 0 and 1, which no thread here has, for CUPTI does not say whose time it was.
  void add_overheads(std::string_view domain_name, bool is_of_driver) {
    const auto is_its = [&](const RawRecords::Overhead& overhead) {
      return overhead.is_of_driver == is_of_driver;
    };
    if (std::ranges::none_of(raw_.overheads, is_its)) return;
    const StringId domain = add_string(domain_name);
    const auto thread = static_cast<std::uint32_t>(trace_.threads.size());
    trace_.threads.push_back({.tid = is_of_driver ? 1u : 0u, .name = domain});
    std::map<StringId, std::uint32_t> ranges;
    for (const RawRecords::Overhead& overhead : raw_.overheads) {
      if (!is_its(overhead)) continue;
      if (!is_in_window(overhead.start_ns, overhead.end_ns)) continue;
      const auto [it, is_new] =
          ranges.emplace(overhead.name, static_cast<std::uint32_t>(trace_.ranges.size()));
      if (is_new) trace_.ranges.push_back({.name = overhead.name, .domain = domain});
      add_instance({.start_ns = overhead.start_ns - window_.start_ns,
                    .end_ns = overhead.end_ns - window_.start_ns,
                    .range = it->second,
                    .thread = thread},
                   false);
    }
  }

  // What starts at the same time stays in the order in which it was opened: outer before inner.
  void sort_instances() {
    std::vector<std::uint32_t> order(trace_.range_instances.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](std::uint32_t row) {
      const RangeInstance& instance = trace_.range_instances[row];
      return std::pair(instance.thread, instance.start_ns);
    });
    std::vector<std::uint32_t> new_rows(order.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) new_rows[order[i]] = i;
    std::vector<RangeInstance> sorted;
    std::vector<bool> sorted_is_own;
    sorted.reserve(order.size());
    sorted_is_own.reserve(order.size());
    for (const std::uint32_t row : order) {
      RangeInstance instance = trace_.range_instances[row];
      if (instance.parent != kNoRow) instance.parent = new_rows[instance.parent];
      sorted.push_back(instance);
      sorted_is_own.push_back(is_own_[row]);
    }
    trace_.range_instances = std::move(sorted);
    is_own_ = std::move(sorted_is_own);
  }

  bool is_named(std::uint32_t range, std::string_view name) const {
    return trace_.ranges[range].domain == 0 && trace_.text(trace_.ranges[range].name) == name;
  }

  bool is_within_step(std::uint32_t instance) const {
    for (std::uint32_t row = trace_.range_instances[instance].parent; row != kNoRow;
         row = trace_.range_instances[row].parent) {
      if (is_named(trace_.range_instances[row].range, kStepRangeName)) return true;
    }
    return false;
  }

  void find_steps() {
    for (std::uint32_t row = 0; row < trace_.range_instances.size(); ++row) {
      if (!is_own_[row]) continue;
      const RangeInstance& instance = trace_.range_instances[row];
      if (is_named(instance.range, kStepRangeName) && !is_within_step(row)) {
        // The step in which the window begins belongs to it; what is cut off at its front does not.
        if (instance.start_ns < 0) continue;
        step_rows_.push_back(row);
      } else if (is_named(instance.range, kMicroStepRangeName)) {
        micro_step_rows_.push_back(row);
      }
    }
    const auto start_of = [&](std::uint32_t row) { return trace_.range_instances[row].start_ns; };
    std::ranges::stable_sort(step_rows_, {}, start_of);
    std::ranges::stable_sort(micro_step_rows_, {}, start_of);
    for (const std::uint32_t row : step_rows_) {
      const RangeInstance& instance = trace_.range_instances[row];
      trace_.steps.push_back({.start_ns = instance.start_ns,
                              .end_ns = instance.end_ns,
                              .first_step_number = window_.first_step_number +
                                                   static_cast<std::int64_t>(trace_.steps.size())});
    }
    lookup_ = std::make_unique<RangeLookup>(trace_.range_instances, is_own_);
  }

  // Position among the sorted rows of the one that holds the moment; -1 if none does.
  std::int32_t position_at(const std::vector<std::uint32_t>& rows, std::int64_t time_ns) const {
    const auto after = std::ranges::upper_bound(
        rows, time_ns, {}, [&](std::uint32_t row) { return trace_.range_instances[row].start_ns; });
    if (after == rows.begin()) return -1;
    const auto position = static_cast<std::int32_t>(std::prev(after) - rows.begin());
    return trace_.range_instances[*std::prev(after)].end_ns > time_ns ? position : -1;
  }
  std::int32_t micro_step_of(std::int32_t step, std::int64_t time_ns) const {
    const std::int32_t position = position_at(micro_step_rows_, time_ns);
    if (step < 0 || position < 0) return -1;
    const std::int64_t step_start_ns = trace_.steps[static_cast<std::size_t>(step)].start_ns;
    const auto first = std::ranges::lower_bound(
        micro_step_rows_, step_start_ns, {},
        [&](std::uint32_t row) { return trace_.range_instances[row].start_ns; });
    return std::max(-1, position - static_cast<std::int32_t>(first - micro_step_rows_.begin()));
  }

  void add_apis() {
    // Driver calls that a runtime call made carry its correlation id.
    std::unordered_map<std::uint32_t, std::uint32_t> runtime_rows;
    std::ranges::stable_sort(raw_.apis, {}, [](const RawRecords::RawApi& raw) {
      return std::tuple(raw.is_driver, raw.api.start_ns);
    });
    for (RawRecords::RawApi& raw : raw_.apis) {
      if (!is_in_window(raw.api.start_ns, raw.api.end_ns)) continue;
      const auto row = static_cast<std::uint32_t>(trace_.apis.size());
      if (raw.is_driver && runtime_rows.contains(raw.api.correlation_id)) continue;
      runtime_rows.emplace(raw.api.correlation_id, row);
      Api api = raw.api;
      rebase(api);
      api.thread = thread_row(raw.tid);
      api.range_instance = lookup_->innermost(api.thread, api.start_ns);
      const bool is_first =
          first_correlation_id_ == 0 || api.correlation_id < first_correlation_id_;
      if (api.start_ns >= 0 && is_first) first_correlation_id_ = api.correlation_id;
      trace_.apis.push_back(api);
    }
    api_rows_ = std::move(runtime_rows);
  }

  std::uint32_t range_at(std::uint32_t thread, std::int64_t time_ns) const {
    const std::uint32_t row = lookup_->innermost(thread, time_ns);
    return row == kNoRow ? kNoRow : trace_.range_instances[row].range;
  }
  std::uint32_t step_thread_range_at(std::int32_t step, std::int64_t time_ns) const {
    if (step < 0) return kNoRow;
    const std::uint32_t row = step_rows_[static_cast<std::size_t>(step)];
    return range_at(trace_.range_instances[row].thread, time_ns);
  }

  void attribute_ops() {
    RangeTree tree(trace_.ranges, trace_.strings);
    for (GpuOp op : raw_.gpu_ops) {
      rebase(op);
      op.device = device_row(op.device);
      const auto api_row = api_rows_.find(op.correlation_id);
      const Api* api = api_row == api_rows_.end() ? nullptr : &trace_.apis[api_row->second];
      const std::int64_t launch_ns = api == nullptr ? op.start_ns : api->start_ns;
      // Correlation ids count up: the calls of what was queued before the window were not kept.
      const bool was_queued_before = api == nullptr && op.correlation_id < first_correlation_id_;
      if (was_queued_before || launch_ns < 0 || launch_ns > window_.end_ns - window_.start_ns) {
        count(quality::kOutsideWindow);
        continue;
      }
      if (api == nullptr) count(quality::kWithoutLaunch);
      if (api != nullptr && op.start_ns < api->start_ns) count(quality::kStartBeforeLaunch);
      op.step_index = position_at(step_rows_, launch_ns);
      op.micro_step_index = micro_step_of(op.step_index, launch_ns);
      const auto origin = node_origins_.find(op.graph_node_id);
      if (op.graph_node_id != 0 && origin != node_origins_.end()) {
        op.range = tree.graft(origin->second.range, origin->second.step_range);
        op.attribution = Attribution::kGraphNode;
      }
      if (op.range == kNoRow && api != nullptr) {
        op.range = tree.graft(range_at(api->thread, launch_ns),
                              step_thread_range_at(op.step_index, launch_ns));
        op.attribution = Attribution::kRange;
      }
      finish(op, tree);
    }
    attribute_added_nodes();
  }

  // A node that was put into a graph after its capture, as an edit of the graph does, was made in
  // no phase. It serves the node behind it in its stream.
  void attribute_added_nodes() {
    std::vector<std::size_t> order(trace_.gpu_ops.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, std::ranges::greater(), [&](std::size_t i) {
      const GpuOp& op = trace_.gpu_ops[i];
      return std::tuple(op.device, op.stream_id, op.start_ns, i);
    });
    const GpuOp* behind = nullptr;
    for (const std::size_t i : order) {
      GpuOp& op = trace_.gpu_ops[i];
      if (op.attribution == Attribution::kGraphNode && op.phase == Phase::kNone &&
          behind != nullptr && behind->attribution == Attribution::kGraphNode &&
          behind->device == op.device && behind->stream_id == op.stream_id &&
          behind->correlation_id == op.correlation_id) {
        op.range = behind->range;
        op.phase = behind->phase;
      }
      behind = &op;
    }
  }

  void attribute_operators() {
    if (operators_.empty()) return;
    if (trace_.devices.empty()) trace_.devices.push_back({.name = add_string("CPU")});
    RangeTree tree(trace_.ranges, trace_.strings);
    for (const RangeInstance& instance : operators_) {
      GpuOp op{.start_ns = instance.start_ns,
               .end_ns = instance.end_ns,
               .name = trace_.ranges[instance.range].name,
               .stream_id = instance.thread,
               .kind = GpuOpKind::kOperator};
      op.step_index = position_at(step_rows_, op.start_ns);
      op.micro_step_index = micro_step_of(op.step_index, op.start_ns);
      op.range = tree.graft(range_at(instance.thread, op.start_ns),
                            step_thread_range_at(op.step_index, op.start_ns));
      op.attribution = Attribution::kRange;
      finish(op, tree);
    }
  }

  void finish(GpuOp& op, const RangeTree& tree) {
    op.phase = tree.phase_of(op.range);
    if (op.range == kNoRow) op.attribution = Attribution::kNone;
    trace_.gpu_ops.push_back(op);
  }

  RawRecords raw_;
  const RangeRecorder::Snapshot& recorded_;
  const GraphNodeOrigins& node_origins_;
  const TraceWindow window_;
  Trace trace_;
  StringId operator_domain_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> thread_rows_;  // By tid.
  std::map<std::uint8_t, std::uint8_t> device_rows_;              // By ordinal.
  std::vector<RangeInstance> operators_;                          // Parent: not used.
  std::vector<bool> is_own_;  // By row of range_instances: nests in the default domain.
  std::vector<std::uint32_t> step_rows_, micro_step_rows_;     // Of range_instances, by start.
  std::unordered_map<std::uint32_t, std::uint32_t> api_rows_;  // By correlation id.
  std::uint32_t first_correlation_id_ = 0;                     // Of the window; 0: none.
  std::unique_ptr<RangeLookup> lookup_;
};

}  // namespace

Trace build_trace(RawRecords raw, const RangeRecorder::Snapshot& ranges,
                  const GraphNodeOrigins& node_origins, std::vector<std::string> strings,
                  const TraceWindow& window) {
  return TraceBuilder(std::move(raw), ranges, node_origins, std::move(strings), window).build();
}

}  // namespace steplens
