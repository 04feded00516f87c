#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "viewer/draw/theme.h"

namespace steplens {

/// Lines over the values of a sweep, a point with its interval at each value that has one.
struct SweepPlot {
  struct Point {
    std::size_t column = 0;  // Of `labels`.
    double y = 0;
    std::optional<double> low;  // Of the interval.
    std::optional<double> high;
    std::string tooltip;
  };
  struct Line {
    std::string name;
    ImU32 colour = 0;
    bool is_emphasised = false;
    std::vector<Point> points;
  };

  std::string title;  // What is upwards, with its unit.
  std::string x_title;
  std::vector<std::string> labels;  // One a value.
  std::vector<double> positions;    // Of the labels, from left to right in any unit.
  std::vector<Line> lines;
  bool has_zero_line = false;                // Zero is in sight and drawn as what is compared with.
  bool has_signs = false;                    // "+5" on the axis.
  std::optional<std::size_t> marked_column;  // On a band.
};

/// Indices into the plot's lines, and of the value that was meant.
struct SweepPlotEvents {
  std::optional<std::size_t> clicked_column;
  std::optional<std::size_t>
      clicked_line;  // Absent: beside all points, or in the legend's empty part.
};

/// As wide as what is left of the window and `height` high.
SweepPlotEvents draw_sweep_plot(const Theme& theme, const SweepPlot& plot, float height);

}  // namespace steplens
