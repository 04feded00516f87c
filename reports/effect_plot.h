#pragma once

#include <string>

#include "reports/results.h"

namespace steplens {

/// Forest plot of all effects with their intervals, as an SVG file: a zero line, the equivalence
/// band, one row a comparison. The verdict shows by colour (Okabe and Ito's, which colour-blind
/// people tell apart) and by shape: filled circle for faster and slower, square for equivalent,
/// hollow circle for what is not proven. Empty if no comparison has an interval.
std::string effects_svg(const Results& results);

}  // namespace steplens
