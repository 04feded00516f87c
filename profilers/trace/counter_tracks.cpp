#include "profilers/trace/counter_tracks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

namespace steplens {
namespace {

using nlohmann::json;

struct Curve {
  std::string_view field;  // Of the sampler's JSON.
  std::string_view name;
  std::string_view unit;
};
constexpr std::array<Curve, 8> kCurves = {{
    {"sm_clock_mhz", "sm_clock", "MHz"},
    {"memory_clock_mhz", "memory_clock", "MHz"},
    {"temperature_celsius", "temperature", "C"},
    {"power_watts", "power", "W"},
    {"gpu_utilization_ratio", "gpu_utilization", "ratio"},
    {"memory_utilization_ratio", "memory_utilization", "ratio"},
    {"memory_used_bytes", "memory_used", "B"},
    {"cpu_mhz", "cpu_clock", "MHz"},
}};

StringId string_of(Trace& trace, std::string_view text) {
  const auto it = std::ranges::find(trace.strings, text);
  if (it != trace.strings.end()) return static_cast<StringId>(it - trace.strings.begin());
  trace.strings.emplace_back(text);
  return static_cast<StringId>(trace.strings.size() - 1);
}

std::string reason_in(const json& samples, std::string_view field) {
  const auto reasons = samples.find("absent_reasons");
  if (reasons == samples.end() || !reasons->is_object()) return "";
  for (const std::string_view key : {field, std::string_view("gpu")}) {
    const auto reason = reasons->find(key);
    if (reason != reasons->end() && reason->is_string()) return reason->get<std::string>();
  }
  return "";
}

}  // namespace

void add_counter_tracks(const json& samples, Trace& trace) {
  if (!samples.is_object()) return;
  const auto times = samples.find("time_ns");
  const auto start = samples.find("start_unix_ns");
  const bool has_clock = times != samples.end() && times->is_array() && start != samples.end() &&
                         start->is_number_integer();
  const std::int64_t offset_ns =
      has_clock ? start->get<std::int64_t>() - trace.info.value("start_unix_ns", std::int64_t{0})
                : 0;
  for (const Curve& curve : kCurves) {
    const auto values = samples.find(curve.field);
    const bool is_there = has_clock && values != samples.end() && values->is_array() &&
                          values->size() == times->size() && !values->empty();
    const std::string reason = reason_in(samples, curve.field);
    if (!is_there && reason.empty()) continue;
    const auto track = static_cast<std::uint32_t>(trace.counter_tracks.size());
    trace.counter_tracks.push_back({.name = string_of(trace, curve.name),
                                    .unit = string_of(trace, curve.unit),
                                    .absent_reason = is_there ? 0 : string_of(trace, reason)});
    if (!is_there) continue;
    for (std::size_t i = 0; i < values->size(); ++i) {
      if (!(*values)[i].is_number()) continue;  // One reading that failed.
      trace.counter_samples.push_back({.time_ns = (*times)[i].get<std::int64_t>() + offset_ns,
                                       .value = (*values)[i].get<double>(),
                                       .track = track});
    }
  }
}

void add_pm_samples(const PmSamples& samples, Trace& trace) {
  const std::int64_t start_ns = trace.info.value("start_unix_ns", std::int64_t{0});
  json& names = trace.info["hardware_counters"] = json::array();
  std::size_t num_sampled = 0;
  for (const PmSamples::Counter& counter : samples.counters) {
    num_sampled += counter.absent_reason.empty() ? 1 : 0;
  }
  std::size_t column = 0;
  for (const PmSamples::Counter& counter : samples.counters) {
    names.push_back(counter.name);
    const auto track = static_cast<std::uint32_t>(trace.counter_tracks.size());
    std::string reason = counter.absent_reason;
    if (reason.empty() && samples.times_ns.empty()) {
      reason = samples.failure.empty() ? "no sample was taken in the window" : samples.failure;
    }
    trace.counter_tracks.push_back({.name = string_of(trace, counter.name),
                                    .unit = string_of(trace, std::string(counter.unit)),
                                    .absent_reason = string_of(trace, reason)});
    if (!counter.absent_reason.empty()) continue;
    for (std::size_t i = 0; i < samples.times_ns.size(); ++i) {
      const double value = samples.values[i * num_sampled + column];
      if (!std::isfinite(value)) continue;  // One that could not be evaluated.
      trace.counter_samples.push_back(
          {.time_ns = samples.times_ns[i] - start_ns, .value = value, .track = track});
    }
    ++column;
  }
  if (num_sampled == 0 && !samples.counters.empty()) {
    trace.info["counters_absent_reason"] = samples.counters.front().absent_reason;
  }
  if (!samples.failure.empty()) trace.info["counters_failure"] = samples.failure;
  trace.info["counter_interval_ns"] = samples.interval_ns;
  const auto count = [&](std::string_view name, std::int64_t number) {
    trace.quality[std::string(name)] = number;
  };
  count(quality::kCounterSamples, static_cast<std::int64_t>(samples.times_ns.size()));
  count(quality::kCounterOverflows, samples.num_overflows);
  count(quality::kCounterGaps, samples.num_missing_samples);
  count(quality::kCounterInvalid, samples.num_invalid_samples);
}

}  // namespace steplens
