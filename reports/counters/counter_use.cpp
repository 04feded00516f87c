#include "reports/counters/counter_use.h"

#include <algorithm>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "harness/statistics.h"

namespace steplens {
namespace {

using nlohmann::json;

std::int64_t count_in(const Trace& trace, std::string_view name) {
  const auto it = trace.quality.find(std::string(name));
  return it == trace.quality.end() ? 0 : it->second;
}

std::vector<const GpuOp*> ops_by_start(const Trace& trace, std::uint8_t device) {
  std::vector<const GpuOp*> ops;
  for (const GpuOp& op : trace.gpu_ops) {
    if (op.device == device && op.end_ns > op.start_ns) ops.push_back(&op);
  }
  // Those that began together stay in the order of their rows.
  std::ranges::sort(ops, {}, [](const GpuOp* op) { return std::pair(op->start_ns, op); });
  return ops;
}

Interval window_of(const Trace& trace, const std::vector<const GpuOp*>& ops) {
  Interval window;
  bool is_empty = true;
  for (const GpuOp* op : ops) {
    if (op->step_index < 0 && !trace.steps.empty()) continue;
    window = is_empty ? Interval{op->start_ns, op->end_ns}
                      : Interval{std::min(window.start_ns, op->start_ns),
                                 std::max(window.end_ns, op->end_ns)};
    is_empty = false;
  }
  if (is_empty && !trace.steps.empty()) {
    window = {trace.steps.front().start_ns, trace.steps.back().end_ns};
  }
  return window;
}

// Which operation ran at times that only grow: the one that began last.
class RunningOperation {
 public:
  explicit RunningOperation(const std::vector<const GpuOp*>& ops) : ops_(ops) {}

  const GpuOp* at(std::int64_t time_ns) {
    for (; next_ < ops_.size() && ops_[next_]->start_ns <= time_ns; ++next_) {
      running_.push_back(ops_[next_]);
    }
    std::erase_if(running_, [&](const GpuOp* op) { return op->end_ns <= time_ns; });
    return running_.empty() ? nullptr : running_.back();
  }

 private:
  const std::vector<const GpuOp*>& ops_;
  std::size_t next_ = 0;
  std::vector<const GpuOp*> running_;  // By start.
};

struct Mean {
  double sum = 0;
  std::int64_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  std::optional<double> value() const {
    return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
  }
};

void summarize(std::span<const CounterSample> samples, const Interval& window,
               const std::vector<const GpuOp*>& ops, CounterUse& use) {
  RunningOperation running(ops);
  std::vector<double> values;
  Mean all;
  Mean idle;
  std::array<Mean, kNumPhases> by_phase;
  for (const CounterSample& sample : samples) {
    if (sample.time_ns < window.start_ns || sample.time_ns > window.end_ns) continue;
    values.push_back(sample.value);
    all.add(sample.value);
    const GpuOp* op = running.at(sample.time_ns);
    Mean& part = op == nullptr ? idle : by_phase.at(static_cast<std::size_t>(op->phase));
    part.add(sample.value);
  }
  use.num_samples = all.count;
  use.mean = all.value();
  use.mean_idle = idle.value();
  for (std::size_t i = 0; i < kNumPhases; ++i) use.mean_by_phase[i] = by_phase[i].value();
  if (!values.empty()) use.p95 = percentile(values, 0.95);
  if (values.empty()) use.absent_reason = "no sample lies in the traced steps";
}

json number_or_null(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

}  // namespace

bool CounterSummary::has_numbers() const {
  return std::ranges::any_of(counters, [](const CounterUse& use) { return use.mean.has_value(); });
}

CounterSummary summarize_counters(const Trace& trace, std::uint8_t device) {
  const auto names = trace.info.find("hardware_counters");
  if (names == trace.info.end() || !names->is_array()) return {};
  CounterSummary summary{
      .interval_ns = trace.info.value("counter_interval_ns", std::int64_t{0}),
      .num_overflows = count_in(trace, quality::kCounterOverflows),
      .num_missing_samples = count_in(trace, quality::kCounterGaps),
      .num_invalid_samples = count_in(trace, quality::kCounterInvalid),
      .failure = trace.info.value("counters_failure", ""),
  };
  const std::vector<const GpuOp*> ops = ops_by_start(trace, device);
  const Interval window = window_of(trace, ops);
  for (const json& word : *names) {
    const std::string name = word.is_string() ? word.get<std::string>() : "";
    for (std::size_t track = 0; track < trace.counter_tracks.size(); ++track) {
      if (trace.text(trace.counter_tracks[track].name) != name) continue;
      CounterUse use{.name = name,
                     .unit = trace.text(trace.counter_tracks[track].unit),
                     .absent_reason = trace.text(trace.counter_tracks[track].absent_reason)};
      const auto samples = std::ranges::equal_range(
          trace.counter_samples, track, {},
          [](const CounterSample& sample) { return std::size_t{sample.track}; });
      if (use.absent_reason.empty()) summarize(samples, window, ops, use);
      summary.counters.push_back(std::move(use));
      break;
    }
  }
  return summary;
}

json to_json(const CounterSummary& summary) {
  json counters = json::array();
  for (const CounterUse& use : summary.counters) {
    json phases = json::object();
    for (std::size_t i = 0; i < kNumPhases; ++i) {
      const std::optional<double>& mean = use.mean_by_phase[i];
      if (!mean) continue;
      const std::string_view name = name_of(static_cast<Phase>(i));
      phases[std::string(name.empty() ? "none" : name)] = *mean;
    }
    if (use.mean_idle) phases["idle"] = *use.mean_idle;
    counters.push_back({{"name", use.name},
                        {"unit", use.unit},
                        {"num_samples", use.num_samples},
                        {"mean", number_or_null(use.mean)},
                        {"p95", number_or_null(use.p95)},
                        {"mean_by_phase", phases},
                        {"absent_reason", use.absent_reason}});
  }
  return counters;
}

}  // namespace steplens
