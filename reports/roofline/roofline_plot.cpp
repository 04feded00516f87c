#include <algorithm>

#include <fmt/format.h>

#include "reports/breakdown/kernel_names.h"
#include "reports/format.h"
#include "reports/palette.h"
#include "reports/roofline/roofline_parts.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kRowHeight = 24;
constexpr double kBarHeight = 16;
constexpr double kTop = 34;
constexpr double kNamesWidth = 400;
constexpr double kPlotWidth = 380;
constexpr double kValuesWidth = 170;  // "713 TFLOP/s, 72.1 %".
constexpr double kAxisHeight = 44;

struct Bar {
  std::string name;
  std::string value;
  std::string_view colour;
  std::string tooltip;
  double share = 0;
};

std::vector<Bar> bars_of(const Roofline& roofline, std::size_t max_rows) {
  std::vector<Bar> bars;
  const auto add = [&](const RatedWork& work, std::string_view colour) {
    const std::optional<double> share = roofline.roof_share_ratio(work);
    if (!share) return;
    const bool is_memory = roofline.is_bound_by_memory(work);
    const std::string rate =
        is_memory ? fmt::format("{} GB/s", format_significant(*work.bytes_per_s() * 1e-9, 3))
                  : fmt::format("{} TFLOP/s", format_significant(*work.flops_per_s() * 1e-12, 3));
    bars.push_back(
        {.name = shortened_name(work.display),
         .value = fmt::format("{}, {}", rate, format_percent(*share)),
         .colour = colour,
         .tooltip = fmt::format("{}: {}, {} of its {}", work.display, rate, format_percent(*share),
                                is_memory ? "bandwidth" : "FLOP rate"),
         .share = *share});
  };
  for (const RatedWork& kernel : roofline.kernels) {
    if (bars.size() == max_rows) break;
    add(kernel, swatch_of(kernel.category).colour);
  }
  for (const RatedWork& part : roofline.parts) add(part, swatch_of(KernelCategory::kOther).colour);
  return bars;
}

}  // namespace

std::string roofline_svg(const Roofline& roofline, std::string_view arm, std::size_t max_rows) {
  const std::vector<Bar> bars = bars_of(roofline, max_rows);
  if (bars.empty()) return {};
  const double bottom = kTop + kRowHeight * static_cast<double>(bars.size());
  const auto x_of = [](double share) { return kNamesWidth + kPlotWidth * share; };
  std::string svg = svg_begin(
      kNamesWidth + kPlotWidth + kValuesWidth, bottom + kAxisHeight,
      fmt::format("What rates the kernels of {} reach", arm),
      "A bar for each of the longest kernels and for parts of the step: which share it reaches of "
      "the best rate at its intensity, the peak FLOP rate or the bandwidth.");
  svg += svg_text(kNamesWidth, 20, "start",
                  fmt::format("{}: rate reached, as a share of its roof", arm));
  for (int percent = 0; percent <= 100; percent += 20) {
    const double x = x_of(percent / 100.0);
    svg += svg_line(x, kTop, x, bottom + 5, kGridColour, 1);
    svg += svg_text(x, bottom + 19, "middle", std::to_string(percent), kInkColour, 12);
  }
  svg += svg_line(kNamesWidth, bottom, x_of(1), bottom, kAxisColour, 1);
  svg += svg_text(x_of(0.5), bottom + 37, "middle",
                  "% of the peak FLOP rate or of the bandwidth, whichever limits");
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const double y = kTop + kRowHeight * static_cast<double>(i) + (kRowHeight - kBarHeight) / 2;
    const double width = kPlotWidth * std::clamp(bar.share, 0.0, 1.0);
    svg += svg_text(kNamesWidth - 8, y + kBarHeight / 2 + 4, "end", bar.name, kInkColour, 12);
    svg += svg_rect(kNamesWidth, y, width, kBarHeight, bar.colour, bar.tooltip);
    // Beside the end of the scale, so that no value lies on a bar.
    svg += svg_text(x_of(1) + 10, y + kBarHeight / 2 + 4, "start", bar.value, kInkColour, 12);
  }
  return svg + "</svg>\n";
}

}  // namespace steplens
