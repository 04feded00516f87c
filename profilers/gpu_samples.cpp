#include "profilers/gpu_samples.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace steplens {
namespace {

struct ClockEventReason {
  const char* name;
  std::uint64_t bit;
  bool is_hardware;  // Makes a block invalid.
};

constexpr ClockEventReason kReasons[] = {
    {.name = "gpu_idle", .bit = kNvmlReasonGpuIdle, .is_hardware = false},
    {.name = "applications_clocks", .bit = kNvmlReasonApplicationsClocks, .is_hardware = false},
    {.name = "sw_power_cap", .bit = kNvmlReasonSwPowerCap, .is_hardware = false},
    {.name = "hw_slowdown", .bit = kNvmlReasonHwSlowdown, .is_hardware = true},
    {.name = "sw_thermal", .bit = kNvmlReasonSwThermal, .is_hardware = false},
    {.name = "hw_thermal", .bit = kNvmlReasonHwThermal, .is_hardware = true},
    {.name = "hw_power_brake", .bit = kNvmlReasonHwPowerBrake, .is_hardware = true},
};

template <typename T>
std::optional<T> value_or_note(const NvmlReading<T>& reading, const char* field,
                               ReadFailures& failures) {
  if (!reading.value) failures.add(field, reading.status);
  return reading.value;
}

template <typename T>
using Member = std::optional<T> GpuSample::*;

/// The values that are there.
template <typename T>
std::vector<T> present(std::span<const GpuSample> samples, Member<T> member) {
  std::vector<T> values;
  for (const GpuSample& sample : samples) {
    if (const std::optional<T>& value = sample.*member) values.push_back(*value);
  }
  return values;
}

/// Writes curves and summaries of one field.
class Summary {
 public:
  Summary(std::span<const GpuSample> samples, const ReadFailures& failures)
      : samples_(samples),
        failures_(failures) {
    json_["absent_reasons"] = nlohmann::json::object();
  }

  template <typename T>
  void add_curve(const char* field, Member<T> member) {
    if (present(samples_, member).empty()) {
      json_[field] = nullptr;
      const auto reason = failures_.absent_reasons.find(field);
      json_["absent_reasons"][field] = samples_.empty() ? "no sample was taken"
                                       : reason != failures_.absent_reasons.end()
                                           ? reason->second
                                           : "no reason given";
      return;
    }
    nlohmann::json& curve = json_[field] = nlohmann::json::array();
    for (const GpuSample& sample : samples_) {
      const std::optional<T>& value = sample.*member;
      curve.push_back(value ? nlohmann::json(*value) : nlohmann::json(nullptr));
    }
  }

  void add_mean(const std::string& field, Member<double> member) {
    const std::vector<double> values = present(samples_, member);
    json_["mean_" + field] = nullptr;
    if (values.empty()) return;
    json_["mean_" + field] =
        std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }

  template <typename T>
  void add_min(const std::string& field, Member<T> member) {
    const std::vector<T> values = present(samples_, member);
    json_["min_" + field] = nullptr;
    if (!values.empty()) json_["min_" + field] = *std::ranges::min_element(values);
  }

  template <typename T>
  void add_max(const std::string& field, Member<T> member) {
    const std::vector<T> values = present(samples_, member);
    json_["max_" + field] = nullptr;
    if (!values.empty()) json_["max_" + field] = *std::ranges::max_element(values);
  }

  void add_throttling() {
    const std::vector<std::uint64_t> masks = present(samples_, &GpuSample::clock_event_reasons);
    const auto num_with = [&masks](std::uint64_t bits) {
      return std::ranges::count_if(masks,
                                   [bits](std::uint64_t mask) { return (mask & bits) != 0; });
    };
    json_["throttle_shares"] = nullptr;
    json_["num_hardware_throttled_samples"] = nullptr;
    json_["is_throttled_by_hardware"] = nullptr;
    if (masks.empty()) return;
    json_["throttle_shares"] = nlohmann::json::object();
    std::uint64_t hardware_bits = 0;
    for (const ClockEventReason& reason : kReasons) {
      json_["throttle_shares"][reason.name] =
          static_cast<double>(num_with(reason.bit)) / static_cast<double>(masks.size());
      if (reason.is_hardware) hardware_bits |= reason.bit;
    }
    json_["num_hardware_throttled_samples"] = num_with(hardware_bits);
    json_["is_throttled_by_hardware"] = num_with(hardware_bits) > 0;
  }

  void add(const char* name, nlohmann::json value) { json_[name] = std::move(value); }
  nlohmann::json finish() { return std::move(json_); }

 private:
  std::span<const GpuSample> samples_;
  const ReadFailures& failures_;
  nlohmann::json json_;
};

}  // namespace

void ReadFailures::add(const std::string& field, NvmlStatus status) {
  absent_reasons[field] = nvml_reason(status);
  if (!is_nvml_error(status)) return;
  ++num_errors;
  last_error = field + ": " + nvml_reason(status);
}

GpuSample read_gpu_sample(const NvmlGpu& gpu, std::int64_t time_ns, ReadFailures& failures) {
  GpuSample sample{.time_ns = time_ns};
  // First what changes fastest and decides about a block.
  sample.clock_event_reasons =
      value_or_note(gpu.clock_event_reasons(), "clock_event_reasons", failures);
  sample.sm_clock_mhz = value_or_note(gpu.clock_mhz(NvmlClock::kSm), "sm_clock_mhz", failures);
  sample.memory_clock_mhz =
      value_or_note(gpu.clock_mhz(NvmlClock::kMemory), "memory_clock_mhz", failures);
  sample.power_watts = value_or_note(gpu.power_watts(), "power_watts", failures);
  sample.temperature_celsius =
      value_or_note(gpu.temperature_celsius(), "temperature_celsius", failures);
  sample.headroom_celsius = value_or_note(gpu.headroom_celsius(), "headroom_celsius", failures);
  sample.memory_used_bytes = value_or_note(gpu.memory_used_bytes(), "memory_used_bytes", failures);
  const NvmlReading<NvmlUtilization> utilization = gpu.utilization();
  if (utilization.value) {
    sample.gpu_utilization_ratio = utilization.value->gpu_percent / 100.0;
    sample.memory_utilization_ratio = utilization.value->memory_percent / 100.0;
  } else {
    failures.add("gpu_utilization_ratio", utilization.status);
    failures.absent_reasons["memory_utilization_ratio"] = nvml_reason(utilization.status);
  }
  return sample;
}

nlohmann::json summarize_gpu_samples(std::span<const GpuSample> samples,
                                     const ReadFailures& failures) {
  Summary summary(samples, failures);
  nlohmann::json times_ns = nlohmann::json::array();
  for (const GpuSample& sample : samples) times_ns.push_back(sample.time_ns);
  summary.add("num_samples", samples.size());
  summary.add("time_ns", std::move(times_ns));

  summary.add_curve("sm_clock_mhz", &GpuSample::sm_clock_mhz);
  summary.add_curve("memory_clock_mhz", &GpuSample::memory_clock_mhz);
  summary.add_curve("power_watts", &GpuSample::power_watts);
  summary.add_curve("temperature_celsius", &GpuSample::temperature_celsius);
  summary.add_curve("headroom_celsius", &GpuSample::headroom_celsius);
  summary.add_curve("gpu_utilization_ratio", &GpuSample::gpu_utilization_ratio);
  summary.add_curve("memory_utilization_ratio", &GpuSample::memory_utilization_ratio);
  summary.add_curve("memory_used_bytes", &GpuSample::memory_used_bytes);
  summary.add_curve("clock_event_reasons", &GpuSample::clock_event_reasons);

  summary.add_mean("sm_clock_mhz", &GpuSample::sm_clock_mhz);
  summary.add_min("sm_clock_mhz", &GpuSample::sm_clock_mhz);
  summary.add_mean("memory_clock_mhz", &GpuSample::memory_clock_mhz);
  summary.add_min("memory_clock_mhz", &GpuSample::memory_clock_mhz);
  summary.add_mean("power_watts", &GpuSample::power_watts);
  summary.add_mean("gpu_utilization_ratio", &GpuSample::gpu_utilization_ratio);
  summary.add_max("temperature_celsius", &GpuSample::temperature_celsius);
  summary.add_min("headroom_celsius", &GpuSample::headroom_celsius);
  summary.add_max("memory_used_bytes", &GpuSample::memory_used_bytes);
  summary.add_throttling();

  summary.add("num_errors", failures.num_errors);
  summary.add("last_error", failures.last_error.empty() ? nlohmann::json(nullptr)
                                                        : nlohmann::json(failures.last_error));
  return summary.finish();
}

}  // namespace steplens
