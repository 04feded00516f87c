#include "viewer/data/counterpart.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/breakdown/intervals.h"

namespace steplens {
namespace {

// Where a step lies for lanes of that kind: on the device, or as the host saw it.
std::optional<Interval> step_of(const TraceModel& model, LaneKind kind, int step) {
  if (step < 0 || step >= model.num_steps()) return std::nullopt;
  const auto i = static_cast<std::size_t>(step);
  if (is_of_host(kind)) {
    return Interval{model.tables.steps[i].start_ns, model.tables.steps[i].end_ns};
  }
  return Interval{model.step_bounds_ns[i], model.step_bounds_ns[i + 1]};
}

int step_at(const TraceModel& model, LaneKind kind, std::int64_t time_ns) {
  // Steps are in order on either clock.
  int low = 0;
  int high = model.num_steps();
  while (low < high) {
    const int middle = (low + high) / 2;
    if (step_of(model, kind, middle).value_or(Interval()).end_ns <= time_ns) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const auto step = step_of(model, kind, low);
  return step && time_ns >= step->start_ns ? low : -1;
}

// Several may be written alike: "step" is a range's name and what a step is called.
std::vector<NameId> ids_of(const TraceModel& model, std::string_view raw) {
  std::vector<NameId> ids;
  for (NameId id = 0; id < model.names.size(); ++id) {
    if (model.names.raw(id) == raw) ids.push_back(id);
  }
  return ids;
}

// Slices of a name that begin within an interval, in order of time over all rows of a lane.
std::vector<SliceRef> slices_named(const TraceModel& model, std::uint32_t lane,
                                   const std::vector<NameId>& names, Interval within) {
  std::vector<SliceRef> found;
  const std::vector<SliceRow>& rows = model.lanes[lane].rows;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    const std::span<const Slice> slices = rows[row].slices();
    for (std::size_t i = rows[row].first_starting_at(within.start_ns);
         i < slices.size() && slices[i].start_ns < within.end_ns; ++i) {
      if (std::ranges::find(names, slices[i].name) == names.end()) continue;
      found.push_back({lane, row, static_cast<std::uint32_t>(i)});
    }
  }
  std::ranges::sort(found, {}, [&](const SliceRef& ref) {
    return std::pair(model.slice(ref).start_ns, ref.lane_row);
  });
  return found;
}

}  // namespace

std::optional<SliceRef> find_counterpart(const TraceModel& from, const SliceRef& ref,
                                         const TraceModel& to) {
  const LaneKind kind = from.lanes[ref.lane].kind;
  const Slice& slice = from.slice(ref);
  const int step = step_at(from, kind, slice.start_ns);
  const auto target = step_of(to, kind, step);
  if (!target) return std::nullopt;
  const std::string& raw = from.names.raw(slice.name);
  const std::vector<NameId> names = ids_of(to, raw);
  const auto before = slices_named(from, ref.lane, ids_of(from, raw),
                                   step_of(from, kind, step).value_or(Interval()));
  const auto place = static_cast<std::size_t>(std::ranges::find(before, ref) - before.begin());
  for (std::uint32_t lane = 0; lane < to.lanes.size(); ++lane) {
    if (to.lanes[lane].kind != kind) continue;
    const auto found = slices_named(to, lane, names, *target);
    if (place < found.size()) return found[place];
  }
  return std::nullopt;
}

}  // namespace steplens
