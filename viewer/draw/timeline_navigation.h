#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <imgui.h>

#include "viewer/draw/theme.h"
#include "viewer/draw/time_axis.h"

namespace steplens {

/// Where the timeline's parts are on the screen.
struct TimelineAreas {
  ImVec2 overview_low, overview_high;
  ImVec2 low, high;  // Ruler and lanes, with the gutter on their left.
  float lanes_top = 0;
  float content_height = 0;  // Of all lanes.
};

/// What mouse and keys did that is not about the view.
struct TimelineEvents {
  bool is_hovered = false;  // The mouse is over ruler, lanes or gutter, and not busy.
  bool is_clicked = false;
  bool is_double_clicked = false;
  bool is_moving = false;  // A key is held: the next frame must come.
};

/// The view of the timeline and how it is moved: wheel zooms at the cursor (over the gutter it
/// scrolls), drag pans, W A S D zoom and pan, right-drag measures, M marks.
struct TimelineNavigation {
  TimeAxis axis;
  float scroll_y = 0;
  std::vector<double> marks;
  std::optional<std::pair<double, double>> measured;

  /// Once a frame, where the lanes are to be drawn. `overview`: the axis of the strip on top.
  TimelineEvents update(const Theme& theme, const TimelineAreas& areas, const TimeAxis& overview);

  /// Scrolls so that this height of the content is in view.
  void reveal(float y) { wanted_y_ = y; }
  /// The axis's zero moves by so much on the clock of what is shown.
  void move_zero(double moved_ns);

 private:
  void zoom_and_pan(const Theme& theme, const TimelineAreas& areas, TimelineEvents& events);
  void drag(const TimelineAreas& areas, TimelineEvents& events);
  void toggle_mark(const Theme& theme, double time_ns);

  std::optional<float> wanted_y_;
  ImVec2 pressed_at_ = {0, 0};
  bool is_pressed_ = false;
  bool is_panning_ = false;
  bool is_measuring_ = false;
};

}  // namespace steplens
