#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace steplens {

/// Values `low` to `high` (> low) along pixels `begin` to `end`.
struct Scale {
  double low = 0;
  double high = 1;
  double begin = 0;
  double end = 1;

  double at(double value) const { return begin + (end - begin) * (value - low) / (high - low); }
};

/// The range of finite `values`, a little wider than they, and never narrower than `min_span`.
Scale scale_around(const std::vector<double>& values, double min_span, double begin, double end);

/// Numbers below a line at `y`, and a title below them: 40 pixels high.
std::string svg_x_axis(const Scale& x, double y, std::string_view title);

/// Numbers left of a grid from `left` to `right`, and a title above it.
std::string svg_y_axis(const Scale& y, double left, double right, std::string_view title);

/// Points as "x,y x,y ..."; those that are not finite are left out.
std::string svg_polyline(const Scale& x, const Scale& y, const std::vector<double>& xs,
                         const std::vector<double>& ys, std::string_view colour, double width,
                         std::string_view dashes = {});

}  // namespace steplens
