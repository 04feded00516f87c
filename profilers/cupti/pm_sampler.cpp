#include "profilers/cupti/pm_sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// dramc__*, which some chips have as well, reads near 0 on an H200.
constexpr std::array kMetrics = {
    PmMetric{"sm_active", "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"},
    PmMetric{"tensor_active",
             "sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed"},
    PmMetric{"dram_read", "dram__read_throughput.avg.pct_of_peak_sustained_elapsed"},
    PmMetric{"dram_write", "dram__write_throughput.avg.pct_of_peak_sustained_elapsed"},
    PmMetric{"dram_use", "dram__throughput.avg.pct_of_peak_sustained_elapsed"},
    PmMetric{"sm_instructions", "sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed"},
    PmMetric{"gpu_active", "gr__cycles_active.sum.pct_of_peak_sustained_elapsed"},
    PmMetric{"idle_warp_slots",
             "tpc__warps_inactive_sm_active_realtime.avg.pct_of_peak_sustained_elapsed"},
    // What the SMs really ran at: it follows the power limit within a sample, NVML's does not.
    PmMetric{.name = "sm_clock",
             .metric = "sm__cycles_elapsed.avg.per_second",
             .unit = "MHz",
             .scale = 1e-6,
             .resolution = 0.25},
    PmMetric{"pcie_read", "pcie__read_bytes.avg.pct_of_peak_sustained_elapsed"},
    PmMetric{"pcie_write", "pcie__write_bytes.avg.pct_of_peak_sustained_elapsed"},
};

// Every call of this API takes a struct that begins with its size and a null.
template <typename Params>
Params sized(std::size_t size) {
  Params params{};
  params.structSize = size;
  return params;
}

}  // namespace

std::span<const PmMetric> pm_metrics() { return kMetrics; }

PmSamples absent_pm_samples(const std::string& reason) {
  PmSamples samples;
  for (const PmMetric& metric : kMetrics) {
    samples.counters.push_back({.name = metric.name, .unit = metric.unit, .absent_reason = reason});
  }
  return samples;
}

// The library's object that knows the chip's metrics. Metrics can be added to one only once.
class PmSampler::Host {
 public:
  Host(const PmSampler& sampler, const std::string& chip,
       std::span<const std::uint8_t> availability)
      : sampler_(sampler) {
    auto params = sized<CUpti_Profiler_Host_Initialize_Params>(
        CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
    params.profilerType = CUPTI_PROFILER_TYPE_PM_SAMPLING;
    params.pChipName = chip.c_str();
    params.pCounterAvailabilityImage = availability.empty() ? nullptr : availability.data();
    sampler_.check("cuptiProfilerHostInitialize", sampler_.api_.host_initialize(&params));
    object_ = params.pHostObject;
  }
  ~Host() {
    auto params = sized<CUpti_Profiler_Host_Deinitialize_Params>(
        CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
    params.pHostObject = object_;
    sampler_.api_.host_deinitialize(&params);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  bool has(const char* metric) const {
    auto params = sized<CUpti_Profiler_Host_GetMetricProperties_Params>(
        CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE);
    params.pHostObject = object_;
    params.pMetricName = metric;
    return sampler_.api_.metric_properties(&params) == CUPTI_SUCCESS;
  }

  // The image that configures the device for all of `metrics`.
  std::vector<std::uint8_t> configure(std::vector<const char*>& metrics) {
    auto added = sized<CUpti_Profiler_Host_ConfigAddMetrics_Params>(
        CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
    added.pHostObject = object_;
    added.ppMetricNames = metrics.data();
    added.numMetrics = metrics.size();
    sampler_.check("cuptiProfilerHostConfigAddMetrics", sampler_.api_.add_metrics(&added));
    auto size = sized<CUpti_Profiler_Host_GetConfigImageSize_Params>(
        CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
    size.pHostObject = object_;
    sampler_.check("cuptiProfilerHostGetConfigImageSize", sampler_.api_.config_image_size(&size));
    std::vector<std::uint8_t> image(size.configImageSize);
    auto filled = sized<CUpti_Profiler_Host_GetConfigImage_Params>(
        CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
    filled.pHostObject = object_;
    filled.configImageSize = image.size();
    filled.pConfigImage = image.data();
    sampler_.check("cuptiProfilerHostGetConfigImage", sampler_.api_.config_image(&filled));
    // Seen without a driver: all of it succeeds, and the image is empty.
    if (image.empty()) throw DeviceError("CUPTI made an empty configuration for the counters");
    return image;
  }

  void evaluate(std::span<const std::uint8_t> counter_data, std::size_t index,
                std::vector<const char*>& metrics, std::vector<double>& values) const {
    auto params = sized<CUpti_Profiler_Host_EvaluateToGpuValues_Params>(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
    params.pHostObject = object_;
    params.pCounterDataImage = counter_data.data();
    params.counterDataImageSize = counter_data.size();
    params.rangeIndex = index;
    params.ppMetricNames = metrics.data();
    params.numMetrics = metrics.size();
    params.pMetricValues = values.data();
    sampler_.check("cuptiProfilerHostEvaluateToGpuValues", sampler_.api_.evaluate(&params));
  }

 private:
  const PmSampler& sampler_;
  CUpti_Profiler_Host_Object* object_ = nullptr;
};

PmSampler::PmSampler(const PmSamplingApi& api, const PmSamplerOptions& options)
    : api_(api),
      options_(options),
      window_start_ns_(kNever) {}

PmSampler::~PmSampler() { stop(); }

std::string PmSampler::error_text(const char* call, CUptiResult result) const {
  const char* text = nullptr;
  if (api_.result_string(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "error";
  std::string what = fmt::format("{}: {} ({})", call, text, static_cast<int>(result));
  if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) {
    return fmt::format(
        "this process may not read performance counters; `steplens doctor` says what to do ({})",
        what);
  }
  return what;
}

void PmSampler::check(const char* call, CUptiResult result) const {
  if (result != CUPTI_SUCCESS) throw DeviceError(error_text(call, result));
}

std::string PmSampler::start(std::size_t device_index) {
  SL_CHECK(object_ == nullptr && !is_running_);
  try {
    configure(device_index);
    return "";
  } catch (const DeviceError& error) {
    stop();
    samples_ = absent_pm_samples(error.what());
    return error.what();
  }
}

// Fills metrics_, config_image_ and samples_.counters: all metrics at once if they fit into one
// pass, else one after the other those that still do.
void PmSampler::choose_metrics(const std::string& chip,
                               std::span<const std::uint8_t> availability) {
  const auto try_metrics = [&](std::vector<const char*> metrics) {
    auto host = std::make_unique<Host>(*this, chip, availability);
    std::vector<std::uint8_t> image = host->configure(metrics);
    auto passes = sized<CUpti_Profiler_Host_GetNumOfPasses_Params>(
        CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE);
    passes.configImageSize = image.size();
    passes.pConfigImage = image.data();
    check("cuptiProfilerHostGetNumOfPasses", api_.num_passes(&passes));
    if (passes.numOfPasses != 1) return false;
    host_ = std::move(host);
    metrics_ = std::move(metrics);
    sampled_.clear();
    for (const char* name : metrics_) {
      sampled_.push_back(&*std::ranges::find(kMetrics, name, &PmMetric::metric));
    }
    config_image_ = std::move(image);
    return true;
  };
  std::vector<const char*> known;
  {
    const Host host(*this, chip, availability);
    for (const PmMetric& metric : kMetrics) {
      const bool is_known = host.has(metric.metric);
      if (is_known) known.push_back(metric.metric);
      samples_.counters.push_back(
          {.name = metric.name,
           .unit = metric.unit,
           .absent_reason = is_known ? "" : fmt::format("chip {} has no {}", chip, metric.metric)});
    }
  }
  if (known.empty()) throw DeviceError(fmt::format("chip {} has none of the counters", chip));
  if (try_metrics(known)) return;
  for (std::size_t i = 0; i < kMetrics.size(); ++i) {
    if (!samples_.counters[i].absent_reason.empty()) continue;
    std::vector<const char*> more = metrics_;
    more.push_back(kMetrics[i].metric);
    if (!try_metrics(std::move(more))) {
      samples_.counters[i].absent_reason =
          "does not fit into one pass of the hardware beside the counters before it";
    }
  }
  if (metrics_.empty()) throw DeviceError("each counter needs more than one pass of the hardware");
}

void PmSampler::configure(std::size_t device_index) {
  auto initialized =
      sized<CUpti_Profiler_Initialize_Params>(CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
  check("cuptiProfilerInitialize", api_.initialize(&initialized));
  auto chip = sized<CUpti_Device_GetChipName_Params>(CUpti_Device_GetChipName_Params_STRUCT_SIZE);
  chip.deviceIndex = device_index;
  check("cuptiDeviceGetChipName", api_.chip_name(&chip));
  auto available = sized<CUpti_PmSampling_GetCounterAvailability_Params>(
      CUpti_PmSampling_GetCounterAvailability_Params_STRUCT_SIZE);
  available.deviceIndex = device_index;
  check("cuptiPmSamplingGetCounterAvailability", api_.counter_availability(&available));
  std::vector<std::uint8_t> availability(available.counterAvailabilityImageSize);
  available.pCounterAvailabilityImage = availability.data();
  check("cuptiPmSamplingGetCounterAvailability", api_.counter_availability(&available));
  choose_metrics(chip.pChipName == nullptr ? "" : chip.pChipName, availability);

  auto enabled = sized<CUpti_PmSampling_Enable_Params>(CUpti_PmSampling_Enable_Params_STRUCT_SIZE);
  enabled.deviceIndex = device_index;
  check("cuptiPmSamplingEnable", api_.enable(&enabled));
  object_ = enabled.pPmSamplingObject;
  auto config =
      sized<CUpti_PmSampling_SetConfig_Params>(CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE);
  config.pPmSamplingObject = object_;
  config.configSize = config_image_.size();
  config.pConfig = config_image_.data();
  config.hardwareBufferSize = options_.hardware_buffer_bytes;
  config.samplingInterval = static_cast<std::uint64_t>(options_.interval_ns);
  config.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL;
  // The other mode overwrites in silence.
  config.hwBufferAppendMode = CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST;
  check("cuptiPmSamplingSetConfig", api_.set_config(&config));
  auto size = sized<CUpti_PmSampling_GetCounterDataSize_Params>(
      CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE);
  size.pPmSamplingObject = object_;
  size.pMetricNames = metrics_.data();
  size.numMetrics = metrics_.size();
  size.maxSamples = options_.max_samples_per_decode;
  check("cuptiPmSamplingGetCounterDataSize", api_.counter_data_size(&size));
  counter_data_.resize(size.counterDataSize);
  reset_counter_data();
  raw_values_.resize(metrics_.size());
  samples_.interval_ns = options_.interval_ns;

  auto started = sized<CUpti_PmSampling_Start_Params>(CUpti_PmSampling_Start_Params_STRUCT_SIZE);
  started.pPmSamplingObject = object_;
  check("cuptiPmSamplingStart", api_.start(&started));
  is_running_ = true;
  thread_.emplace(options_.decode_period, [this] { decode(); });
}

void PmSampler::reset_counter_data() {
  auto params = sized<CUpti_PmSampling_CounterDataImage_Initialize_Params>(
      CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE);
  params.pPmSamplingObject = object_;
  params.counterDataSize = counter_data_.size();
  params.pCounterData = counter_data_.data();
  check("cuptiPmSamplingCounterDataImageInitialize", api_.initialize_counter_data(&params));
}

// Takes all that the GPU's buffer holds. After a failure there is nothing more to be had.
void PmSampler::decode() {
  if (!samples_.failure.empty()) return;
  try {
    while (true) {
      auto params =
          sized<CUpti_PmSampling_DecodeData_Params>(CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE);
      params.pPmSamplingObject = object_;
      params.pCounterDataImage = counter_data_.data();
      params.counterDataImageSize = counter_data_.size();
      const CUptiResult result = api_.decode(&params);
      const bool is_overflow = params.overflow != 0 || result == CUPTI_ERROR_OUT_OF_MEMORY;
      if (is_overflow) ++samples_.num_overflows;
      if (!is_overflow) check("cuptiPmSamplingDecodeData", result);
      const std::size_t num_taken = take_completed();
      reset_counter_data();
      const bool has_more =
          params.decodeStopReason == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL;
      if (!has_more || num_taken == 0 || result != CUPTI_SUCCESS) return;
    }
  } catch (const DeviceError& error) {
    samples_.failure = error.what();
  }
}

std::size_t PmSampler::take_completed() {
  auto info = sized<CUpti_PmSampling_GetCounterDataInfo_Params>(
      CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE);
  info.pCounterDataImage = counter_data_.data();
  info.counterDataImageSize = counter_data_.size();
  check("cuptiPmSamplingGetCounterDataInfo", api_.counter_data_info(&info));
  for (std::size_t i = 0; i < info.numCompletedSamples; ++i) take_sample(i);
  return info.numCompletedSamples;
}

void PmSampler::take_sample(std::size_t index) {
  auto times = sized<CUpti_PmSampling_CounterData_GetSampleInfo_Params>(
      CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE);
  times.pPmSamplingObject = object_;
  times.pCounterDataImage = counter_data_.data();
  times.counterDataImageSize = counter_data_.size();
  times.sampleIndex = index;
  check("cuptiPmSamplingCounterDataGetSampleInfo", api_.sample_info(&times));
  const auto start_ns = static_cast<std::int64_t>(times.startTimestamp);
  const auto end_ns = static_cast<std::int64_t>(times.endTimestamp);
  const std::int64_t middle_ns = start_ns + (end_ns - start_ns) / 2;
  if (end_ns < window_start_ns_) {
    if (start_ns > 0 && end_ns > start_ns) previous_end_ns_ = end_ns;
    return;
  }
  // Neighbours may share some ns.
  const std::int64_t slack_ns = options_.interval_ns / 2;
  if (start_ns <= 0 || end_ns <= start_ns || start_ns < previous_end_ns_ - slack_ns) {
    ++samples_.num_invalid_samples;
    return;
  }
  if (previous_end_ns_ > 0) {
    const std::int64_t gap_ns = start_ns - previous_end_ns_;
    samples_.num_missing_samples += (gap_ns + slack_ns) / options_.interval_ns;
  }
  previous_end_ns_ = end_ns;
  if (middle_ns < window_start_ns_) return;
  host_->evaluate(counter_data_, index, metrics_, raw_values_);
  samples_.times_ns.push_back(middle_ns);
  for (std::size_t i = 0; i < sampled_.size(); ++i) {
    const PmMetric& metric = *sampled_[i];
    samples_.values.push_back(std::round(raw_values_[i] * metric.scale / metric.resolution) *
                              metric.resolution);
  }
}

void PmSampler::stop() {
  thread_.reset();
  if (is_running_) {
    is_running_ = false;
    auto params = sized<CUpti_PmSampling_Stop_Params>(CUpti_PmSampling_Stop_Params_STRUCT_SIZE);
    params.pPmSamplingObject = object_;
    const CUptiResult result = api_.stop(&params);
    if (result != CUPTI_SUCCESS && samples_.failure.empty()) {
      samples_.failure = error_text("cuptiPmSamplingStop", result);
    }
    decode();
  }
  if (object_ != nullptr) {
    auto params =
        sized<CUpti_PmSampling_Disable_Params>(CUpti_PmSampling_Disable_Params_STRUCT_SIZE);
    params.pPmSamplingObject = object_;
    api_.disable(&params);
    object_ = nullptr;
  }
  host_.reset();
}

PmSamples PmSampler::take_samples() {
  SL_CHECK(!is_running_);
  return std::move(samples_);
}

}  // namespace steplens
