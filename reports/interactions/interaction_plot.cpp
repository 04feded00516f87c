#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/interactions/interactions.h"
#include "reports/palette.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kCell = 74;
constexpr double kTop = 46;
constexpr double kLetterWidth = 7.5;

// Blue for more than the product, vermilion for less, both of Okabe and Ito, mixed with white: half
// of the way at `largest`, so that black words stay readable.
std::string colour_of(double log_ratio, double largest) {
  const Rgb full = rgb_of(log_ratio >= 0 ? "#0072B2" : "#D55E00");
  const double share = largest > 0 ? 0.6 * std::abs(log_ratio) / largest : 0;
  const auto mixed = [&](std::uint8_t channel) {
    return static_cast<int>(std::lround(255 + share * (channel - 255)));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(full.red), mixed(full.green), mixed(full.blue));
}

std::vector<std::string> single_arms(const std::vector<Interaction>& interactions) {
  std::vector<std::string> names;
  for (const Interaction& pair : interactions) {
    for (const std::string& name : {pair.first, pair.second}) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

}  // namespace

std::string interactions_svg(const std::vector<Interaction>& interactions) {
  if (interactions.empty()) return {};
  const std::vector<std::string> names = single_arms(interactions);
  std::size_t longest = 0;
  double largest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  for (const Interaction& pair : interactions) {
    largest = std::max(largest, std::abs(std::log(pair.ratio)));
  }
  const double left = 20 + kLetterWidth * static_cast<double>(longest);
  // The first arm has no row and the last no column: nothing would stand in it.
  const double side = kCell * static_cast<double>(names.size() - 1);
  const auto place = [&](std::string_view name) {
    return kCell * static_cast<double>(std::ranges::find(names, name) - names.begin());
  };
  std::string svg = svg_begin(left + side + 20, kTop + side + 60,
                              "What pairs give beyond the product of their effects");
  svg += svg_text(left, 18, "start", "% of the rate, beyond the product of both effects");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double at = kCell * (static_cast<double>(i) + 0.5);
    if (i > 0) svg += svg_text(left - 8, kTop + at - kCell + 4, "end", names[i]);
    if (i + 1 == names.size()) break;
    svg += svg_text(left + at, kTop + side + (i % 2 == 0 ? 18 : 36), "middle", names[i], kInkColour,
                    11);
  }
  for (const Interaction& pair : interactions) {
    // Below the diagonal, whichever stands first.
    const double column = std::min(place(pair.first), place(pair.second));
    const double row = std::max(place(pair.first), place(pair.second)) - kCell;
    svg += svg_rect(left + column + 1, kTop + row + 1, kCell - 2, kCell - 2,
                    colour_of(std::log(pair.ratio), largest), interaction_sentence(pair));
    svg += svg_text(left + column + kCell / 2, kTop + row + kCell / 2, "middle",
                    fmt::format("{:+.2f}", 100 * (pair.ratio - 1)), "#000000");
    svg += svg_text(left + column + kCell / 2, kTop + row + kCell / 2 + 18, "middle",
                    name_of(pair.kind), "#000000", 10);
  }
  return svg + "</svg>\n";
}

}  // namespace steplens
