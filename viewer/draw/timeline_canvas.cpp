#include "viewer/draw/timeline_canvas.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/format.h"
#include "viewer/draw/counter_painter.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/text.h"

namespace steplens {
namespace {

// A frame of more than some 3,000 rectangles is late in software.
constexpr std::size_t kMaxRectangles = 2400;
constexpr float kMinTickGapUnits = 90;
constexpr float kMinStepGapUnits = 46;

bool is_shown(const TimelineScene& scene, const TimelineItem& item) {
  const float top = scene.y_of(item);
  return top < scene.high.y && top + item.height > scene.lanes_top;
}

const Lane* busiest(const TraceModel& model) {
  const auto it =
      std::ranges::find_if(model.lanes, [](const Lane& lane) { return has_operations(lane.kind); });
  return it == model.lanes.end() ? nullptr : &*it;
}

void triangle(ImDrawList& list, ImVec2 centre, float size, bool points_down, ImU32 colour) {
  const float h = size / 2;
  if (points_down) {
    list.AddTriangleFilled({centre.x - h, centre.y - h * 0.6F}, {centre.x + h, centre.y - h * 0.6F},
                           {centre.x, centre.y + h * 0.7F}, colour);
  } else {
    list.AddTriangleFilled({centre.x - h * 0.6F, centre.y - h}, {centre.x + h * 0.7F, centre.y},
                           {centre.x - h * 0.6F, centre.y + h}, colour);
  }
}

std::optional<ImVec2> position_of(const TimelineScene& scene, const SideSlice& slice, bool is_end) {
  const TimelineItem* item = scene.layout.find_lane(slice.side, slice.ref.lane);
  if (item == nullptr) return std::nullopt;
  const TimelineSide& side = scene.sides[slice.side];
  const Slice& at = side.model->slice(slice.ref);
  const std::int64_t time_ns = (is_end ? at.end_ns : at.start_ns) - side.origin_ns;
  const float y =
      scene.lanes_top - scene.scroll_y + TimelineLayout::middle_of_row(*item, slice.ref.lane_row);
  // Beyond the edges it makes no difference how far.
  const double x = std::clamp<double>(
      (static_cast<double>(time_ns) - scene.axis.start_ns) / scene.axis.ns_per_px, -4000, 12000);
  return ImVec2{scene.axis.left + static_cast<float>(x), y};
}

void draw_arrow(ImDrawList& list, const Theme& theme, const TimelineScene& scene) {
  if (!scene.arrow) return;
  const auto from = position_of(scene, scene.arrow->first, true);
  const auto to = position_of(scene, scene.arrow->second, false);
  if (!from || !to) return;
  const float bend = std::clamp(std::abs(to->x - from->x) / 2, theme.px(14), theme.px(90));
  list.AddBezierCubic(*from, {from->x + bend, from->y}, {to->x - bend, to->y}, *to,
                      with_alpha(theme.background, 0.8F), theme.px(4));
  list.AddBezierCubic(*from, {from->x + bend, from->y}, {to->x - bend, to->y}, *to, theme.text,
                      theme.px(1.6F));
  list.AddCircleFilled(*from, theme.px(3), theme.text);
  list.AddTriangleFilled({to->x - theme.px(7), to->y - theme.px(4)},
                         {to->x - theme.px(7), to->y + theme.px(4)}, {to->x + 1, to->y},
                         theme.text);
}

void draw_measure(ImDrawList& list, const Theme& theme, const TimelineScene& scene) {
  if (!scene.measured) return;
  const auto [from, to] = std::minmax(scene.measured->first, scene.measured->second);
  const float left = std::clamp(scene.axis.x_of(from), scene.axis.left, scene.axis.right());
  const float right = std::clamp(scene.axis.x_of(to), scene.axis.left, scene.axis.right());
  list.AddRectFilled({left, scene.lanes_top}, {right, scene.high.y},
                     with_alpha(theme.accent, 0.13F));
  for (const float x : {left, right}) {
    list.AddLine({x, scene.lanes_top}, {x, scene.high.y}, theme.accent, theme.px(1));
  }
  std::vector<std::string> lines = {format_duration_ns(to - from)};
  for (const TimelineSide& side : scene.sides) {
    if (side.model == nullptr) continue;
    const Lane* lane = busiest(*side.model);
    if (lane == nullptr || to - from < 1) continue;
    std::int64_t busy_ns = 0;
    for (const SliceRow& row : lane->rows) {
      busy_ns += row.busy_ns(side.origin_ns + static_cast<std::int64_t>(from),
                             side.origin_ns + static_cast<std::int64_t>(to));
    }
    lines.push_back(fmt::format("{} busy {}", lane->title,
                                format_percent(static_cast<double>(busy_ns) / (to - from))));
  }
  float width = 0;
  for (const std::string& line : lines) width = std::max(width, text_width(line));
  const float line_height = ImGui::GetTextLineHeight() + theme.px(2);
  const ImVec2 low = {
      std::clamp((left + right - width) / 2 - theme.px(8), scene.axis.left,
                 std::max(scene.axis.left, scene.axis.right() - width - theme.px(16))),
      scene.lanes_top + theme.px(8)};
  const ImVec2 high = {low.x + width + theme.px(16),
                       low.y + line_height * static_cast<float>(lines.size()) + theme.px(8)};
  list.AddRectFilled(low, high, theme.raised, theme.px(4));
  list.AddRect(low, high, theme.accent, theme.px(4));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    draw_text(list, low.x + theme.px(8), low.y + theme.px(4) + line_height * static_cast<float>(i),
              i == 0 ? theme.text : theme.muted, lines[i]);
  }
}

void draw_marks(ImDrawList& list, const Theme& theme, const TimelineScene& scene) {
  for (std::size_t i = 0; i < scene.marks.size(); ++i) {
    const float x = std::round(scene.axis.x_of(scene.marks[i]));
    if (x < scene.axis.left || x > scene.axis.right()) continue;
    list.AddLine({x, scene.low.y}, {x, scene.high.y}, theme.warning, theme.px(1));
    const std::string label = fmt::format("{}", i + 1);
    const float width = text_width(label) + theme.px(8);
    list.AddRectFilled({x, scene.low.y}, {x + width, scene.low.y + ImGui::GetTextLineHeight()},
                       theme.warning, theme.px(2));
    draw_text(list, x + theme.px(4), scene.low.y, text_on(theme.warning), label);
  }
}

void draw_scrollbar(ImDrawList& list, const Theme& theme, const TimelineScene& scene) {
  const float height = scene.high.y - scene.lanes_top;
  if (scene.layout.height() <= height) return;
  const float top = scene.lanes_top + height * scene.scroll_y / scene.layout.height();
  const float length = height * height / scene.layout.height();
  list.AddRectFilled({scene.high.x - theme.px(6), top}, {scene.high.x - theme.px(1), top + length},
                     with_alpha(theme.muted, 0.5F), theme.px(3));
}

}  // namespace

void TimelineCanvas::draw_ruler(ImDrawList& list, const Theme& theme, const TimelineScene& scene) {
  const float middle = std::round((scene.low.y + scene.lanes_top) / 2);
  list.AddRectFilled({scene.axis.left, scene.low.y}, {scene.high.x, scene.lanes_top}, theme.raised);
  const float text_gap = std::round((middle - scene.low.y - ImGui::GetTextLineHeight()) / 2);
  for (const Tick& tick : ticks_of(scene.axis, theme.px(kMinTickGapUnits))) {
    const float x = std::round(scene.axis.x_of(tick.time_ns));
    const bool is_major = !tick.label.empty();
    list.AddLine({x, scene.lanes_top - theme.px(is_major ? 6 : 3)}, {x, scene.lanes_top},
                 is_major ? theme.muted : theme.border);
    if (!is_major) continue;
    list.AddLine({x, scene.lanes_top}, {x, scene.high.y}, theme.grid);
    draw_text(list, x + theme.px(3), middle + text_gap - theme.px(3), theme.muted, tick.label);
  }
  num_other_rectangles_ += 60;
}

// Where steps begin: names in the ruler for the first side, thin lines through the lanes of each.
void TimelineCanvas::draw_step_lines(ImDrawList& list, const Theme& theme,
                                     const TimelineScene& scene) {
  for (std::size_t side = 0; side < scene.sides.size(); ++side) {
    const TraceModel* model = scene.sides[side].model;
    if (model == nullptr || model->num_steps() == 0) continue;
    float top = scene.high.y;
    float bottom = scene.lanes_top;
    for (const TimelineItem& item : scene.layout.items()) {
      if (item.side != side || item.kind == TimelineItem::Kind::kArm) continue;
      top = std::min(top, scene.y_of(item));
      bottom = std::max(bottom, scene.y_of(item) + item.height);
    }
    top = std::max(top, scene.lanes_top);
    const auto& bounds = model->step_bounds_ns;
    const auto time_of = [&](std::size_t i) {
      return static_cast<double>(bounds[i] - scene.sides[side].origin_ns);
    };
    const double mean_px = (time_of(bounds.size() - 1) - time_of(0)) /
                           static_cast<double>(model->num_steps()) / scene.axis.ns_per_px;
    const float min_gap =
        std::max(theme.px(kMinStepGapUnits),
                 text_width(fmt::format("step {}", model->num_steps())) + theme.px(14));
    const auto stride =
        static_cast<std::size_t>(std::max(1.0, std::ceil(static_cast<double>(min_gap) / mean_px)));
    if (scene.selected_steps) {
      const auto last = static_cast<std::size_t>(model->num_steps()) - 1;
      const auto from = std::min(last, static_cast<std::size_t>(scene.selected_steps->first));
      const auto to = std::min(last, static_cast<std::size_t>(scene.selected_steps->second));
      list.AddRectFilled({scene.axis.x_of(time_of(from)), side == 0 ? scene.low.y : top},
                         {scene.axis.x_of(time_of(to + 1)), bottom},
                         with_alpha(theme.accent, 0.09F));
    }
    for (std::size_t i = 0; i < bounds.size(); i += stride) {
      const float x = std::round(scene.axis.x_of(time_of(i)));
      const float next_x = i + stride < bounds.size() ? scene.axis.x_of(time_of(i + stride)) : x;
      if (next_x < scene.axis.left + theme.px(kMinStepGapUnits) || x > scene.axis.right()) continue;
      if (bottom > top) list.AddLine({x, top}, {x, bottom}, with_alpha(theme.accent, 0.4F));
      if (side != 0) continue;
      list.AddLine({x, scene.low.y}, {x, scene.lanes_top}, with_alpha(theme.accent, 0.7F));
      if (i + 1 < bounds.size()) {
        // The name of a step that began before the view stays in it.
        draw_text(list, std::max(x, scene.axis.left) + theme.px(4), scene.low.y + theme.px(1),
                  theme.text, fmt::format("step {}", i));
      }
    }
  }
}

void TimelineCanvas::draw_lane(ImDrawList& list, const Theme& theme, const TimelineScene& scene,
                               const TimelineItem& item, std::size_t max_slices) {
  const TimelineSide& side = scene.sides[item.side];
  const Lane& lane = side.model->lanes[item.index];
  const ToneColours colours = tone_colours(theme, lane.kind);
  const Hits* hits = scene.hits.size() > item.side ? scene.hits[item.side] : nullptr;
  std::string step_label;
  const std::function<std::string_view(const Slice&)> label_of = [&](const Slice& slice) {
    if (lane.kind != LaneKind::kSteps)
      return std::string_view(side.model->names.display(slice.name));
    step_label = fmt::format("step {}   {}", slice.row,
                             format_duration_ns(static_cast<double>(slice.duration_ns())));
    return std::string_view(step_label);
  };
  for (std::size_t i = 0; i < item.num_rows && i < lane.rows.size(); ++i) {
    const float top = scene.y_of(item) + item.row_height * static_cast<float>(i);
    const float bottom = top + item.row_height - 1;
    if (bottom < scene.lanes_top || top > scene.high.y) continue;
    RowStyle style{.colours = &colours, .max_slices = max_slices};
    const bool steps_back = hits != nullptr && lane.kind != LaneKind::kSteps;
    if (steps_back) {
      style.highlighted = hits->of(item.index, i);
      style.dims_others = true;
    }
    style.highlight_version = steps_back ? scene.hits_version : 0;
    const auto index_if_here = [&](const std::optional<SideSlice>& slice) {
      const bool is_here = slice && slice->side == item.side && slice->ref.lane == item.index &&
                           slice->ref.lane_row == i;
      return is_here ? slice->ref.index : kNoRow;
    };
    style.selected_index = index_if_here(scene.selected);
    if (style.selected_index == kNoRow) style.selected_index = index_if_here(scene.counterpart);
    style.hovered_index = index_if_here(scene.hovered);
    painter_.draw(list, theme, lane.rows[i], scene.axis, side.origin_ns, top, bottom, style,
                  label_of);
  }
}

void TimelineCanvas::draw_gutter(ImDrawList& list, const Theme& theme, const TimelineScene& scene,
                                 const TimelineItem& item) const {
  const float top = scene.y_of(item);
  const TimelineSide& side = scene.sides[item.side];
  const float left = scene.low.x;
  const float right = scene.axis.left - theme.px(8);
  const float text_y =
      top + std::round((std::min(item.height, theme.px(24)) - ImGui::GetTextLineHeight()) / 2);
  if (item.kind == TimelineItem::Kind::kArm) {
    list.AddRectFilled({left, top}, {scene.high.x, top + item.height}, theme.raised);
  }
  triangle(list, {left + theme.px(9), text_y + ImGui::GetTextLineHeight() / 2}, theme.px(8),
           !item.is_collapsed, theme.muted);
  const float text_left = left + theme.px(20);
  const auto put = [&](ImU32 colour, std::string_view title, std::string_view note) {
    const std::string shown = fitted(title, right - text_left);
    draw_text(list, text_left, text_y, colour, shown);
    const float note_left = text_left + text_width(shown) + theme.px(10);
    const std::string rest = fitted(note, right - note_left);
    if (!rest.empty()) draw_text(list, right, text_y, theme.muted, rest, HorizontalAlign::kRight);
  };
  if (item.kind == TimelineItem::Kind::kArm) {
    const std::string letter = item.side == 0 ? "A" : "B";
    std::string line = scene.sides.size() > 1 ? letter + "   " + side.arm : side.arm;
    draw_text(list, text_left, text_y, theme.text, line);
    std::string note = side.message;
    if (side.model != nullptr) {
      note = fmt::format("{} operations", format_count(side.model->num_operations));
      if (side.model->num_steps() > 0) {
        const auto& bounds = side.model->step_bounds_ns;
        note = fmt::format("{} steps of {},  {}", side.model->num_steps(),
                           format_duration_ns(static_cast<double>(bounds.back() - bounds.front()) /
                                              side.model->num_steps()),
                           note);
      }
    }
    draw_text(list, std::max(scene.axis.left, text_left + text_width(line) + theme.px(16)), text_y,
              theme.muted, note);
    return;
  }
  if (item.kind == TimelineItem::Kind::kMore) {
    put(theme.muted, "Host and counters", fmt::format("{}", item.index));
    list.AddLine({left, top - 1}, {scene.high.x, top - 1}, theme.border);
    return;
  }
  if (item.kind == TimelineItem::Kind::kCounter) {
    const CounterSeries& series = side.model->counters[item.index];
    const bool is_empty = series.points().empty();
    put(is_empty ? theme.muted : theme.text, series.name(),
        is_empty ? (series.absent_reason().empty() ? "no samples" : series.absent_reason())
                 : "up to " + counter_text(series.extent().max, series.unit()));
    return;
  }
  const Lane& lane = side.model->lanes[item.index];
  put(theme.text, lane.title, lane.note);
}

void mark_lanes(const TimelineScene& scene) {
  if (!are_marks_enabled()) return;
  mark("timeline.lanes", {scene.axis.left, scene.lanes_top}, scene.high);
  for (const TimelineItem& item : scene.layout.items()) {
    const char* side = item.side == 0 ? "a" : "b";
    const ImVec2 low = {scene.axis.left, scene.y_of(item)};
    const ImVec2 high = {scene.axis.right(), low.y + item.height};
    if (item.kind == TimelineItem::Kind::kMore) {
      mark(fmt::format("more.{}", side), {scene.low.x, low.y}, {scene.axis.left, high.y});
    } else if (item.kind == TimelineItem::Kind::kLane) {
      const Lane& lane = scene.sides[item.side].model->lanes[item.index];
      mark(fmt::format("lane.{}.{}", side, lane.title), low, high);
    }
  }
}

bool TimelineCanvas::draw(ImDrawList& list, const Theme& theme, const TimelineScene& scene) {
  painter_.begin_frame();
  num_other_rectangles_ = 0;
  std::size_t num_rows = 0;
  for (const TimelineItem& item : scene.layout.items()) {
    if (is_shown(scene, item)) num_rows += item.num_rows;
  }
  const std::size_t max_slices =
      std::max<std::size_t>(12, kMaxRectangles / std::max<std::size_t>(1, num_rows));

  list.PushClipRect(scene.low, scene.high, true);
  list.AddRectFilled({scene.axis.left, scene.lanes_top}, scene.high, theme.surface);
  list.PushClipRect({scene.axis.left, scene.low.y}, scene.high, true);
  draw_ruler(list, theme, scene);
  draw_step_lines(list, theme, scene);
  list.PopClipRect();

  list.PushClipRect({scene.axis.left, scene.lanes_top}, scene.high, true);
  list.ChannelsSplit(3);
  for (const TimelineItem& item : scene.layout.items()) {
    if (!is_shown(scene, item)) continue;
    if (item.kind == TimelineItem::Kind::kLane) {
      draw_lane(list, theme, scene, item, max_slices);
    } else if (item.kind == TimelineItem::Kind::kCounter) {
      const TimelineSide& side = scene.sides[item.side];
      list.ChannelsSetCurrent(1);
      num_other_rectangles_ += draw_counter(
          list, theme, side.model->counters[item.index], scene.axis, side.origin_ns,
          scene.y_of(item), scene.y_of(item) + item.height, mix(theme.surface, theme.accent, 0.8F));
    }
  }
  list.ChannelsMerge();
  draw_arrow(list, theme, scene);
  draw_measure(list, theme, scene);
  list.PopClipRect();

  list.PushClipRect({scene.low.x, scene.lanes_top}, scene.high, true);
  for (const TimelineItem& item : scene.layout.items()) {
    if (is_shown(scene, item)) draw_gutter(list, theme, scene, item);
  }
  list.PopClipRect();
  list.PushClipRect({scene.axis.left, scene.low.y}, scene.high, true);
  draw_marks(list, theme, scene);
  draw_scrollbar(list, theme, scene);
  list.PopClipRect();
  list.PopClipRect();
  return painter_.end_frame();
}

void TimelineCanvas::draw_overview(ImDrawList& list, const Theme& theme, const TimelineScene& scene,
                                   const TimeAxis& axis, float top, float bottom) {
  list.AddRectFilled({axis.left, top}, {axis.right(), bottom}, theme.surface);
  const TimelineSide& side = scene.sides.front();
  const Lane* lane = side.model != nullptr ? busiest(*side.model) : nullptr;
  overview_painter_.begin_frame();
  if (lane != nullptr && !lane->rows.empty()) {
    const ToneColours colours = tone_colours(theme, lane->kind);
    list.ChannelsSplit(3);
    overview_painter_.draw(list, theme, lane->rows.front(), axis, side.origin_ns, top + 2,
                           bottom - 2, {.colours = &colours, .max_slices = 0, .has_labels = false},
                           [](const Slice&) { return std::string_view(); });
    list.ChannelsMerge();
  }
  overview_painter_.end_frame();
  const float left = std::clamp(axis.x_of(scene.axis.start_ns), axis.left, axis.right());
  const float right = std::clamp(axis.x_of(scene.axis.end_ns()), axis.left, axis.right());
  const ImU32 shade = with_alpha(theme.background, 0.66F);
  list.AddRectFilled({axis.left, top}, {left, bottom}, shade);
  list.AddRectFilled({right, top}, {axis.right(), bottom}, shade);
  list.AddRect({left, top}, {std::max(right, left + 2), bottom}, theme.accent);
}

}  // namespace steplens
