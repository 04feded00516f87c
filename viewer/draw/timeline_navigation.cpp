#include "viewer/draw/timeline_navigation.h"

#include <algorithm>
#include <cmath>

#include "viewer/draw/keys.h"

namespace steplens {
namespace {

constexpr float kDragPx = 4;  // Less is a click.
constexpr double kWheelFactor = 1.25;
constexpr float kWheelScrollUnits = 60;
constexpr double kKeyZoomPerS = 2.5;  // Octaves.
constexpr double kKeyPanPerS = 0.9;   // Widths.
// A key that is only tapped moves as much as if it were held that long.
constexpr double kTapS = 0.12;

bool is_within(ImVec2 at, ImVec2 low, ImVec2 high) {
  return at.x >= low.x && at.x < high.x && at.y >= low.y && at.y < high.y;
}

// How long the key moved the view in this frame, s.
double moved_s(Key key, TimelineEvents& events) {
  if (is_pressed(key)) return kTapS;
  if (!is_held(key)) return 0;
  events.is_moving = true;
  return static_cast<double>(ImGui::GetIO().DeltaTime);
}

}  // namespace

void TimelineNavigation::move_zero(double moved_ns) {
  axis.start_ns -= moved_ns;
  for (double& mark_ns : marks) mark_ns -= moved_ns;
  if (measured) measured = {measured->first - moved_ns, measured->second - moved_ns};
}

TimelineEvents TimelineNavigation::update(const Theme& theme, const TimelineAreas& areas,
                                          const TimeAxis& overview) {
  TimelineEvents events;
  ImGui::SetCursorScreenPos(areas.overview_low);
  ImGui::InvisibleButton("##overview", {areas.overview_high.x - areas.overview_low.x,
                                        areas.overview_high.y - areas.overview_low.y});
  if (ImGui::IsItemActive()) {
    const double centre_ns = overview.ns_of(ImGui::GetIO().MousePos.x);
    axis.start_ns = centre_ns - axis.ns_per_px * static_cast<double>(axis.width) / 2;
  }
  ImGui::SetCursorScreenPos(areas.low);
  ImGui::InvisibleButton("##lanes", {areas.high.x - areas.low.x, areas.high.y - areas.low.y},
                         ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
  events.is_hovered = ImGui::IsItemHovered() && !is_panning_ && !is_measuring_;
  zoom_and_pan(theme, areas, events);
  drag(areas, events);
  const float max_scroll = std::max(0.0F, areas.content_height - (areas.high.y - areas.lanes_top));
  if (wanted_y_) {
    const float height = areas.high.y - areas.lanes_top;
    if (*wanted_y_ < scroll_y + theme.px(20) || *wanted_y_ > scroll_y + height - theme.px(20)) {
      scroll_y = *wanted_y_ - height / 2;
    }
    wanted_y_.reset();
  }
  scroll_y = std::clamp(scroll_y, 0.0F, max_scroll);
  return events;
}

void TimelineNavigation::zoom_and_pan(const Theme& theme, const TimelineAreas& areas,
                                      TimelineEvents& events) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool is_over = ImGui::IsItemHovered() || ImGui::IsItemActive();
  const bool is_over_lanes = is_over && io.MousePos.x >= axis.left;
  if (is_over && io.MouseWheel != 0) {
    if (!is_over_lanes || io.KeyShift) {
      scroll_y -= io.MouseWheel * theme.px(kWheelScrollUnits);
    } else {
      axis.zoom_at(io.MousePos.x, std::pow(kWheelFactor, static_cast<double>(io.MouseWheel)));
    }
  }
  if (is_over && io.MouseWheelH != 0) {
    axis.start_ns -= static_cast<double>(io.MouseWheelH * axis.width) * axis.ns_per_px / 12;
  }
  const float zoom_x = is_over_lanes ? io.MousePos.x : axis.left + axis.width / 2;
  const double octaves = (moved_s(Key::kW, events) - moved_s(Key::kS, events)) * kKeyZoomPerS;
  if (octaves != 0) axis.zoom_at(zoom_x, std::exp2(octaves));
  const double widths = (moved_s(Key::kD, events) + moved_s(Key::kRight, events) -
                         moved_s(Key::kA, events) - moved_s(Key::kLeft, events)) *
                        kKeyPanPerS;
  axis.start_ns += widths * static_cast<double>(axis.width) * axis.ns_per_px;
  if (is_pressed(Key::kM)) {
    toggle_mark(theme, axis.ns_of(is_over_lanes ? io.MousePos.x : zoom_x));
  }
  (void)areas;
}

void TimelineNavigation::drag(const TimelineAreas& areas, TimelineEvents& events) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool is_over = ImGui::IsItemHovered();
  if (is_over && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
    pressed_at_ = io.MousePos;
    is_pressed_ = true;
    is_panning_ = false;
  }
  if (is_over && ImGui::IsMouseClicked(ImGuiMouseButton_Right) && io.MousePos.x >= axis.left) {
    const double time_ns = axis.ns_of(io.MousePos.x);
    pressed_at_ = io.MousePos;
    measured = {time_ns, time_ns};
    is_measuring_ = true;
  }
  if (is_measuring_ && measured) {
    const float x = std::clamp(io.MousePos.x, axis.left, axis.right());
    measured = {measured->first, axis.ns_of(x)};
    if (!ImGui::IsMouseDown(ImGuiMouseButton_Right)) {
      is_measuring_ = false;
      // A right click without a drag takes the measure away.
      if (std::abs(x - pressed_at_.x) < kDragPx) measured.reset();
    }
  }
  if (is_pressed_) {
    const float dx = io.MousePos.x - pressed_at_.x;
    const float dy = io.MousePos.y - pressed_at_.y;
    if (std::abs(dx) + std::abs(dy) >= kDragPx) is_panning_ = true;
    if (is_panning_ && ImGui::IsMouseDown(ImGuiMouseButton_Left)) {
      axis.start_ns -= static_cast<double>(dx) * axis.ns_per_px;
      scroll_y -= dy;
      pressed_at_ = io.MousePos;
    }
    if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) {
      events.is_clicked = !is_panning_ && is_within(io.MousePos, areas.low, areas.high);
      is_pressed_ = is_panning_ = false;
    }
  }
  events.is_double_clicked = is_over && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
  if (is_panning_) ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeAll);
}

void TimelineNavigation::toggle_mark(const Theme& theme, double time_ns) {
  const auto near = std::ranges::find_if(marks, [&](double mark_ns) {
    return std::abs(axis.x_of(mark_ns) - axis.x_of(time_ns)) < theme.px(5);
  });
  if (near != marks.end()) {
    marks.erase(near);
  } else {
    marks.push_back(time_ns);
  }
}

}  // namespace steplens
