#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "reports/matrix_table.h"
#include "reports/pairs.h"
#include "reports/palette.h"
#include "reports/plots/axis.h"
#include "reports/plots/step_plots.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr std::size_t kMaxSteps = 60;  // As far as the guard compares.
constexpr double kLeft = 60;
constexpr double kPanelWidth = 400;
constexpr double kPanelGap = 70;
constexpr double kCurveHeight = 170;
constexpr double kDeviationHeight = 150;
constexpr double kTop = 40;
constexpr double kRowGap = 44;
constexpr double kLegendRowHeight = 20;
constexpr double kFloor = -9;  // Powers of ten: fp32 rounds at about 6e-8; equal is drawn here.
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kNumColours = 10;  // Of the series.
constexpr std::array<std::string_view, 3> kDashes = {"", "6 3", "2 2"};

enum class Quantity : std::uint8_t { kLoss, kGradNorm };

// Warm-up and measured steps.
std::vector<double> curve_of(const BlockRecord& block, Quantity quantity) {
  const auto part = quantity == Quantity::kLoss ? &StepArrays::loss : &StepArrays::grad_norm;
  std::vector<double> values = block.warmup.*part;
  values.insert(values.end(), (block.steps.*part).begin(), (block.steps.*part).end());
  values.resize(std::min(values.size(), kMaxSteps));
  return values;
}

std::vector<double> deviation_of(const std::vector<double>& curve,
                                 const std::vector<double>& reference) {
  std::vector<double> powers;
  for (std::size_t i = 0; i < std::min(curve.size(), reference.size()); ++i) {
    const double ratio = reference[i] == 0 ? kNaN : std::abs(curve[i] / reference[i] - 1);
    powers.push_back(ratio > 0 ? std::max(kFloor, std::log10(ratio))
                               : (ratio == 0 ? kFloor : kNaN));
  }
  return powers;
}

struct Line {
  const ArmResult* arm;
  const BlockRecord* block;
  const BlockRecord* reference = nullptr;  // None for the baseline.
  std::string_view colour;
  std::string_view dashes;
  double width = 1.4;
};

std::vector<Line> lines_of(const Bundle& bundle, const Results& results) {
  std::vector<Line> lines;
  std::size_t num_drawn = 0;
  for (const ArmResult* row : table_order(results)) {
    const Arm* arm = find_arm(bundle.manifest, row->name);
    if (arm == nullptr) continue;
    if (row->contract == Contract::kForwardOnly) continue;  // It trains nothing: no trajectory.
    if (row->reference.empty()) {
      const std::vector<const BlockRecord*> blocks = usable_blocks(bundle, row->name);
      if (blocks.empty()) continue;
      lines.push_back({.arm = row, .block = blocks.front(), .colour = kAxisColour, .width = 3.5});
      continue;
    }
    const std::vector<BlockPair> pairs = block_pairs(bundle, *arm);
    if (pairs.empty()) continue;
    lines.push_back({.arm = row,
                     .block = pairs.front().candidate,
                     .reference = pairs.front().reference,
                     .colour = series_swatch(num_drawn).colour,
                     .dashes = kDashes[num_drawn / kNumColours % kDashes.size()]});
    ++num_drawn;
  }
  return lines;
}

std::vector<double> steps_of(std::size_t count) {
  std::vector<double> steps;
  steps.reserve(count);
  for (std::size_t i = 0; i < count; ++i) steps.push_back(static_cast<double>(i + 1));
  return steps;
}

std::string curves_svg(const std::vector<Line>& lines, Quantity quantity, const Scale& x) {
  std::vector<double> all;
  for (const Line& line : lines) {
    const std::vector<double> curve = curve_of(*line.block, quantity);
    all.insert(all.end(), curve.begin(), curve.end());
  }
  const Scale y = scale_around(all, 1e-6, kTop + kCurveHeight, kTop);
  std::string svg = svg_y_axis(y, x.begin, x.end,
                               quantity == Quantity::kLoss ? "loss" : "gradient norm, before clip");
  for (const Line& line : lines) {
    const std::vector<double> curve = curve_of(*line.block, quantity);
    svg += svg_polyline(x, y, steps_of(curve.size()), curve, line.colour, line.width, line.dashes);
  }
  return svg + svg_x_axis(x, kTop + kCurveHeight, "");
}

std::string deviations_svg(const std::vector<Line>& lines, Quantity quantity, const Scale& x) {
  const double top = kTop + kCurveHeight + kRowGap;
  const Scale y = {.low = kFloor, .high = 0, .begin = top + kDeviationHeight, .end = top};
  std::string svg = svg_text(x.begin, top - 8, "start", "|ratio to the reference - 1|, same step");
  for (int power = static_cast<int>(kFloor); power <= 0; power += 3) {
    svg += svg_line(x.begin, y.at(power), x.end, y.at(power), kGridColour, 1);
    svg += svg_text(x.begin - 7, y.at(power) + 4, "end",
                    power == static_cast<int>(kFloor) ? "equal" : fmt::format("1e{}", power),
                    kInkColour, 12);
  }
  std::vector<double> tolerances;
  for (const Line& line : lines) {
    const std::optional<double>& tolerance = quantity == Quantity::kLoss
                                                 ? line.arm->loss_tolerance_ratio
                                                 : line.arm->grad_norm_tolerance_ratio;
    const bool is_without_limit = line.arm->contract == Contract::kLowerPrecision;
    if (line.reference == nullptr) continue;
    if (!tolerance && !is_without_limit) continue;  // Not compared: other maths.
    if (tolerance && std::ranges::find(tolerances, *tolerance) == tolerances.end()) {
      tolerances.push_back(*tolerance);
    }
    const std::vector<double> deviation =
        deviation_of(curve_of(*line.block, quantity), curve_of(*line.reference, quantity));
    svg += svg_polyline(x, y, steps_of(deviation.size()), deviation, line.colour, line.width,
                        line.dashes);
  }
  for (const double tolerance : tolerances) {
    if (tolerance <= 0) continue;
    const double at = y.at(std::max(kFloor, std::log10(tolerance)));
    svg += svg_line(x.begin, at, x.end, at, swatch_of(Verdict::kSlower).colour, 1.5);
    svg += svg_text(x.end, at - 5, "end", "allowed, as a mean", kInkColour, 11);
  }
  return svg + svg_x_axis(x, top + kDeviationHeight, "step, warm-up included");
}

// Finds the height of the picture too.
std::string legend_svg(const std::vector<Line>& lines, double width, double& height) {
  std::string svg;
  double x = kLeft;
  double y = kTop + kCurveHeight + kRowGap + kDeviationHeight + 64;
  for (const Line& line : lines) {
    const double needed = 56 + 7.5 * static_cast<double>(line.arm->name.size());
    if (x > kLeft && x + needed > width) {
      x = kLeft;
      y += kLegendRowHeight;
    }
    svg += fmt::format(
        "<path{} d=\"M{:.1f} {:.1f}h26\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n",
        svg_class(line.colour), x, y - 4, line.colour, line.width,
        line.dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", line.dashes));
    svg += svg_text(x + 32, y, "start", line.arm->name);
    x += needed;
  }
  height = y + 14;
  return svg;
}

}  // namespace

std::string trajectory_svg(const Bundle& bundle, const Results& results) {
  const std::vector<Line> lines = lines_of(bundle, results);
  std::size_t num_steps = 0;
  for (const Line& line : lines) {
    num_steps = std::max(num_steps, curve_of(*line.block, Quantity::kLoss).size());
  }
  if (num_steps < 2) return {};
  const double width = kLeft + 2 * kPanelWidth + kPanelGap + 20;
  double height = 0;
  const std::string legend = legend_svg(lines, width, height);
  std::string svg = svg_begin(width, height, "Loss and gradient norm, by arm",
                              "Curves of all arms over the same steps, and how far each leaves its "
                              "reference beside what is allowed");
  double left = kLeft;
  for (const Quantity quantity : {Quantity::kLoss, Quantity::kGradNorm}) {
    const Scale x = {.low = 0.5,
                     .high = static_cast<double>(num_steps) + 0.5,
                     .begin = left,
                     .end = left + kPanelWidth};
    svg += curves_svg(lines, quantity, x) + deviations_svg(lines, quantity, x);
    left += kPanelWidth + kPanelGap;
  }
  return svg + legend + "</svg>\n";
}

}  // namespace steplens
