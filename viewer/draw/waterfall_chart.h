#pragma once

#include <optional>
#include <span>
#include <string>

#include <imgui.h>

#include "viewer/draw/theme.h"

namespace steplens {

struct WaterfallBar {
  std::string key;
  std::string label;
  double difference_ns = 0;
  ImU32 colour = 0;
  std::string tooltip;
};

struct WaterfallChart {
  std::string reference;  // Names of the two ends,
  std::string candidate;
  double reference_ns = 0;  // and their lengths; the bars' differences lead from one to the other.
  double candidate_ns = 0;
  std::span<const WaterfallBar> bars;
};

/// From the reference down to the candidate, a line each, in a child window of that size. Returns
/// the bar that was clicked. `highlight`: key of the bar that stands out; empty: all do.
std::optional<std::size_t> draw_waterfall(const Theme& theme, const WaterfallChart& chart,
                                          const std::string& highlight, ImVec2 size);

}  // namespace steplens
