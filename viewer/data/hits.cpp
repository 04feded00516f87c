#include "viewer/data/hits.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "reports/breakdown/modules.h"

namespace steplens {
namespace {

bool contains_text(std::string_view text, std::string_view lower_part) {
  const auto is_same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == static_cast<unsigned char>(b);
  };
  return !std::ranges::search(text, lower_part, is_same).empty();
}

// Whether names match, by NameId.
std::vector<bool> matching_names(const NameTable& names, const HitQuery& query) {
  std::string lower = query.key;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::vector<bool> is_match(names.size());
  for (NameId id = 0; id < names.size(); ++id) {
    if (query.kind == HitQuery::Kind::kKernel) {
      is_match[id] = names.raw(id) == query.key;
    } else if (query.kind == HitQuery::Kind::kCategory) {
      is_match[id] = name_of(names.category(id)) == query.key;
    } else if (query.kind == HitQuery::Kind::kText && !lower.empty()) {
      is_match[id] = contains_text(names.raw(id), lower) || contains_text(names.display(id), lower);
    }
  }
  return is_match;
}

// Whether ranges are of a module of that kind, by row of Trace::ranges.
std::vector<bool> matching_ranges(const TraceModel& model, const HitQuery& query) {
  std::vector<bool> is_match;
  is_match.reserve(model.range_modules.size());
  for (const std::string& module : model.range_modules) {
    is_match.push_back(!module.empty() && module_kind(module) == query.key);
  }
  return is_match;
}

template <class IsMatch>
void collect(const TraceModel& model, bool only_operations, const std::atomic<bool>* is_cancelled,
             IsMatch is_match, Hits& hits) {
  for (std::size_t lane = 0; lane < model.lanes.size(); ++lane) {
    const std::vector<SliceRow>& rows = model.lanes[lane].rows;
    hits.by_lane[lane].resize(rows.size());
    if (only_operations && !has_operations(model.lanes[lane].kind)) continue;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (is_cancelled != nullptr && *is_cancelled) return;
      const std::span<const Slice> slices = rows[row].slices();
      for (std::size_t i = 0; i < slices.size(); ++i) {
        if (is_match(slices[i])) hits.by_lane[lane][row].push_back(static_cast<std::uint32_t>(i));
      }
      hits.count += hits.by_lane[lane][row].size();
    }
  }
}

template <class Find>
std::optional<SliceRef> best_hit(const TraceModel& model, const Hits& hits, Find find) {
  std::optional<SliceRef> best;
  for (std::uint32_t lane = 0; lane < hits.by_lane.size(); ++lane) {
    for (std::uint32_t row = 0; row < hits.by_lane[lane].size(); ++row) {
      find(SliceRef{lane, row, 0}, model.lanes[lane].rows[row].slices(), hits.by_lane[lane][row],
           best);
    }
  }
  return best;
}

}  // namespace

Hits find_hits(const TraceModel& model, const HitQuery& query,
               const std::atomic<bool>* is_cancelled) {
  Hits hits;
  hits.by_lane.resize(model.lanes.size());
  switch (query.kind) {
    case HitQuery::Kind::kText:
    case HitQuery::Kind::kKernel:
    case HitQuery::Kind::kCategory: {
      const std::vector<bool> is_match = matching_names(model.names, query);
      collect(
          model, query.kind != HitQuery::Kind::kText, is_cancelled,
          [&](const Slice& slice) { return is_match[slice.name]; }, hits);
      break;
    }
    case HitQuery::Kind::kPhase:
      collect(
          model, true, is_cancelled,
          [&](const Slice& slice) { return name_of(model.ops[slice.row].phase) == query.key; },
          hits);
      break;
    case HitQuery::Kind::kModule: {
      const std::vector<bool> is_match = matching_ranges(model, query);
      collect(
          model, true, is_cancelled,
          [&](const Slice& slice) {
            const std::uint32_t range = model.ops[slice.row].range;
            return range < is_match.size() && is_match[range];
          },
          hits);
      break;
    }
  }
  return hits;
}

std::optional<SliceRef> next_hit(const TraceModel& model, const Hits& hits, std::int64_t time_ns) {
  return best_hit(model, hits, [&](SliceRef at, auto slices, const auto& indices, auto& best) {
    const auto start_of = [&](std::uint32_t i) { return slices[i].start_ns; };
    const auto it = std::ranges::upper_bound(indices, time_ns, {}, start_of);
    if (it == indices.end()) return;
    at.index = *it;
    if (!best || start_of(*it) < model.slice(*best).start_ns) best = at;
  });
}

std::optional<SliceRef> previous_hit(const TraceModel& model, const Hits& hits,
                                     std::int64_t time_ns) {
  return best_hit(model, hits, [&](SliceRef at, auto slices, const auto& indices, auto& best) {
    const auto start_of = [&](std::uint32_t i) { return slices[i].start_ns; };
    auto it = std::ranges::lower_bound(indices, time_ns, {}, start_of);
    if (it == indices.begin()) return;
    at.index = *--it;
    if (!best || start_of(*it) > model.slice(*best).start_ns) best = at;
  });
}

}  // namespace steplens
