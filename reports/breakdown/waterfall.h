#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reports/breakdown/breakdown.h"

namespace steplens {

/// One part of the difference between two steps. Means a step over the counted steps.
struct WaterfallRow {
  std::string key;    // "gemm", "idle.sync", "forward", ...
  std::string label;  // For people.
  double reference_ns = 0;
  double candidate_ns = 0;
  std::int64_t difference_ns = 0;  // Candidate - reference, rounded so that the rows sum up.
};

enum class KernelChange : std::uint8_t { kOnlyInReference, kOnlyInCandidate, kChanged };
std::string_view name_of(KernelChange change);  // "only_in_reference", ...

struct KernelDifference {
  WaterfallRow row;  // Its key is the kernel's name as in the trace.
  KernelChange change = KernelChange::kChanged;
  KernelCategory category = KernelCategory::kOther;
  double num_reference_operations = 0;  // Operations a step.
  double num_candidate_operations = 0;
};

/// How the mean step of one arm turns into that of another. Each list of rows sums exactly to
/// `difference_ns`: exclusive times share every moment out, and of the exact means the rows get
/// integers by largest remainders.
struct Waterfall {
  std::int64_t reference_step_ns = 0;      // Mean, rounded.
  std::int64_t candidate_step_ns = 0;      // reference_step_ns + difference_ns.
  std::int64_t difference_ns = 0;          // Of the exact means, rounded.
  std::vector<WaterfallRow> categories;    // Then the idle classes.
  std::vector<WaterfallRow> phases;        // Then "idle".
  std::vector<WaterfallRow> module_kinds;  // Then "idle".
  std::vector<KernelDifference> kernels;   // Largest change first; all kernels of both.
  WaterfallRow idle;                       // What `kernels` lacks of the difference.
};

/// Absent if one of the two has no counted steps.
std::optional<Waterfall> compute_waterfall(const Breakdown& reference, const Breakdown& candidate);

/// An exact mean: `numerator` / the common denominator.
using Numerator = __int128;

/// Integers that sum to the rounded sum of `numerators` / `denominator`, each its own quotient's
/// floor or ceiling: the largest remainders get the ceiling, the first of equal ones first.
/// `denominator` > 0.
std::vector<std::int64_t> apportion(std::span<const Numerator> numerators, Numerator denominator);

nlohmann::json to_json(const Waterfall& waterfall);

}  // namespace steplens
