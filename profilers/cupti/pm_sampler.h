#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profilers/cupti/pm_sampling_api.h"
#include "profilers/periodic_thread.h"
#include "profilers/trace/pm_samples.h"

namespace steplens {

/// One hardware counter that is sampled.
struct PmMetric {
  std::string_view name;  // Of its track in the trace.
  const char* metric;     // As CUPTI calls it; a percentage of the peak where nothing else is said.
  std::string_view unit = "ratio";
  double scale = 0.01;  // From CUPTI's value to the unit.
  /// Values are rounded to it, so that a trace is half as large: 0.006 %.
  double resolution = 0x1p-14;
};
/// The most wanted first: what does not fit into one pass of the hardware is left out from behind.
std::span<const PmMetric> pm_metrics();

struct PmSamplerOptions {
  /// A mean kernel of model gpt2-124m on an H200: 1,074 of them in 111 ms.
  std::int64_t interval_ns = 100'000;
  /// Seconds of raw samples of a large GPU, so that a decode thread that had to wait loses none.
  std::size_t hardware_buffer_bytes = std::size_t{256} << 20;
  std::uint32_t max_samples_per_decode = 2'000;
  std::chrono::nanoseconds decode_period = std::chrono::milliseconds(50);
};

/// Samples the hardware counters of one GPU, whoever uses it, from `start` to `stop`. A thread of
/// its own takes the samples out of the GPU's buffer meanwhile.
class PmSampler {
 public:
  /// `api` outlives this.
  explicit PmSampler(const PmSamplingApi& api, const PmSamplerOptions& options = {});
  ~PmSampler();
  PmSampler(const PmSampler&) = delete;
  PmSampler& operator=(const PmSampler&) = delete;

  /// Configures the device of this CUDA ordinal and starts, once. Returns why it cannot: no
  /// permission, an unknown chip, not one counter that fits; empty if it samples now. Call on a
  /// thread that uses CUDA; it may take a while.
  std::string start(std::size_t device_index);

  /// Samples from this time on are kept; before the call none is. Unix ns.
  void open_window(std::int64_t start_ns) { window_start_ns_ = start_ns; }

  /// Ends sampling and takes what the GPU still holds. Can be called again, and without `start`.
  void stop();

  /// After `stop`.
  PmSamples take_samples();

 private:
  class Host;
  void configure(std::size_t device_index);
  void choose_metrics(const std::string& chip, std::span<const std::uint8_t> availability);
  void decode();
  std::size_t take_completed();
  void take_sample(std::size_t index);
  std::string error_text(const char* call, CUptiResult result) const;
  void check(const char* call, CUptiResult result) const;
  void reset_counter_data();

  const PmSamplingApi& api_;
  const PmSamplerOptions options_;
  std::unique_ptr<Host> host_;
  std::vector<const char*> metrics_;      // That are sampled.
  std::vector<const PmMetric*> sampled_;  // The same, in the same order.
  std::vector<std::uint8_t> config_image_;
  std::vector<std::uint8_t> counter_data_;
  CUpti_PmSampling_Object* object_ = nullptr;
  bool is_running_ = false;
  std::atomic<std::int64_t> window_start_ns_;
  std::int64_t previous_end_ns_ = 0;  // Of the last valid sample; 0: none yet.
  std::vector<double> raw_values_;    // Of one sample, as CUPTI gives them.
  PmSamples samples_;
  std::optional<PeriodicThread> thread_;  // Last: it ends before what it uses.
};

/// What a trace says of counters where sampling never began.
PmSamples absent_pm_samples(const std::string& reason);

}  // namespace steplens
