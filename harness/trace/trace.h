#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

/// One recorded window of steps, whole in memory: the tables of trace.slt. Everything that records
/// (CUPTI, NVTX, operators, allocator, NVML, counters) ends up here and everything that analyses or
/// draws starts from here. Rows refer to each other by index and to text by StringId.
///
/// Times are int64 nanoseconds since the run's start (`TraceInfo::start_unix_ns`); they may be
/// negative for what began before it. Tables need no order unless stated.
namespace steplens {

/// Index into Trace::strings; 0 is the empty string.
using StringId = std::uint32_t;

/// "No such row" in a column of row indices.
inline constexpr std::uint32_t kNoRow = std::numeric_limits<std::uint32_t>::max();

enum class GpuOpKind : std::uint8_t {
  kKernel,
  kCopy,
  kSet,       // memset
  kGraph,     // A whole graph launch (run kind graph-trace).
  kOperator,  // On a CPU arm: one operator, outermost; the "stream" is its thread.
};
std::string_view name_of(GpuOpKind kind);  // "kernel", "copy", "set", "graph", "operator"

enum class CopyKind : std::uint8_t {
  kNone,
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kPeerToPeer,
  kHostToHost,
  kOther
};
std::string_view name_of(CopyKind kind);  // "", "h2d", "d2h", "d2d", "p2p", "h2h", "other"

enum class MemoryKind : std::uint8_t { kUnknown, kPageable, kPinned, kDevice, kManaged, kArray };
std::string_view name_of(MemoryKind kind);  // "unknown", "pageable", "pinned", ...

/// What part of a step an operation belongs to.
enum class Phase : std::uint8_t { kNone, kData, kForward, kBackward, kClip, kOptimizer, kOther };
std::string_view name_of(Phase phase);  // "", "data", "forward", "backward", "clip", ...

/// How an operation got its range, best first.
enum class Attribution : std::uint8_t {
  kNone,
  kRange,      // The range that was open on the launching thread.
  kSequence,   // Nobody sets it: ranges name the backward pass. Keeps the next number on disk.
  kGraphNode,  // The range that was open when the graph's node was captured.
};
std::string_view name_of(Attribution attribution);  // "none", "range", "sequence", "graph_node"

/// Grid, block and resources of a kernel launch; few distinct ones, so they are a table.
struct LaunchShape {
  std::uint32_t grid_x = 0, grid_y = 0, grid_z = 0;
  std::uint32_t block_x = 0, block_y = 0, block_z = 0;
  std::uint32_t registers_per_thread = 0;
  std::uint32_t static_shared_bytes = 0, dynamic_shared_bytes = 0;
  bool operator==(const LaunchShape&) const = default;
};

/// Anything that occupied the device.
struct GpuOp {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t bytes = 0;               // Copies and sets.
  std::uint64_t graph_node_id = 0;      // 0: not launched by a graph.
  StringId name = 0;                    // Kernels: mangled, as CUPTI gives it.
  std::uint32_t correlation_id = 0;     // Joins the Api row that launched it; 0: none.
  std::uint32_t stream_id = 0;          // CUPTI's; of an operator: row of Trace::threads.
  std::uint32_t launch_shape = kNoRow;  // Row of Trace::launch_shapes.
  std::uint32_t range = kNoRow;         // Row of Trace::ranges: the module, or what is known.
  std::int32_t step_index = -1;         // Row of Trace::steps; -1: outside all steps.
  std::int32_t micro_step_index = -1;   // Within the step; -1: outside all micro-steps.
  GpuOpKind kind = GpuOpKind::kKernel;
  CopyKind copy_kind = CopyKind::kNone;
  MemoryKind source_memory = MemoryKind::kUnknown;  // Copies.
  MemoryKind target_memory = MemoryKind::kUnknown;
  Phase phase = Phase::kNone;
  Attribution attribution = Attribution::kNone;
  std::uint8_t device = 0;  // Row of Trace::devices.
  bool operator==(const GpuOp&) const = default;
};

/// A call of the CUDA runtime or driver.
struct Api {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  StringId name = 0;
  std::uint32_t correlation_id = 0;
  std::uint32_t thread = kNoRow;          // Row of Trace::threads.
  std::uint32_t range_instance = kNoRow;  // Innermost range open on the thread at its start.
  std::int32_t return_value = 0;
  bool operator==(const Api&) const = default;
};

/// A node of the tree of range names: "forward" below "micro_step" below "step".
struct Range {
  StringId name = 0;
  StringId domain = 0;            // NVTX domain; 0: the default one.
  std::uint32_t parent = kNoRow;  // Row of Trace::ranges, smaller than this row's.
  bool operator==(const Range&) const = default;
};

/// One time that a range was open. Sorted by thread, then start; outer before inner.
struct RangeInstance {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t range = kNoRow;   // Row of Trace::ranges.
  std::uint32_t thread = kNoRow;  // Row of Trace::threads.
  std::uint32_t parent = kNoRow;  // Row of Trace::range_instances: the range around it.
  bool operator==(const RangeInstance&) const = default;
};

/// A wait of the host or of a stream.
struct Sync {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  StringId name = 0;  // "event", "stream", "stream wait event", "context"
  std::uint32_t correlation_id = 0;
  std::uint32_t stream_id = 0;
  bool operator==(const Sync&) const = default;
};

/// What a piece of device memory is for.
enum class MemoryOwner : std::uint8_t {
  kUnknown,
  kParameters,
  kGradients,
  kOptimizerState,
  kActivations,
  kWorkspace,
  kGraphPool,
  kData,
};
std::string_view name_of(MemoryOwner owner);  // "unknown", "parameters", ...

enum class AllocAction : std::uint8_t {
  kAlloc,         // A block was handed out.
  kFree,          // A block came back.
  kSegmentAlloc,  // The cache took memory from the driver,
  kSegmentFree,   // or gave it back.
  kSegmentMap,    // Expandable segments.
  kSegmentUnmap,
  kOutOfMemory,
};
std::string_view name_of(AllocAction action);  // "alloc", "free", "segment_alloc", ...

/// One action of the caching allocator, in the order in which they happened.
struct Alloc {
  std::int64_t time_ns = 0;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;  // Never negative; the action gives the sign.
  std::uint32_t range = kNoRow;
  std::int32_t step_index = -1;
  AllocAction action = AllocAction::kAlloc;
  MemoryOwner owner = MemoryOwner::kUnknown;  // Of an alloc.
  Phase phase = Phase::kNone;
  std::uint8_t device = 0;
  bool operator==(const Alloc&) const = default;
};

/// A measured quantity over time. A track without samples has a reason.
struct CounterTrack {
  StringId name = 0;  // "sm_active", "power", ...
  StringId unit = 0;  // "ratio" (0 to 1), "W", "MHz", "B", "C", "B/s"
  StringId absent_reason = 0;
  bool operator==(const CounterTrack&) const = default;
};
/// Sorted by track, then time.
struct CounterSample {
  std::int64_t time_ns = 0;
  double value = 0;
  std::uint32_t track = kNoRow;
  bool operator==(const CounterSample&) const = default;
};

/// One optimizer step as the host saw it: its outermost range. In order.
struct Step {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t first_step_number = 0;  // Of the run, warm-up included.
  bool operator==(const Step&) const = default;
};

struct ThreadInfo {
  std::uint64_t tid = 0;
  StringId name = 0;
  bool operator==(const ThreadInfo&) const = default;
};

struct DeviceInfo {
  StringId name = 0;
  StringId uuid = 0;
  bool operator==(const DeviceInfo&) const = default;
};

/// Names of the counters in Trace::quality. All count rows unless the name says a unit.
namespace quality {
inline constexpr std::string_view kDropped = "dropped";                  // CUPTI says so.
inline constexpr std::string_view kNullRequests = "null_requests";       // No buffer was free.
inline constexpr std::string_view kZeroTimestamps = "zero_timestamps";   // Excluded.
inline constexpr std::string_view kEndBeforeStart = "end_before_start";  // Excluded.
inline constexpr std::string_view kStartBeforeLaunch = "start_before_launch";
inline constexpr std::string_view kOutsideWindow = "outside_window";  // Excluded.
inline constexpr std::string_view kUnknownKind = "unknown_kind";      // Excluded.
inline constexpr std::string_view kUnattributed = "unattributed";
inline constexpr std::string_view kWithoutLaunch = "without_launch";  // No Api row.
inline constexpr std::string_view kOpenRanges = "open_ranges";        // Closed without being open.
inline constexpr std::string_view kPeakSlabs = "peak_slabs";
inline constexpr std::string_view kMaxDecodeLagNs = "max_decode_lag_ns";
inline constexpr std::string_view kClockResidualNs = "clock_residual_ns";  // Largest bracket.
inline constexpr std::string_view kTruncated = "truncated";  // 1: read from a file without its end.
// Chunks that could not be read and were passed over.
inline constexpr std::string_view kDamagedChunks = "damaged_chunks";
// Of hardware counters, in samples of all counters at once:
inline constexpr std::string_view kCounterSamples = "counter_samples";       // Kept.
inline constexpr std::string_view kCounterOverflows = "counter_overflows";   // Of the GPU's buffer.
inline constexpr std::string_view kCounterGaps = "counter_missing_samples";  // Not there in time.
inline constexpr std::string_view kCounterInvalid = "counter_invalid_samples";  // Excluded.
}  // namespace quality

/// Rows that the trace lacks, or may lack: dropped, null requests, unknown kinds, truncation,
/// overflows of the counters' buffer.
bool has_lost_data(const std::map<std::string, std::int64_t>& quality);

struct Trace {
  /// What was recorded: run kind, arm, config, programs, versions, start_unix_ns, step count.
  nlohmann::json info = nlohmann::json::object();
  std::vector<std::string> strings = {""};
  std::vector<GpuOp> gpu_ops;
  std::vector<LaunchShape> launch_shapes;
  std::vector<Api> apis;
  std::vector<Range> ranges;
  std::vector<RangeInstance> range_instances;
  std::vector<Sync> syncs;
  std::vector<Alloc> allocs;
  std::vector<CounterTrack> counter_tracks;
  std::vector<CounterSample> counter_samples;
  std::vector<Step> steps;
  std::vector<ThreadInfo> threads;
  std::vector<DeviceInfo> devices;
  std::map<std::string, std::int64_t> quality;

  const std::string& text(StringId id) const { return strings[id]; }
};

}  // namespace steplens
