#include "profilers/trace/range_tree.h"

#include <algorithm>

#include "harness/trace/range_names.h"

namespace steplens {

RangeTree::RangeTree(std::vector<Range>& ranges, const std::vector<std::string>& strings)
    : ranges_(ranges),
      strings_(strings) {
  for (std::uint32_t row = 0; row < ranges.size(); ++row) {
    children_.emplace(std::tuple(ranges[row].parent, ranges[row].name, ranges[row].domain), row);
  }
}

std::uint32_t RangeTree::child(std::uint32_t parent, StringId name, StringId domain) {
  const auto [it, is_new] = children_.emplace(std::tuple(parent, name, domain),
                                              static_cast<std::uint32_t>(ranges_.size()));
  if (is_new) ranges_.push_back({.name = name, .domain = domain, .parent = parent});
  return it->second;
}

Phase RangeTree::own_phase(std::uint32_t range) const {
  return ranges_[range].domain == 0 ? phase_of_range_name(strings_[ranges_[range].name])
                                    : Phase::kNone;
}

Phase RangeTree::phase_of(std::uint32_t range) const {
  for (; range != kNoRow; range = ranges_[range].parent) {
    const Phase phase = own_phase(range);
    if (phase != Phase::kNone) return phase;
  }
  return Phase::kNone;
}

std::uint32_t RangeTree::graft(std::uint32_t own, std::uint32_t around) {
  if (own == kNoRow) return around;
  if (around == kNoRow) return own;
  const auto known = grafted_.find({own, around});
  if (known != grafted_.end()) return known->second;

  std::vector<std::uint32_t> path;  // Outermost last.
  for (std::uint32_t range = own; range != kNoRow; range = ranges_[range].parent) {
    path.push_back(range);
  }
  const bool has_step = std::ranges::any_of(path, [&](std::uint32_t range) {
    return ranges_[range].domain == 0 && strings_[ranges_[range].name] == kStepRangeName;
  });
  std::uint32_t result = own;
  if (!has_step) {
    std::uint32_t base = around;
    if (own_phase(path.back()) != Phase::kNone) {
      for (std::uint32_t range = around; range != kNoRow; range = ranges_[range].parent) {
        if (own_phase(range) != Phase::kNone) base = ranges_[range].parent;
      }
    }
    result = base;
    for (auto it = path.rbegin(); it != path.rend(); ++it) {
      const Range range = ranges_[*it];
      result = child(result, range.name, range.domain);
    }
  }
  grafted_.emplace(std::pair(own, around), result);
  return result;
}

}  // namespace steplens
