#include "reports/breakdown/waterfall.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"

namespace steplens {
namespace {

using nlohmann::json;

Numerator floor_of(Numerator numerator, Numerator denominator) {
  const Numerator quotient = numerator / denominator;
  return numerator % denominator < 0 ? quotient - 1 : quotient;
}

// Totals over the counted steps of both arms, before they become a row.
struct Totals {
  std::string key;
  std::string label;
  std::int64_t reference_ns = 0;
  std::int64_t candidate_ns = 0;
};

class WaterfallBuilder {
 public:
  WaterfallBuilder(const Breakdown& reference, const Breakdown& candidate)
      : reference_(reference),
        candidate_(candidate) {}

  Waterfall build() {
    const std::vector<Totals> step = {{.key = "step",
                                       .reference_ns = reference_.total.step_ns,
                                       .candidate_ns = candidate_.total.step_ns}};
    Waterfall result;
    result.difference_ns = rows_of(step).front().difference_ns;
    result.reference_step_ns = std::llround(reference_.mean_step_ns());
    result.candidate_step_ns = result.reference_step_ns + result.difference_ns;

    std::vector<Totals> categories = totals_of(&Breakdown::categories);
    for (std::size_t i = 0; i < kNumIdleClasses; ++i) {
      const auto idle = static_cast<IdleClass>(i);
      categories.push_back({.key = fmt::format("idle.{}", name_of(idle)),
                            .label = fmt::format("idle: {}", label_of(idle)),
                            .reference_ns = reference_.total.idle_by_class_ns[i],
                            .candidate_ns = candidate_.total.idle_by_class_ns[i]});
    }
    result.categories = rows_of(categories);
    result.phases = rows_of(with_idle(totals_of(&Breakdown::phases)));
    result.module_kinds = rows_of(with_idle(totals_of(&Breakdown::module_kinds)));
    add_kernels(result);
    return result;
  }

 private:
  // The groups of both, those of the reference first.
  std::vector<Totals> totals_of(std::vector<UsageGroup> Breakdown::* groups) const {
    std::vector<Totals> totals;
    std::map<std::string, std::size_t> index_by_key;
    for (const Breakdown* side : {&reference_, &candidate_}) {
      for (const UsageGroup& group : side->*groups) {
        const auto [it, is_new] = index_by_key.try_emplace(group.key, totals.size());
        if (is_new) totals.push_back({.key = group.key, .label = group.display});
        Totals& row = totals[it->second];
        (side == &reference_ ? row.reference_ns : row.candidate_ns) += group.total.exclusive_ns;
      }
    }
    return totals;
  }

  std::vector<Totals> with_idle(std::vector<Totals> totals) const {
    totals.push_back({.key = "idle",
                      .label = "idle",
                      .reference_ns = reference_.total.idle_ns,
                      .candidate_ns = candidate_.total.idle_ns});
    return totals;
  }

  std::vector<WaterfallRow> rows_of(const std::vector<Totals>& totals) const {
    const Numerator reference_steps = reference_.num_counted_steps;
    const Numerator candidate_steps = candidate_.num_counted_steps;
    std::vector<Numerator> numerators;
    numerators.reserve(totals.size());
    for (const Totals& row : totals) {
      numerators.push_back(row.candidate_ns * reference_steps - row.reference_ns * candidate_steps);
    }
    const std::vector<std::int64_t> differences_ns =
        apportion(numerators, reference_steps * candidate_steps);
    std::vector<WaterfallRow> rows;
    rows.reserve(totals.size());
    for (std::size_t i = 0; i < totals.size(); ++i) {
      rows.push_back({.key = totals[i].key,
                      .label = totals[i].label,
                      .reference_ns = reference_.per_step(totals[i].reference_ns),
                      .candidate_ns = candidate_.per_step(totals[i].candidate_ns),
                      .difference_ns = differences_ns[i]});
    }
    return rows;
  }

  void add_kernels(Waterfall& result) const {
    std::vector<WaterfallRow> rows = rows_of(with_idle(totals_of(&Breakdown::kernels)));
    result.idle = std::move(rows.back());
    rows.pop_back();
    std::map<std::string_view, const UsageGroup*> in_reference, in_candidate;
    for (const UsageGroup& group : reference_.kernels) in_reference[group.key] = &group;
    for (const UsageGroup& group : candidate_.kernels) in_candidate[group.key] = &group;
    for (WaterfallRow& row : rows) {
      KernelDifference difference;
      const auto reference = in_reference.find(row.key);
      const auto candidate = in_candidate.find(row.key);
      if (reference != in_reference.end()) {
        difference.category = reference->second->category;
        difference.num_reference_operations =
            reference_.per_step(reference->second->total.num_operations);
      } else {
        difference.change = KernelChange::kOnlyInCandidate;
      }
      if (candidate != in_candidate.end()) {
        difference.category = candidate->second->category;
        difference.num_candidate_operations =
            candidate_.per_step(candidate->second->total.num_operations);
      } else {
        difference.change = KernelChange::kOnlyInReference;
      }
      difference.row = std::move(row);
      result.kernels.push_back(std::move(difference));
    }
    std::ranges::sort(result.kernels, {}, [](const KernelDifference& kernel) {
      return std::pair(-std::abs(kernel.row.difference_ns), std::string_view(kernel.row.key));
    });
  }

  const Breakdown& reference_;
  const Breakdown& candidate_;
};

json row_json(const WaterfallRow& row) {
  return {{"key", row.key},
          {"reference_ns", row.reference_ns},
          {"candidate_ns", row.candidate_ns},
          {"difference_ns", row.difference_ns}};
}

json rows_json(const std::vector<WaterfallRow>& rows) {
  json result = json::array();
  for (const WaterfallRow& row : rows) result.push_back(row_json(row));
  return result;
}

}  // namespace

std::string_view name_of(KernelChange change) {
  switch (change) {
    case KernelChange::kOnlyInReference: return "only_in_reference";
    case KernelChange::kOnlyInCandidate: return "only_in_candidate";
    case KernelChange::kChanged: return "changed";
  }
  return "changed";
}

std::vector<std::int64_t> apportion(std::span<const Numerator> numerators, Numerator denominator) {
  SL_CHECK(denominator > 0);
  Numerator sum = 0;
  Numerator sum_of_floors = 0;
  std::vector<std::int64_t> parts;
  parts.reserve(numerators.size());
  for (const Numerator numerator : numerators) {
    const Numerator floor = floor_of(numerator, denominator);
    sum += numerator;
    sum_of_floors += floor;
    parts.push_back(static_cast<std::int64_t>(floor));
  }
  // Half up; at most one more than the exact sum's floor, so `num_ceilings` rows have a remainder.
  const Numerator rounded = floor_of(2 * sum + denominator, 2 * denominator);
  const auto num_ceilings = static_cast<std::size_t>(rounded - sum_of_floors);
  std::vector<std::size_t> order(numerators.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::pair(parts[i] * denominator - numerators[i], i);
  });
  SL_CHECK(num_ceilings <= order.size());
  for (std::size_t i = 0; i < num_ceilings; ++i) ++parts[order[i]];
  return parts;
}

std::optional<Waterfall> compute_waterfall(const Breakdown& reference, const Breakdown& candidate) {
  if (reference.num_counted_steps == 0 || candidate.num_counted_steps == 0) return std::nullopt;
  return WaterfallBuilder(reference, candidate).build();
}

json to_json(const Waterfall& waterfall) {
  json kernels = json::array();
  for (const KernelDifference& kernel : waterfall.kernels) {
    json row = row_json(kernel.row);
    row["change"] = name_of(kernel.change);
    row["category"] = name_of(kernel.category);
    row["num_reference_operations"] = kernel.num_reference_operations;
    row["num_candidate_operations"] = kernel.num_candidate_operations;
    kernels.push_back(std::move(row));
  }
  return {{"reference_step_ns", waterfall.reference_step_ns},
          {"candidate_step_ns", waterfall.candidate_step_ns},
          {"difference_ns", waterfall.difference_ns},
          {"categories", rows_json(waterfall.categories)},
          {"phases", rows_json(waterfall.phases)},
          {"module_kinds", rows_json(waterfall.module_kinds)},
          {"kernels", std::move(kernels)},
          {"idle", row_json(waterfall.idle)}};
}

}  // namespace steplens
