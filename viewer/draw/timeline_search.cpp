#include "viewer/draw/timeline_search.h"

namespace steplens {
namespace {

// Up to here it is done within a frame: some 3 ns each.
constexpr std::size_t kMaxSlicesAtOnce = 2'000'000;

}  // namespace

void TimelineSearch::update(const std::optional<HitQuery>& query, const Models& models) {
  if (query != query_ || models != models_) {
    query_ = query;
    models_ = models;
    hits_.assign(models.size(), {});
    ++version_;
    task_ = nullptr;
    if (!query_) return;
    std::size_t num_slices = 0;
    for (const auto& model : models) {
      if (model == nullptr) continue;
      for (const Lane& lane : model->lanes) num_slices += lane.num_slices();
    }
    const auto work = [models, wanted = *query_](LoadProgress& progress) {
      std::vector<Hits> hits;
      for (const auto& model : models) {
        hits.push_back(model == nullptr ? Hits()
                                        : find_hits(*model, wanted, &progress.read.is_cancelled));
      }
      return hits;
    };
    if (num_slices <= kMaxSlicesAtOnce) {
      LoadProgress progress;
      hits_ = work(progress);
    } else {
      task_ = std::make_unique<BackgroundTask<std::vector<Hits>>>();
      task_->start(work);
    }
  }
  if (task_ == nullptr) return;
  if (auto found = task_->take()) {
    hits_ = std::move(*found);
    task_ = nullptr;
    ++version_;
  }
}

std::size_t TimelineSearch::num_hits() const {
  std::size_t count = 0;
  for (const Hits& hits : hits_) count += hits.count;
  return count;
}

std::vector<const Hits*> TimelineSearch::hits() const {
  std::vector<const Hits*> hits;
  hits.reserve(hits_.size());
  for (const Hits& of_side : hits_) hits.push_back(query_ ? &of_side : nullptr);
  return hits;
}

std::optional<SideSlice> TimelineSearch::neighbour(const std::vector<TimelineSide>& sides,
                                                   double time_ns, bool is_forward) const {
  std::optional<SideSlice> best;
  double best_ns = 0;
  for (std::size_t side = 0; side < sides.size() && side < hits_.size(); ++side) {
    const TraceModel* model = sides[side].model;
    if (model == nullptr || hits_[side].count == 0) continue;
    const std::int64_t at_ns = sides[side].origin_ns + static_cast<std::int64_t>(time_ns);
    const auto hit = is_forward ? next_hit(*model, hits_[side], at_ns)
                                : previous_hit(*model, hits_[side], at_ns);
    if (!hit) continue;
    const auto hit_ns = static_cast<double>(model->slice(*hit).start_ns - sides[side].origin_ns);
    if (best && (is_forward ? hit_ns >= best_ns : hit_ns <= best_ns)) continue;
    best = SideSlice{side, *hit};
    best_ns = hit_ns;
  }
  return best;
}

}  // namespace steplens
