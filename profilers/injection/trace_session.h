#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "harness/trace/trace_request.h"
#include "profilers/cupti/cupti_collector.h"
#include "profilers/cupti/pm_sampler.h"
#include "profilers/trace/build_trace.h"
#include "profilers/trace/range_recorder.h"

namespace steplens {

/// Records one window of the process that it lives in and writes it: ranges always, the GPU's work
/// once `start_cuda` was called.
class TraceSession {
 public:
  explicit TraceSession(TraceRequest request);

  RangeRecorder& ranges() { return ranges_; }

  /// Call before the process's first CUDA call. `cupti`: null if it is not there, and `why_not`
  /// then says why; a subscriber conflict likewise becomes the trace's `cuda_absent_reason`.
  void start_cuda(const CuptiApi* cupti, const std::string& why_not);

  /// Does the request want hardware counters?
  bool wants_counters() const { return request_.kind == TraceKind::kCounters; }

  /// Likewise for counters, with the reason in the trace's tracks if `api` is null. Sampling begins
  /// in the first step that the program does, window or not, on the device that its thread uses.
  void start_counters(const PmSamplingApi* api, const std::string& why_not);

  /// Ends the window if it is still open and writes the file, once. Returns why the file was not
  /// written; empty if it was. Waits for the device only if a window was open.
  std::string finish();

  /// Waits until the device has done all that was launched; replaceable for tests.
  using Fence = void (*)();
  void set_fence(Fence fence) { fence_ = fence; }

  /// Ordinal of the calling thread's current device, if it has one; replaceable likewise.
  using CurrentDevice = std::optional<std::size_t> (*)();
  void set_current_device(CurrentDevice current_device) { current_device_ = current_device; }

 private:
  void begin_step(std::int64_t step_number, std::int64_t time_ns);
  void end_step(std::int64_t step_number);
  void start_sampling();
  void open_window(std::int64_t start_ns, std::int64_t step_number);
  void close_window();
  void write();

  const TraceRequest request_;
  StringTable names_;
  RangeRecorder ranges_;
  std::unique_ptr<CuptiCollector> collector_;
  std::string cuda_absent_reason_ = "the program made no CUDA call";
  Fence fence_;
  CurrentDevice current_device_;
  const PmSamplingApi* pm_sampling_ = nullptr;
  std::unique_ptr<PmSampler> sampler_;  // Of a device that gives its counters.
  std::string counters_absent_reason_ = "the program made no CUDA call";

  std::mutex mutex_;  // Guards what follows.
  std::optional<TraceWindow> window_;
  std::int64_t num_steps_done_ = 0;
  bool is_closed_ = false;
  bool is_written_ = false;
  std::string failure_;
};

}  // namespace steplens
