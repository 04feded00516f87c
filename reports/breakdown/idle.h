#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/trace/range_names.h"
#include "harness/trace/trace.h"
#include "reports/breakdown/intervals.h"

namespace steplens {

/// Why the device had nothing to do, in order of precedence.
enum class IdleClass : std::uint8_t {
  kProfiler,    // The profiler itself was at work.
  kAllocator,   // A call that takes memory from the driver or gives it back.
  kDataWait,    // The host was getting the next batch.
  kSync,        // The host had waited until the device was empty, and so could not launch ahead.
  kLateLaunch,  // The host launched too late for any other reason.
  kDependency,  // Launched in time: it waited for another stream, or for its own launch.
  kUnknown,
};
inline constexpr std::size_t kNumIdleClasses = 7;
using IdleTimes = std::array<std::int64_t, kNumIdleClasses>;

std::string_view name_of(IdleClass idle);   // "profiler", "data_wait", ...: part of JSON keys.
std::string_view label_of(IdleClass idle);  // "profiler", "data wait", ...

/// Is it a runtime or driver call that takes device memory from the driver or gives it back?
bool is_allocator_call(std::string_view name);
/// Does the call return only when the device has caught up?
bool is_waiting_call(std::string_view name);

/// Tells why the device was idle, from what the host did. Keeps a reference to the trace.
///
/// Host threads are those that open the ranges "step" or launch the steps' kernels; what other
/// threads do (loading, watching) delays nobody. Of an idle interval [g, h) before an operation
/// that a call launched:
///  1. profiler: what lies in a range of that domain.
///  2. If the call had returned by g, the rest is dependency: the host had done its part.
///  3. allocator: what lies in a cudaMalloc, cudaFree, cuMemMap, ... of any thread.
///  4. data wait: what lies in a range "data", or below one, of a host thread.
///  5. sync: all of the rest if a host thread waited at g and the call began at g or later, for
///     without that wait the launch could have been ahead; else only what lies in such a wait.
///  6. late launch: the rest.
/// Without a row of the call, 2 is left out and the rest at 6 is unknown. An operator of a CPU arm
/// is its own launch: it is never dependency.
class IdleClassifier {
 public:
  explicit IdleClassifier(const Trace& trace);

  /// Adds the parts of `idle` to `times`. `next_op` is a row of Trace::gpu_ops that began at its
  /// end; kNoRow if nothing did.
  void classify(Interval idle, std::uint32_t next_op, IdleTimes& times) const;

  /// The call that launched an operation. Returns nullptr if the trace has none.
  const Api* launch_of(const GpuOp& op) const;

 private:
  std::optional<Interval> launch_interval(std::uint32_t op) const;
  std::vector<bool> find_host_threads() const;
  void collect_calls(const std::vector<bool>& is_host_thread);
  void collect_ranges(const std::vector<bool>& is_host_thread);

  const Trace& trace_;
  std::vector<std::uint32_t> apis_by_correlation_;  // Rows; of one id, the outermost call first.
  Intervals profiler_;
  Intervals allocator_;
  Intervals data_;
  Intervals waits_;
};

}  // namespace steplens
