#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "harness/trace/trace.h"

namespace steplens {

/// The tree of ranges of a trace, which grows by paths put together anew.
class RangeTree {
 public:
  /// Both outlive this; `ranges` grows.
  RangeTree(std::vector<Range>& ranges, const std::vector<std::string>& strings);

  Phase phase_of(std::uint32_t range) const;  // Of the nearest range, itself included.

  /// The path of `own` below `around`. A path that begins with a phase lies below what encloses the
  /// phase of `around`; a path that holds the step stays as it is.
  std::uint32_t graft(std::uint32_t own, std::uint32_t around);

 private:
  std::uint32_t child(std::uint32_t parent, StringId name, StringId domain);
  Phase own_phase(std::uint32_t range) const;

  std::vector<Range>& ranges_;
  const std::vector<std::string>& strings_;
  std::map<std::tuple<std::uint32_t, StringId, StringId>, std::uint32_t> children_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> grafted_;
};

}  // namespace steplens
