#pragma once

#include <optional>
#include <vector>

#include "viewer/draw/theme.h"

namespace steplens {

/// One comparison round by round: candidate / reference.
struct RoundPlot {
  struct Round {
    int index = 0;
    double ratio = 1;
  };
  std::vector<Round> rounds;
  double mean_ratio = 1;
  std::optional<double> low_ratio;  // Of the interval.
  std::optional<double> high_ratio;
  ImU32 colour = 0;
};

/// A point a round over the interval's band, in what is left of the window; nothing if that is too
/// low to be read.
void draw_round_plot(const Theme& theme, const RoundPlot& plot);

}  // namespace steplens
