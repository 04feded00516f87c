#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/run_config.h"
#include "harness/trace/trace.h"
#include "reports/breakdown/breakdown.h"
#include "reports/roofline/peaks.h"
#include "reports/roofline/work.h"

/// What rates kernels reach: durations are measured, FLOPs and bytes are derived from the model's
/// config (reports/roofline/work.h), never counted on the device.
///
/// In each module of each micro-step the n-th matrix product that was launched is held to be the
/// n-th that the model needs there. Where their numbers differ, none of that module and phase is
/// rated, with the reason. What only moves data or computes element by element has no derived work
/// of its own; norms, loss, clip and optimizer are rated as a whole.
namespace steplens {

/// Operations that are rated together. Sums are means a step.
struct RatedWork {
  std::string name;     // Of the kernel as in the trace, or of the part.
  std::string display;  // For people.
  KernelCategory category = KernelCategory::kOther;
  double duration_ns = 0;  // Of those with derived work: what rates are computed with.
  double num_operations = 0;
  Work work;            // Flops of 0: only the bytes are known.
  std::string formula;  // Of a part: what its bytes are.

  std::optional<double> flops_per_s() const;
  std::optional<double> bytes_per_s() const;
  /// FLOPs a byte.
  std::optional<double> intensity_ratio() const;
};

struct Roofline {
  std::vector<RatedWork> kernels;  // Matrix products and attention; longest time first.
  std::vector<RatedWork> parts;    // In the order of the step.
  double operation_ns = 0;         // Of all operations a step, summed durations,
  double rated_ns = 0;             // and of those in `kernels` or `parts`.
  std::optional<PeakRate> peak_flops;
  std::optional<PeakRate> peak_bytes;
  std::string precision;
  std::vector<std::string> notes;  // Why something is not rated. Sentences.

  bool is_empty() const { return kernels.empty() && parts.empty(); }
  /// Of the lower of the two roofs over that point: peak FLOP rate, or bandwidth * intensity. For
  /// work without FLOPs of the bandwidth. Absent without both peaks, and for `is_fp32`.
  std::optional<double> roof_share_ratio(const RatedWork& work) const;
  /// Of all kernels of a category together; absent without one that is rated.
  std::optional<double> flops_per_s(KernelCategory category) const;
  /// Does the bandwidth limit work of that intensity?
  bool is_bound_by_memory(const RatedWork& work) const;
};

/// Rates what ran in the steps that `breakdown` counts. Empty, with a note, where nothing can be
/// derived; without a note where the trace has no operations.
Roofline compute_roofline(const Trace& trace, const Breakdown& breakdown, const RunConfig& config,
                          std::uint8_t device = 0);

/// The same with the config that the trace itself records; a note where it has none.
Roofline compute_roofline(const Trace& trace, const Breakdown& breakdown);

nlohmann::json to_json(const Roofline& roofline);

}  // namespace steplens
