#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <imgui.h>

#include "reports/breakdown/kernel_names.h"
#include "reports/format.h"
#include "viewer/data/counterpart.h"
#include "viewer/data/hits.h"
#include "viewer/data/slice_facts.h"
#include "viewer/draw/child.h"
#include "viewer/draw/keys.h"
#include "viewer/draw/search_field.h"
#include "viewer/draw/text.h"
#include "viewer/draw/timeline_canvas.h"
#include "viewer/draw/timeline_details.h"
#include "viewer/draw/timeline_navigation.h"
#include "viewer/draw/timeline_search.h"
#include "viewer/draw/timeline_toolbar.h"
#include "viewer/panels/panel.h"

namespace steplens {
namespace {

constexpr float kGutterUnits = 190;
constexpr float kRulerUnits = 40;
constexpr float kOverviewUnits = 22;
constexpr float kDetailUnits = 118;
constexpr float kLegendUnits = 22;

std::optional<HitQuery> query_of(const Highlight& highlight) {
  switch (highlight.kind) {
    case HighlightKind::kKernel: return HitQuery{HitQuery::Kind::kKernel, highlight.key};
    case HighlightKind::kPhase: return HitQuery{HitQuery::Kind::kPhase, highlight.key};
    case HighlightKind::kModule: return HitQuery{HitQuery::Kind::kModule, highlight.key};
    case HighlightKind::kCategory: return HitQuery{HitQuery::Kind::kCategory, highlight.key};
    default: return std::nullopt;
  }
}

class TimelinePanel final : public Panel {
 public:
  std::string_view key() const override { return "timeline"; }
  const char* title() const override { return "Timeline"; }
  void focus_search() override { field_.focus(); }

  void reset() override {
    sides_.clear();
    models_.clear();
    canvas_.clear();
    field_.clear();
    view_ = {};
    selected_.reset();
    tooltip_ = {};
    counterpart_.reset();
    arrow_.reset();
    last_operation_.reset();
    last_steps_.reset();
    needs_fit_ = true;
    zero_step_ = 0;
  }

  void draw(PanelContext& context) override {
    const Theme& theme = context.theme;
    if (!make_sides(context)) return;
    if (theme.kind != theme_kind_) canvas_.clear();
    theme_kind_ = theme.kind;
    update_hits(context);
    draw_toolbar(context);
    layout_.update(theme, sides_);

    const ImVec2 low = ImGui::GetCursorScreenPos();
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float detail_height = selected_ ? theme.px(kDetailUnits) : 0;
    view_.axis.left = low.x + theme.px(kGutterUnits);
    view_.axis.width = std::max(50.0F, room.x - theme.px(kGutterUnits));
    if (needs_fit_ && (sides_[0].model != nullptr || sides_.back().model != nullptr)) {
      fit_first(context);
      fitted_axis_ = view_.axis;
    }
    follow_selection(context);

    TimelineScene scene = make_scene(context);
    TimelineAreas areas{.overview_low = {view_.axis.left, low.y},
                        .overview_high = {low.x + room.x, low.y + theme.px(kOverviewUnits)}};
    areas.low = {low.x, areas.overview_high.y + theme.px(4)};
    areas.high = {low.x + room.x, low.y + room.y - detail_height - theme.px(kLegendUnits)};
    areas.lanes_top = areas.low.y + theme.px(kRulerUnits);
    areas.content_height = layout_.height();
    scene.low = areas.low;
    scene.high = areas.high;
    scene.lanes_top = areas.lanes_top;
    scene.scroll_y = view_.scroll_y;
    overview_axis_.left = view_.axis.left;
    overview_axis_.width = view_.axis.width;
    const auto [from_ns, to_ns] = whole_of(sides_);
    overview_axis_.show(from_ns, to_ns);
    handle_input(context, scene, areas);
    layout_.update(theme, sides_);
    scene.axis = view_.axis;
    scene.scroll_y = view_.scroll_y;
    scene.selected = selected_;
    scene.counterpart = counterpart_;
    scene.arrow = arrow_;
    scene.hovered = hovered_;
    scene.measured = view_.measured;
    scene.marks = view_.marks;
    ImDrawList& list = *ImGui::GetWindowDrawList();
    canvas_.draw_overview(list, theme, scene, overview_axis_, areas.overview_low.y,
                          areas.overview_high.y);
    if (canvas_.draw(list, theme, scene)) context.requests.needs_next_frame = true;
    mark_lanes(scene);
    ImGui::SetCursorScreenPos({low.x, scene.high.y + theme.px(3)});
    draw_category_legend(theme, sides_);
    if (selected_) draw_detail(context);
  }

  nlohmann::json state() const override {
    nlohmann::json sides = nlohmann::json::array();
    for (const TimelineSide& side : sides_) {
      sides.push_back({{"arm", side.arm},
                       {"is_loaded", side.model != nullptr},
                       {"lanes", side.model != nullptr ? side.model->lanes.size() : 0}});
    }
    return {{"start_ns", view_.axis.start_ns},
            {"ns_per_px", view_.axis.ns_per_px},
            {"width_px", view_.axis.width},
            {"scroll_y", view_.scroll_y},
            {"zero_step", zero_step_},
            {"sides", sides},
            {"search", field_.text()},
            {"num_hits", search_.num_hits()},
            {"selected", selected_ ? nlohmann::json(selected_title_) : nlohmann::json(nullptr)},
            {"has_arrow", arrow_.has_value()},
            {"has_counterpart", counterpart_.has_value()},
            {"marks", view_.marks},
            {"measured_ns", view_.measured ? nlohmann::json(std::abs(view_.measured->second -
                                                                     view_.measured->first))
                                           : nlohmann::json(nullptr)},
            {"num_rectangles", canvas_.num_rectangles()}};
  }

 private:
  // ---- What is shown ----

  TimelineSide make_side(PanelContext& context, const std::string& arm) {
    TimelineSide side{.arm = arm};
    const bool is_memory_run = context.document.find_trace(arm) == nullptr;
    const TraceEntry* entry = context.document.find_trace(arm, is_memory_run);
    if (entry == nullptr) {
      side.message = "no trace of this arm";
      return side;
    }
    side.model = context.document.want_trace(arm, is_memory_run);
    if (side.model == nullptr) {
      side.message = entry->error.empty() ? "loading..." : entry->error;
      if (entry->error.empty()) context.requests.needs_next_frame = true;
      return side;
    }
    side.origin_ns = side.model->origin_ns(zero_step_);
    return side;
  }

  bool make_sides(PanelContext& context) {
    const Selection& selection = context.selection;
    sides_.clear();
    sides_.push_back(make_side(context, selection.arm_a));
    if (!selection.arm_b.empty()) sides_.push_back(make_side(context, selection.arm_b));
    std::vector<const TraceModel*> models;
    models.reserve(sides_.size());
    for (const TimelineSide& side : sides_) models.push_back(side.model);
    if (models != models_) {
      // Another trace: what referred to the old one is gone.
      const bool is_first =
          std::ranges::all_of(models_, [](auto* model) { return model == nullptr; });
      models_ = models;
      canvas_.clear();
      selected_.reset();
      arrow_.reset();
      tooltip_ = {};
      counterpart_.reset();
      last_operation_.reset();
      // The other arm came later: unless somebody moved the view, both are shown.
      needs_fit_ |= is_first || (view_.axis.start_ns == fitted_axis_.start_ns &&
                                 view_.axis.ns_per_px == fitted_axis_.ns_per_px);
    }
    const bool has_model =
        std::ranges::any_of(models, [](auto* model) { return model != nullptr; });
    if (has_model) return true;
    if (std::ranges::any_of(sides_, [](auto& side) { return side.message == "loading..."; })) {
      empty_state(context.theme, "Loading the trace", "Lanes appear when it is there.");
    } else if (context.document.traces.empty()) {
      empty_state(context.theme, "No traces in this bundle",
                  "`steplens matrix` records one of each arm after its rounds, unless told not to; "
                  "`steplens trace` records a single arm.");
    } else {
      empty_state(context.theme, "No trace of this arm",
                  sides_[0].message + ". Pick another arm above.");
    }
    return false;
  }

  TimelineScene make_scene(const PanelContext& context) const {
    TimelineScene scene{.sides = sides_, .layout = layout_, .axis = view_.axis};
    scene.hits = search_.hits();
    scene.hits_version = search_.version();
    scene.selected = selected_;
    scene.arrow = arrow_;
    if (context.selection.steps) {
      scene.selected_steps = {context.selection.steps->first_step_index,
                              context.selection.steps->last_step_index};
    }
    return scene;
  }

  void fit_all() {
    const auto [from, to] = whole_of(sides_);
    view_.axis.show(from, to, 0.02);
  }

  std::optional<std::pair<double, double>> times_of_selected(const PanelContext& context) const {
    if (!context.selection.steps) return std::nullopt;
    const StepRange& steps = *context.selection.steps;
    return times_of_steps(sides_, steps.first_step_index, steps.last_step_index);
  }

  void fit_first(PanelContext& context) {
    needs_fit_ = false;
    if (context.selection.steps) zero_at(context.selection.steps->first_step_index);
    fit_all();
    if (!context.selection.steps) return;
    if (const auto times = times_of_selected(context))
      view_.axis.show(times->first, times->second, 0.05);
    last_steps_ = context.selection.steps;
  }

  // Steps begin together there; what is in view stays in view.
  void zero_at(int step) {
    zero_step_ = std::clamp(step, 0, num_steps_of(sides_) - 1);
    view_.move_zero(set_zero(sides_, zero_step_));
  }

  // ---- Selection ----

  void select(PanelContext& context, const SideSlice& slice) {
    const TimelineSide& side = sides_[slice.side];
    selected_ = slice;
    arrow_.reset();
    const Lane& lane = side.model->lanes[slice.ref.lane];
    const Slice& at = side.model->slice(slice.ref);
    selected_facts_ = facts_of(*side.model, slice.ref);
    selected_title_ = selected_facts_.title;
    find_counterpart_of(slice);
    if (has_operations(lane.kind)) {
      context.selection.operation = OperationRef{.arm = side.arm, .row = at.row};
      if (const auto launch = find_launch(*side.model, at.row)) {
        arrow_ = {SideSlice{slice.side, *launch}, slice};
      }
    } else {
      context.selection.operation.reset();
      if (lane.kind == LaneKind::kCalls) {
        const auto op = find_launched(*side.model, at.row);
        const auto ref = op ? find_operation(*side.model, *op) : std::nullopt;
        if (ref) arrow_ = {slice, SideSlice{slice.side, *ref}};
      }
    }
    if (lane.kind == LaneKind::kSteps) {
      const int step = static_cast<int>(at.row);
      if (ImGui::GetIO().KeyShift && context.selection.steps) {
        const StepRange& old = *context.selection.steps;
        context.selection.steps =
            StepRange{std::min(old.first_step_index, step), std::max(old.last_step_index, step)};
      } else {
        context.selection.steps = StepRange{step, step};
      }
      last_steps_ = context.selection.steps;
    }
    last_operation_ = context.selection.operation;
  }

  // The same work in the other arm, and how long it takes there.
  void find_counterpart_of(const SideSlice& slice) {
    counterpart_.reset();
    const std::size_t other = 1 - slice.side;
    if (other >= sides_.size() || sides_[other].model == nullptr) return;
    const TraceModel& model = *sides_[slice.side].model;
    const auto found = find_counterpart(model, slice.ref, *sides_[other].model);
    if (!found) return;
    counterpart_ = SideSlice{other, *found};
    const auto here_ns = static_cast<double>(model.slice(slice.ref).duration_ns());
    const auto there_ns = static_cast<double>(sides_[other].model->slice(*found).duration_ns());
    std::string text = format_duration_ns(there_ns);
    if (here_ns > 0) text += fmt::format(", {}", format_change(there_ns / here_ns));
    selected_facts_.lines.insert(selected_facts_.lines.begin() + 1,
                                 {other == 0 ? "The same in A" : "The same in B", text});
  }

  void frame(const SideSlice& slice) {
    const auto [from, to] = times_of(sides_, slice);
    view_.axis.show(from, std::max(to, from + 1), 1.2);
    if (const TimelineItem* item = layout_.find_lane(slice.side, slice.ref.lane)) {
      view_.reveal(TimelineLayout::middle_of_row(*item, slice.ref.lane_row));
    }
  }

  void frame_selection(const PanelContext& context) {
    if (selected_) {
      frame(*selected_);
    } else if (view_.measured) {
      const auto [from, to] = std::minmax(view_.measured->first, view_.measured->second);
      view_.axis.show(from, to, 0.05);
    } else if (context.selection.steps) {
      if (const auto times = times_of_selected(context)) {
        view_.axis.show(times->first, times->second, 0.05);
      }
    } else {
      fit_all();
    }
  }

  // Goes where another panel points.
  void follow_selection(PanelContext& context) {
    if (context.selection.operation && context.selection.operation != last_operation_) {
      for (std::size_t side = 0; side < sides_.size(); ++side) {
        if (sides_[side].model == nullptr || sides_[side].arm != context.selection.operation->arm) {
          continue;
        }
        last_operation_ = context.selection.operation;
        const auto ref = find_operation(*sides_[side].model, context.selection.operation->row);
        if (!ref) continue;
        select(context, {side, *ref});
        frame({side, *ref});
      }
    }
    if (context.selection.steps != last_steps_) {
      last_steps_ = context.selection.steps;
      if (last_steps_) {
        if (const auto times = times_of_selected(context))
          view_.axis.show(times->first, times->second, 0.05);
      }
    }
  }

  // ---- Search ----

  void update_hits(PanelContext& context) {
    std::optional<HitQuery> query = query_of(context.selection.highlight);
    if (!field_.text().empty()) query = HitQuery{HitQuery::Kind::kText, field_.text()};
    TimelineSearch::Models models;
    for (const TimelineSide& side : sides_) {
      models.emplace_back();
      for (const TraceEntry& entry : context.document.traces) {
        if (side.model != nullptr && entry.model.get() == side.model) models.back() = entry.model;
      }
    }
    search_.update(query, models);
    if (search_.is_running()) context.requests.needs_next_frame = true;
  }

  void go_to_hit(PanelContext& context, bool is_forward) {
    double from_ns = is_forward ? view_.axis.start_ns - 1 : view_.axis.end_ns() + 1;
    if (selected_) {
      const TimelineSide& side = sides_[selected_->side];
      from_ns = static_cast<double>(side.model->slice(selected_->ref).start_ns - side.origin_ns);
    }
    const auto hit = search_.neighbour(sides_, from_ns, is_forward);
    if (!hit) {
      context.requests.notice = is_forward ? "No hit after this one" : "No hit before this one";
      return;
    }
    select(context, *hit);
    frame(*hit);
  }

  // ---- Parts of the page ----

  void draw_toolbar(PanelContext& context) {
    Highlight& highlight = context.selection.highlight;
    const std::string highlighted = highlight.kind == HighlightKind::kKernel
                                        ? kernel_display_name(highlight.key)
                                        : highlight.key;
    const ToolbarEvents events =
        draw_timeline_toolbar(context.theme, field_, search_, highlighted, zero_step_);
    if (events.wants_no_highlight) highlight = {};
    if (events.wants_fit) fit_all();
    if (events.zero_step_change != 0) zero_at(zero_step_ + events.zero_step_change);
    if (events.wants_previous_hit) go_to_hit(context, false);
    if (events.wants_next_hit) go_to_hit(context, true);
  }

  void draw_detail(PanelContext& context) {
    const bool is_operation = context.selection.operation.has_value();
    const DetailEvents events =
        draw_facts_pane(context.theme, selected_facts_, is_operation, counterpart_.has_value());
    if (events.wants_kernel_table) highlight_selected(context);
    if (events.wants_counterpart && counterpart_) frame(*counterpart_);
  }

  void highlight_selected(PanelContext& context) const {
    if (!selected_) return;
    const TraceModel& model = *sides_[selected_->side].model;
    context.selection.highlight = {HighlightKind::kKernel,
                                   model.names.raw(model.slice(selected_->ref).name)};
    context.requests.open_panel = "kernels";
  }

  // ---- Input ----

  void handle_input(PanelContext& context, const TimelineScene& scene, const TimelineAreas& areas) {
    const TimelineEvents events = view_.update(context.theme, areas, overview_axis_);
    if (events.is_moving) context.requests.needs_next_frame = true;
    if (is_pressed(Key::kF)) frame_selection(context);
    if (is_pressed(Key::kEnter) && search_.is_active()) {
      go_to_hit(context, !ImGui::GetIO().KeyShift);
    }
    if (is_pressed(Key::kEscape)) drop(context);
    hovered_.reset();
    if (!events.is_hovered) return;
    const TimelinePick picked = pick(scene, ImGui::GetIO().MousePos);
    tooltip_.show(context.theme, sides_, view_.axis, picked);
    if (picked.kind == TimelinePick::Kind::kSlice) {
      const TimelineSide& side = sides_[picked.slice.side];
      if (has_operations(side.model->lanes[picked.slice.ref.lane].kind)) {
        context.selection.hovered =
            OperationRef{.arm = side.arm, .row = side.model->slice(picked.slice.ref).row};
      }
    }
    if (picked.kind == TimelinePick::Kind::kHeader && picked.item != nullptr) {
      if (events.is_clicked) layout_.toggle(*picked.item, sides_);
      return;
    }
    const bool has_slice =
        picked.kind == TimelinePick::Kind::kSlice || picked.kind == TimelinePick::Kind::kStretch;
    if (has_slice) hovered_ = picked.slice;
    if (events.is_double_clicked) {
      if (has_slice) {
        select(context, picked.slice);
        frame(picked.slice);
      } else {
        fit_all();
      }
    } else if (events.is_clicked) {
      if (has_slice) {
        select(context, picked.slice);
      } else {
        drop(context);
      }
    }
  }

  void drop(PanelContext& context) {
    selected_.reset();
    counterpart_.reset();
    arrow_.reset();
    view_.measured.reset();
    context.selection.operation.reset();
    last_operation_.reset();
  }

  std::vector<TimelineSide> sides_;
  std::vector<const TraceModel*> models_;  // Of `sides_`, in the frame before.
  TimelineLayout layout_;
  TimelineCanvas canvas_;
  ThemeKind theme_kind_ = ThemeKind::kDark;
  TimelineNavigation view_;
  TimeAxis fitted_axis_;  // As the panel itself set it.
  TimeAxis overview_axis_;
  int zero_step_ = 0;
  bool needs_fit_ = true;

  SearchField field_;
  TimelineSearch search_;

  std::optional<SideSlice> selected_;
  std::optional<SideSlice> counterpart_;  // Of the selected one, in the other arm.
  std::optional<SideSlice> hovered_;
  SliceFacts selected_facts_;
  std::string selected_title_;
  std::optional<std::pair<SideSlice, SideSlice>> arrow_;
  std::optional<OperationRef> last_operation_;
  std::optional<StepRange> last_steps_;
  TimelineTooltip tooltip_;
};

}  // namespace

std::unique_ptr<Panel> make_timeline_panel() { return std::make_unique<TimelinePanel>(); }

}  // namespace steplens
