#include "viewer/draw/sweep_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/svg.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/text.h"

namespace steplens {
namespace {

constexpr float kLeftUnits = 78;
constexpr float kTopUnits = 30;
constexpr float kBottomUnits = 46;
constexpr float kMaxLegendUnits = 260;
constexpr float kMinLegendUnits = 90;
constexpr float kReachUnits = 14;  // So near a point the mouse means it.

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void widen(double share, double least) {
    const double margin = std::max(share * (high - low), least);
    low -= margin;
    high += margin;
  }
};

Range y_range(const SweepPlot& plot) {
  Range range;
  if (plot.has_zero_line) range.take(0);
  for (const SweepPlot::Line& line : plot.lines) {
    for (const SweepPlot::Point& point : line.points) {
      range.take(point.y);
      range.take(point.low.value_or(point.y));
      range.take(point.high.value_or(point.y));
    }
  }
  if (range.low > range.high) range = {0, 1};
  range.widen(0.08, std::max(1e-3 * std::abs(range.high), 1e-9));
  return range;
}

// Where things are, in pixels.
struct Frame {
  float left, right, top, bottom;
  Range x, y;

  float x_of(double value) const {
    return left + (right - left) * static_cast<float>((value - x.low) / (x.high - x.low));
  }
  float y_of(double value) const {
    return bottom - (bottom - top) * static_cast<float>((value - y.low) / (y.high - y.low));
  }
};

Frame frame_of(const Theme& theme, const SweepPlot& plot, ImVec2 corner, ImVec2 size) {
  float legend = theme.px(kMinLegendUnits);
  for (const SweepPlot::Line& line : plot.lines) {
    legend = std::max(legend, text_width(line.name) + theme.px(40));
  }
  legend = std::min({legend, theme.px(kMaxLegendUnits), size.x / 3});
  Frame frame = {.left = corner.x + theme.px(kLeftUnits),
                 .right = corner.x + size.x - legend,
                 .top = corner.y + theme.px(kTopUnits),
                 .bottom = corner.y + size.y - theme.px(kBottomUnits),
                 .x = {},
                 .y = y_range(plot)};
  for (const double position : plot.positions) frame.x.take(position);
  frame.x.widen(0.06, 0.5 * (frame.x.high > frame.x.low ? 0 : 1));
  return frame;
}

void draw_axes(const Theme& theme, const SweepPlot& plot, const Frame& frame, ImDrawList& list,
               ImVec2 corner) {
  draw_text(list, corner.x, corner.y + theme.px(4), theme.muted, plot.title);
  if (plot.marked_column) {
    const float x = frame.x_of(plot.positions[*plot.marked_column]);
    list.AddRectFilled({x - theme.px(16), frame.top}, {x + theme.px(16), frame.bottom},
                       with_alpha(theme.accent, 0.12F));
  }
  const double step = tick_step((frame.y.high - frame.y.low) * 0.7);
  const float line_height = ImGui::GetTextLineHeight();
  for (double tick = std::ceil(frame.y.low / step) * step; tick <= frame.y.high; tick += step) {
    const float y = std::round(frame.y_of(tick));
    const bool is_zero = std::abs(tick) < step / 2;
    list.AddLine({frame.left, y}, {frame.right, y},
                 is_zero && plot.has_zero_line ? theme.muted : theme.grid);
    const std::string digits = step >= 1 ? format_count(std::llround(tick))
                                         : fmt::format("{:.{}f}", tick, tick_decimals(step));
    draw_text(list, frame.left - theme.px(8), y - line_height / 2, theme.muted,
              is_zero                              ? "0"
              : plot.has_signs && digits[0] != '-' ? "+" + digits
                                                   : digits,
              HorizontalAlign::kRight);
  }
  float free_from = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < plot.labels.size(); ++i) {
    const float x = frame.x_of(plot.positions[i]);
    const float half = text_width(plot.labels[i]) / 2;
    list.AddLine({x, frame.bottom}, {x, frame.bottom + theme.px(4)}, theme.muted);
    if (x - half < free_from) continue;  // It would lie over the one before.
    draw_text(list, x, frame.bottom + theme.px(6),
              i == plot.marked_column ? theme.text : theme.muted, plot.labels[i],
              HorizontalAlign::kCentre);
    free_from = x + half + theme.px(8);
  }
  list.AddLine({frame.left, frame.bottom}, {frame.right, frame.bottom}, theme.muted);
  draw_text(list, (frame.left + frame.right) / 2, frame.bottom + theme.px(24), theme.muted,
            plot.x_title, HorizontalAlign::kCentre);
}

void draw_line(const Theme& theme, const SweepPlot& plot, const SweepPlot::Line& line,
               const Frame& frame, ImDrawList& list) {
  const float width = theme.px(line.is_emphasised ? 3.0F : 1.5F);
  ImVec2 before;
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const SweepPlot::Point& point = line.points[i];
    const ImVec2 at = {frame.x_of(plot.positions[point.column]), frame.y_of(point.y)};
    if (i > 0) list.AddLine(before, at, line.colour, width);
    before = at;
    if (point.low && point.high) {
      const float low = frame.y_of(*point.low);
      const float high = frame.y_of(*point.high);
      list.AddLine({at.x, low}, {at.x, high}, line.colour, theme.px(1.5F));
      for (const float end : {low, high}) {
        list.AddLine({at.x - theme.px(5), end}, {at.x + theme.px(5), end}, line.colour,
                     theme.px(1.5F));
      }
    }
    list.AddCircleFilled(at, theme.px(line.is_emphasised ? 5.5F : 4.5F), line.colour);
    mark(fmt::format("sweep/{}/{}", line.name, plot.labels[point.column]),
         {at.x - theme.px(5), at.y - theme.px(5)}, {at.x + theme.px(5), at.y + theme.px(5)});
  }
}

// Names at the lines' ends would lie over each other: they stand in a list, which can be clicked.
std::optional<std::size_t> draw_legend(const Theme& theme, const SweepPlot& plot,
                                       const Frame& frame, ImDrawList& list, float right) {
  std::optional<std::size_t> clicked;
  const float row_height = ImGui::GetTextLineHeight() + theme.px(6);
  float y = frame.top;
  for (std::size_t i = 0; i < plot.lines.size() && y + row_height <= frame.bottom; ++i) {
    const SweepPlot::Line& line = plot.lines[i];
    const float x = frame.right + theme.px(16);
    const ImVec2 high = {right, y + row_height};
    const bool is_hovered = ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect({x, y}, high);
    list.AddRectFilled({x, y + theme.px(4)}, {x + theme.px(10), y + theme.px(14)}, line.colour);
    draw_text(list, x + theme.px(18), y,
              line.is_emphasised || is_hovered ? theme.text : theme.muted,
              fitted(line.name, right - x - theme.px(22)));
    mark(fmt::format("sweep_legend/{}", line.name), {x, y}, high);
    if (is_hovered && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) clicked = i;
    y += row_height;
  }
  return clicked;
}

struct Nearest {
  std::size_t line;
  const SweepPlot::Point* point;
};

std::optional<Nearest> nearest_to(const Theme& theme, const SweepPlot& plot, const Frame& frame,
                                  ImVec2 mouse) {
  std::optional<Nearest> nearest;
  float least = theme.px(kReachUnits);
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    for (const SweepPlot::Point& point : plot.lines[i].points) {
      const float distance = std::hypot(mouse.x - frame.x_of(plot.positions[point.column]),
                                        mouse.y - frame.y_of(point.y));
      if (distance >= least) continue;
      least = distance;
      nearest = Nearest{i, &point};
    }
  }
  return nearest;
}

}  // namespace

SweepPlotEvents draw_sweep_plot(const Theme& theme, const SweepPlot& plot, float height) {
  SweepPlotEvents events;
  if (plot.labels.empty()) return events;
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const ImVec2 size = {ImGui::GetContentRegionAvail().x, height};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Frame frame = frame_of(theme, plot, corner, size);
  draw_axes(theme, plot, frame, list, corner);
  // What is looked at lies over the others.
  for (const bool is_emphasised : {false, true}) {
    for (const SweepPlot::Line& line : plot.lines) {
      if (line.is_emphasised == is_emphasised) draw_line(theme, plot, line, frame, list);
    }
  }
  events.clicked_line = draw_legend(theme, plot, frame, list, corner.x + size.x);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (ImGui::IsWindowHovered()) {
    if (const auto nearest = nearest_to(theme, plot, frame, mouse)) {
      ImGui::SetTooltip("%s", nearest->point->tooltip.c_str());
      if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
        events.clicked_line = nearest->line;
        events.clicked_column = nearest->point->column;
      }
    }
  }
  ImGui::Dummy(size);
  return events;
}

}  // namespace steplens
