#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "viewer/data/background_task.h"
#include "viewer/data/hits.h"
#include "viewer/draw/timeline_canvas.h"

namespace steplens {

/// What stands out on the timeline: finds it, in the background where there is much, and goes from
/// one hit to the next.
class TimelineSearch {
 public:
  using Models = std::vector<std::shared_ptr<const TraceModel>>;

  /// Looks for something else, in these; nothing without a query. Does nothing while both stay.
  void update(const std::optional<HitQuery>& query, const Models& models);

  bool is_active() const { return query_.has_value(); }
  bool is_running() const { return task_ != nullptr; }
  std::size_t num_hits() const;
  /// By side; null without a query.
  std::vector<const Hits*> hits() const;
  /// Another one whenever the hits are.
  std::uint64_t version() const { return version_; }

  /// The nearest hit after a moment of the axis, or before it.
  std::optional<SideSlice> neighbour(const std::vector<TimelineSide>& sides, double time_ns,
                                     bool is_forward) const;

 private:
  std::optional<HitQuery> query_;
  Models models_;
  std::vector<Hits> hits_;
  std::uint64_t version_ = 0;
  std::unique_ptr<BackgroundTask<std::vector<Hits>>> task_;
};

}  // namespace steplens
