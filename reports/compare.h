#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/bundle.h"
#include "reports/document.h"
#include "reports/results.h"

namespace steplens {

/// When a candidate bundle counts as worse than the baseline bundle.
struct CompareOptions {
  double threshold_ratio = 0.02;  // A rate that falls by less is no regression, however certain.
  double confidence = 0.95;       // Of the interval of the rates' ratio.
  /// Peak memory that grows by more is a regression; absent: it is not looked at.
  std::optional<double> memory_threshold_ratio;
};

/// One arm that both bundles have, or one of them. Ratios are candidate / baseline bundle.
struct ArmComparison {
  std::string name;
  std::optional<double> rate_ratio;  // Of valid_tokens_per_s.
  std::optional<double> rate_low_ratio;
  std::optional<double> rate_high_ratio;
  std::optional<double> peak_ratio;          // Of peak_allocated_bytes.
  std::optional<double> effect_ratio_ratio;  // Of effect_ratio: free of what hit the whole machine.
  std::optional<Verdict> baseline_verdict;
  std::optional<Verdict> candidate_verdict;
  bool is_regression = false;
  std::string reason;  // Of the regression, or why there is nothing to compare.
};

struct BundleComparison {
  std::vector<ArmComparison> arms;       // In the order of the baseline bundle, then new ones.
  std::vector<std::string> differences;  // "gpu_name: NVIDIA H200 against NVIDIA H100 PCIe".
  bool has_regression = false;
};

/// Compares two bundles arm by arm, by name.
///
/// A regression is a rate whose ratio lies below 1 - threshold with a Welch t interval (of the
/// blocks' log rates) wholly below 1; or a verdict that became FAILED, MATHS_DIFFERS, NO_EFFECT or
/// SLOWER, or lost a FASTER to EQUIVALENT. A verdict that became uncertain (INCONCLUSIVE,
/// NOT_ENOUGH_ROUNDS) is none: it proves nothing. With a memory threshold, a peak that grew by
/// more. Other machine, model or configuration is named in `differences`, and the rates are
/// compared all the same.
BundleComparison compare_bundles(const Bundle& baseline, const Bundle& candidate,
                                 const CompareOptions& options = {});

Table comparison_table(const BundleComparison& comparison);
nlohmann::json to_json(const BundleComparison& comparison);

/// Workflow commands of GitHub Actions, a line each: "::error title=...::..." for a regression,
/// "::warning ..." for what differs beside the speed, else one "::notice ...".
std::string github_annotations(const BundleComparison& comparison);

}  // namespace steplens
