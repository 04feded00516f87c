#include "viewer/data/step_parts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include <fmt/format.h>

namespace steplens {
namespace {

const std::vector<UsageGroup>& groups_of(const Breakdown& breakdown, StepDimension dimension) {
  switch (dimension) {
    case StepDimension::kCategory: return breakdown.categories;
    case StepDimension::kPhase: return breakdown.phases;
    case StepDimension::kModule: break;
  }
  return breakdown.module_kinds;
}

struct Group {
  std::string key;
  std::string label;
  double longest_ns = 0;  // Of all arms.
};

std::vector<Group> all_groups(std::span<const TracedArm* const> arms, StepDimension dimension) {
  std::vector<Group> groups;
  for (const TracedArm* arm : arms) {
    for (const UsageGroup& usage : groups_of(arm->breakdown, dimension)) {
      auto found = std::ranges::find(groups, usage.key, &Group::key);
      if (found == groups.end()) {
        groups.push_back({.key = usage.key, .label = usage.display});
        found = groups.end() - 1;
      }
      found->longest_ns =
          std::max(found->longest_ns, arm->breakdown.per_step(usage.total.exclusive_ns));
    }
  }
  std::erase_if(groups, [](const Group& group) { return group.longest_ns <= 0; });
  std::ranges::sort(groups, [](const Group& left, const Group& right) {
    return left.longest_ns != right.longest_ns ? left.longest_ns > right.longest_ns
                                               : left.key < right.key;
  });
  return groups;
}

bool has_idle(std::span<const TracedArm* const> arms, std::size_t idle) {
  return std::ranges::any_of(
      arms, [&](const TracedArm* arm) { return arm->breakdown.total.idle_by_class_ns[idle] > 0; });
}

template <class Enum, std::size_t kNum>
std::optional<Enum> enum_of_key(std::string_view key) {
  for (std::size_t i = 0; i < kNum; ++i) {
    const std::string_view name = name_of(static_cast<Enum>(i));
    if (!name.empty() && name == key) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(StepDimension dimension) {
  switch (dimension) {
    case StepDimension::kCategory: return "category";
    case StepDimension::kPhase: return "phase";
    case StepDimension::kModule: break;
  }
  return "module";
}

std::vector<std::vector<StepPart>> step_parts(std::span<const TracedArm* const> arms,
                                              StepDimension dimension, std::size_t max_parts) {
  const std::vector<Group> groups = all_groups(arms, dimension);
  const std::size_t num_named = std::min(groups.size(), max_parts);
  std::vector<std::vector<StepPart>> result;
  for (const TracedArm* arm : arms) {
    const Breakdown& breakdown = arm->breakdown;
    std::vector<StepPart> parts;
    parts.reserve(num_named + 1 + kNumIdleClasses);
    for (std::size_t i = 0; i < num_named; ++i) {
      parts.push_back({.key = groups[i].key, .label = groups[i].label});
    }
    if (groups.size() > num_named) {
      parts.push_back({.key = "rest", .label = fmt::format("{} more", groups.size() - num_named)});
    }
    for (const UsageGroup& usage : groups_of(breakdown, dimension)) {
      const double duration_ns = breakdown.per_step(usage.total.exclusive_ns);
      if (duration_ns <= 0) continue;
      const auto found = std::ranges::find(parts, usage.key, &StepPart::key);
      (found == parts.end() ? parts.back() : *found).duration_ns += duration_ns;
    }
    for (std::size_t i = 0; i < kNumIdleClasses; ++i) {
      if (!has_idle(arms, i)) continue;
      const auto idle = static_cast<IdleClass>(i);
      parts.push_back({.key = fmt::format("idle.{}", name_of(idle)),
                       .label = fmt::format("idle: {}", label_of(idle)),
                       .duration_ns = breakdown.per_step(breakdown.total.idle_by_class_ns[i])});
    }
    result.push_back(std::move(parts));
  }
  return result;
}

std::vector<WaterfallRow> waterfall_rows(const Waterfall& waterfall, StepDimension dimension) {
  std::vector<WaterfallRow> rows = dimension == StepDimension::kCategory ? waterfall.categories
                                   : dimension == StepDimension::kPhase  ? waterfall.phases
                                                                         : waterfall.module_kinds;
  std::erase_if(rows, [](const WaterfallRow& row) { return row.difference_ns == 0; });
  std::ranges::sort(rows, [](const WaterfallRow& left, const WaterfallRow& right) {
    const std::int64_t left_ns = std::abs(left.difference_ns);
    const std::int64_t right_ns = std::abs(right.difference_ns);
    return left_ns != right_ns ? left_ns > right_ns : left.key < right.key;
  });
  return rows;
}

std::vector<WaterfallRow> with_small_ones_folded(std::vector<WaterfallRow> rows, double min_ns) {
  const auto is_small = [&](const WaterfallRow& row) {
    return std::abs(static_cast<double>(row.difference_ns)) < min_ns;
  };
  const auto num_small = std::ranges::count_if(rows, is_small);
  if (num_small < 2) return rows;
  WaterfallRow rest = {.key = "rest", .label = fmt::format("{} smaller changes", num_small)};
  for (const WaterfallRow& row : rows) {
    if (!is_small(row)) continue;
    rest.reference_ns += row.reference_ns;
    rest.candidate_ns += row.candidate_ns;
    rest.difference_ns += row.difference_ns;
  }
  std::erase_if(rows, is_small);
  rows.push_back(std::move(rest));
  return rows;
}

std::optional<IdleClass> idle_of_key(std::string_view key) {
  constexpr std::string_view kPrefix = "idle.";
  if (!key.starts_with(kPrefix)) return std::nullopt;
  return enum_of_key<IdleClass, kNumIdleClasses>(key.substr(kPrefix.size()));
}

std::optional<KernelCategory> category_of_key(std::string_view key) {
  return enum_of_key<KernelCategory, kNumKernelCategories>(key);
}

std::optional<Phase> phase_of_key(std::string_view key) {
  return enum_of_key<Phase, kNumPhases>(key);
}

}  // namespace steplens
