#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <imgui.h>

#include "viewer/draw/theme.h"

namespace steplens {

struct BarPart {
  std::string key;
  std::string label;
  double duration_ns = 0;
  ImU32 colour = 0;
  bool is_hatched = false;  // Nothing ran.
};

struct StackedBar {
  std::string name;
  std::string badge;  // "A", "B" or nothing, in front of the name.
  std::string note;   // Behind the bar: "110.2 ms".
  std::vector<BarPart> parts;
  double total_ns = 0;  // Of which shares are told.
};

struct BarRef {
  std::size_t bar = 0;
  std::size_t part = 0;
};

struct BarEvents {
  std::optional<BarRef> clicked;
  std::optional<std::size_t> clicked_name;  // Of a bar.
};

/// Horizontal bars on one scale from 0, one a line, with tooltips. `highlight`: key of the part
/// that stands out; empty: all do.
BarEvents stacked_bars(const Theme& theme, std::span<const StackedBar> bars,
                       const std::string& highlight, double longest_ns);

/// Height that they take.
float stacked_bars_height(const Theme& theme, std::size_t num_bars);

/// The parts' colours and names in lines as wide as the window. Returns the part that was clicked.
std::optional<std::size_t> bar_legend(const Theme& theme, std::span<const BarPart> parts,
                                      const std::string& highlight);

}  // namespace steplens
