#include "viewer/data/phase_lanes.h"

#include <algorithm>
#include <utility>

#include "harness/trace/merge_ranks.h"

namespace steplens {
namespace {

PodVector<Slice> pod_of(const std::vector<Slice>& slices) {
  PodVector<Slice> copy(slices.size());
  std::ranges::copy(slices, copy.begin());
  return copy;
}

Lane lane_of(LaneKind kind, const std::vector<Slice>& slices, std::span<const Tone> tones) {
  Lane lane{.kind = kind};
  lane.rows = make_rows(pod_of(slices), tones);
  return lane;
}

// Joins operations that follow one another and have a name in common.
class Runs {
 public:
  void add(const Slice& slice, NameId name, std::int32_t step_index) {
    if (!slices_.empty() && step_index == step_index_ && slices_.back().name == name) {
      slices_.back().end_ns = slice.end_ns;
      return;
    }
    step_index_ = step_index;
    slices_.push_back({slice.start_ns, slice.end_ns, name, slice.row});
  }
  // Without those called `name`.
  std::vector<Slice> without(NameId name) {
    std::erase_if(slices_, [&](const Slice& slice) { return slice.name == name; });
    return std::move(slices_);
  }

 private:
  std::vector<Slice> slices_;
  std::int32_t step_index_ = -1;
};

const Lane* busiest_stream(const TraceModel& model) {
  const Lane* busiest = nullptr;
  for (const Lane& lane : model.lanes) {
    if (!has_operations(lane.kind)) continue;
    // Of several ranks, rank 0's: phases of all would hide one another.
    if (num_ranks(model.tables) > 1 && rank_of_device(model.tables, lane.device) > 0) continue;
    if (busiest == nullptr || lane.busy_ns() > busiest->busy_ns()) busiest = &lane;
  }
  return busiest;
}

// Within a kind, the busiest first.
int rank_of(LaneKind kind) {
  switch (kind) {
    case LaneKind::kSteps: return 0;
    case LaneKind::kPhases: return 1;
    case LaneKind::kModules: return 2;
    case LaneKind::kGraph: return 3;
    case LaneKind::kStream: return 4;
    case LaneKind::kOperators: return 5;
    case LaneKind::kSyncs: return 6;
    case LaneKind::kRanges: return 7;
    case LaneKind::kCalls: return 8;
  }
  return 9;
}

}  // namespace

void add_derived_lanes(TraceModel& model) {
  const NameTable& names = model.names;
  std::vector<Lane> derived;
  std::vector<Slice> steps;
  for (int step = 0; step < model.num_steps(); ++step) {
    const auto i = static_cast<std::size_t>(step);
    steps.push_back({model.step_bounds_ns[i], model.step_bounds_ns[i + 1], names.step(),
                     static_cast<std::uint32_t>(step)});
  }
  if (!steps.empty()) {
    derived.push_back(lane_of(LaneKind::kSteps, steps, names.range_tones()));
  }
  if (const Lane* stream = busiest_stream(model); stream != nullptr && !stream->rows.empty()) {
    Runs phases;
    Runs modules;
    for (const Slice& slice : stream->rows.front().slices()) {
      const OpDetail& op = model.ops[slice.row];
      phases.add(slice, names.name_of(op.phase), op.step_index);
      modules.add(slice, names.module_of(op.range), op.step_index);
    }
    const std::vector<Slice> of_phases = phases.without(names.name_of(Phase::kNone));
    const std::vector<Slice> of_modules = modules.without(0);
    if (!of_phases.empty()) {
      derived.push_back(lane_of(LaneKind::kPhases, of_phases, names.range_tones()));
    }
    if (!of_modules.empty()) {
      derived.push_back(lane_of(LaneKind::kModules, of_modules, names.range_tones()));
    }
  }
  if (!model.tables.syncs.empty()) {
    std::vector<Slice> syncs;
    for (std::size_t row = 0; row < model.tables.syncs.size(); ++row) {
      const Sync& sync = model.tables.syncs[row];
      syncs.push_back({sync.start_ns, std::max(sync.start_ns, sync.end_ns), sync.name,
                       static_cast<std::uint32_t>(row)});
    }
    derived.push_back(lane_of(LaneKind::kSyncs, syncs, names.api_tones()));
  }
  for (Lane& lane : derived) model.lanes.push_back(std::move(lane));
  std::ranges::stable_sort(model.lanes, [](const Lane& left, const Lane& right) {
    const int left_rank = rank_of(left.kind);
    const int right_rank = rank_of(right.kind);
    if (left_rank != right_rank) return left_rank < right_rank;
    if (left.device != right.device) return left.device < right.device;
    return left.busy_ns() > right.busy_ns();
  });
}

}  // namespace steplens
