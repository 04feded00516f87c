#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/trace/trace.h"
#include "reports/breakdown/breakdown.h"

/// What a trace's hardware counters say: how much of what the GPU could do the steps used.
namespace steplens {

/// One counter over the traced steps, in its unit: "ratio" (of the hardware's peak) or "MHz".
struct CounterUse {
  std::string name;           // "sm_active"
  std::string unit;           // Of all numbers below.
  std::string absent_reason;  // Why there is no number; else empty.
  std::int64_t num_samples = 0;
  std::optional<double> mean;
  std::optional<double> p95;  // Of the samples, each 100 us or what the trace says.
  /// Mean of the samples in whose middle an operation of that phase ran, by Phase.
  std::array<std::optional<double>, kNumPhases> mean_by_phase = {};
  std::optional<double> mean_idle;  // Nothing ran then.
};

struct CounterSummary {
  std::vector<CounterUse> counters;  // As in `info.hardware_counters` of the trace.
  std::int64_t interval_ns = 0;
  std::int64_t num_overflows = 0;
  std::int64_t num_missing_samples = 0;
  std::int64_t num_invalid_samples = 0;
  std::string failure;  // Why sampling ended early; empty if it did not.

  bool has_numbers() const;
};

/// Summarises the samples from the first operation of the trace's steps to the last one's end: the
/// device's time of the steps. A trace without operations counts from its first step to its last.
/// A sample belongs to the operation that began last of those that ran in its middle. Empty for a
/// trace of another kind.
CounterSummary summarize_counters(const Trace& trace, std::uint8_t device = 0);

/// For block.json's evidence: an array, one object a counter.
nlohmann::json to_json(const CounterSummary& summary);

}  // namespace steplens
