#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/trace/trace.h"
#include "viewer/data/counter_series.h"
#include "viewer/data/load_progress.h"
#include "viewer/data/names.h"
#include "viewer/data/pod_vector.h"
#include "viewer/data/slice_row.h"

/// A trace as the viewer holds it: what is drawn is in lanes, what a tooltip says in small columns
/// beside them. About 50 bytes an operation; the rows of Trace take 72 before anything is drawn.
namespace steplens {

enum class LaneKind : std::uint8_t {
  kSteps,      // On the device's clock. Slice::row: of Trace::steps.
  kPhases,     // Runs of operations of one phase on the busiest stream. Row: its first operation.
  kModules,    // The same of modules.
  kStream,     // Operations of one stream. Row: of Trace::gpu_ops.
  kGraph,      // Nodes of CUDA graphs, whatever their streams: computation, or communication.
  kOperators,  // The same of a thread of a CPU arm.
  kRanges,     // Ranges of one thread. Row: of Trace::range_instances.
  kCalls,      // Calls of the runtime and driver of one thread. Row: of Trace::apis.
  kSyncs,      // Row: of Trace::syncs.
};
/// Do the slices of the lane stand for rows of Trace::gpu_ops?
constexpr bool has_operations(LaneKind kind) {
  return kind == LaneKind::kStream || kind == LaneKind::kGraph || kind == LaneKind::kOperators;
}

/// Is it about what the host did, on its clock?
constexpr bool is_of_host(LaneKind kind) {
  return kind == LaneKind::kRanges || kind == LaneKind::kCalls || kind == LaneKind::kSyncs;
}

/// `Lane::id` of a kGraph.
inline constexpr std::uint32_t kGraphComputation = 0;
inline constexpr std::uint32_t kGraphCommunication = 1;

struct Lane {
  LaneKind kind = LaneKind::kStream;
  std::string title;  // "Stream 7"
  std::string note;   // "NVIDIA H200 · 12,345 operations"
  std::uint32_t device = 0;
  std::uint32_t id = 0;        // Stream, kGraph..., or row of Trace::threads.
  std::vector<SliceRow> rows;  // Overlapping slices are in different ones.

  std::size_t num_slices() const;
  std::int64_t busy_ns() const;  // Sum of durations.
};

/// What an operation is besides a slice.
struct OpDetail {
  std::uint32_t correlation_id = 0;
  std::uint32_t launch_shape = kNoRow;
  std::uint32_t range = kNoRow;
  std::int32_t step_index = -1;
  std::int16_t micro_step_index = -1;  // Those above 32,767 count as that.
  GpuOpKind kind : 3 = GpuOpKind::kKernel;
  CopyKind copy_kind : 3 = CopyKind::kNone;
  Phase phase : 3 = Phase::kNone;
  Attribution attribution : 3 = Attribution::kNone;
};
static_assert(sizeof(OpDetail) == 20);

/// Where a slice stands.
struct SliceRef {
  std::uint32_t lane = 0;
  std::uint32_t lane_row = 0;
  std::uint32_t index = 0;
  bool operator==(const SliceRef&) const = default;
};

/// Immutable once loaded; any number of threads may read it.
struct TraceModel {
  Trace tables;  // Without operations, calls and range instances.
  NameTable names;
  std::vector<std::string> range_paths;    // By row of Trace::ranges: "step/forward/block 3".
  std::vector<std::string> range_modules;  // The same: "block 3/attention"; empty of structure.
  std::vector<Lane> lanes;                 // In the order in which they are drawn.
  std::vector<CounterSeries> counters;

  // By row of Trace::gpu_ops.
  PodVector<OpDetail> ops;
  std::vector<std::uint64_t> graph_node_ids;                     // Empty: no graphs.
  std::vector<std::pair<std::uint32_t, std::int64_t>> op_bytes;  // Row, bytes; sorted.
  // By row of Trace::apis.
  PodVector<std::uint32_t> call_correlation_ids;
  PodVector<std::uint32_t> call_range_instances;
  std::vector<std::pair<std::uint32_t, std::int32_t>> failed_calls;  // Row, value; sorted.
  // By row of Trace::range_instances.
  PodVector<std::uint32_t> instance_ranges;

  /// By row of Trace::steps: from the start of its first operation on the device, copies and sets
  /// of the data phase aside; of a step without one, its start on the host. With one more entry:
  /// where the last one ends. Empty without steps.
  std::vector<std::int64_t> step_bounds_ns;
  std::int64_t start_ns = 0;  // Of everything in it.
  std::int64_t end_ns = 0;
  std::int64_t num_operations = 0;
  std::vector<std::string> banners;  // What is missing or damaged; sentences.

  int num_steps() const {
    return step_bounds_ns.empty() ? 0 : static_cast<int>(step_bounds_ns.size()) - 1;
  }
  const Slice& slice(const SliceRef& ref) const {
    return lanes[ref.lane].rows[ref.lane_row].slices()[ref.index];
  }
  /// Zero of the step-relative axis: where the step begins, or the first operation.
  std::int64_t origin_ns(int step_index) const;
  std::int64_t bytes_of(std::uint32_t op_row) const;  // 0 if it moves none.
  std::size_t num_bytes() const;                      // Memory of what grows with operations.
};

/// The slice of a row of Trace::gpu_ops.
std::optional<SliceRef> find_operation(const TraceModel& model, std::uint32_t row);

/// The call that launched an operation: of several with its correlation id, the first.
std::optional<SliceRef> find_launch(const TraceModel& model, std::uint32_t op_row);

/// The first operation that a call launched.
std::optional<std::uint32_t> find_launched(const TraceModel& model, std::uint32_t call_row);

/// Makes the model of a trace in memory. The trace's large tables are gone afterwards.
std::shared_ptr<const TraceModel> make_trace_model(Trace trace, int num_threads = 1);

/// Opens a trace.slt, Chrome or Kineto JSON (gz too), or SQLite of Nsight Systems, as far as it
/// goes: `banners` says what is missing. ConfigError where it is none of these, cannot be read at
/// all, or loading was cancelled.
std::shared_ptr<const TraceModel> load_trace_model(const std::filesystem::path& path,
                                                   LoadProgress& progress);

/// The whole trace in memory, for analyses that need it.
Trace read_any_trace(const std::filesystem::path& path, LoadProgress& progress);

}  // namespace steplens
