#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "harness/statistics.h"
#include "harness/trace/trace.h"
#include "reports/breakdown/idle.h"
#include "reports/breakdown/kernel_patterns.h"

/// The one table of colours: plots and viewer show the same thing in the same colour. Okabe and
/// Ito's colours, then Tol's; people who do not see all hues can tell them apart.
namespace steplens {

struct Rgb {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  bool operator==(const Rgb&) const = default;
};

struct Swatch {
  std::string_view label;
  std::string_view colour;       // "#0072B2", on white.
  std::string_view on_dark;      // The same hue, light enough for a dark ground.
  std::string_view text_colour;  // Of words on `colour`.
};

const Swatch& swatch_of(KernelCategory category);
const Swatch& swatch_of(IdleClass idle);  // Pale: nothing ran.
const Swatch& swatch_of(MemoryOwner owner);
const Swatch& swatch_of(Phase phase);
const Swatch& swatch_of(std::optional<Verdict> verdict);  // Grey unless it is a finding.

/// For things without a colour of their own, such as kinds of modules: by their place in a list.
const Swatch& series_swatch(std::size_t index);

/// `colour` is "#rrggbb".
Rgb rgb_of(std::string_view colour);

}  // namespace steplens
