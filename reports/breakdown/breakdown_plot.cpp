#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "reports/breakdown/breakdown_parts.h"
#include "reports/format.h"
#include "reports/palette.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kRowHeight = 34;
constexpr double kBarHeight = 22;
constexpr double kTop = 30;
constexpr double kAxisHeight = 46;  // Its numbers and its title.
constexpr double kPlotWidth = 640;
constexpr double kTextWidth = 190;  // "110.2 ms, distorted".
constexpr double kLetterWidth = 8;  // Of the 13 px font, for the room that names need.
constexpr double kLegendRowHeight = 20;
constexpr double kMinLabelWidth = 40;  // Of "23.7 %" in the 11 px font.

constexpr std::size_t kNumKinds = kNumKernelCategories + kNumIdleClasses;

const Swatch& kind_at(std::size_t index) {
  return index < kNumKernelCategories
             ? swatch_of(static_cast<KernelCategory>(index))
             : swatch_of(static_cast<IdleClass>(index - kNumKernelCategories));
}

struct Bar {
  const TracedArm* arm;
  std::array<double, kNumKinds> parts_ns;  // Means a step; they sum to the step.
};

Bar bar_of(const TracedArm& arm) {
  Bar bar = {.arm = &arm, .parts_ns = {}};
  for (const UsageGroup& group : arm.breakdown.categories) {
    for (std::size_t i = 0; i < kNumKernelCategories; ++i) {
      if (group.key != name_of(static_cast<KernelCategory>(i))) continue;
      bar.parts_ns[i] = arm.breakdown.per_step(group.total.exclusive_ns);
    }
  }
  for (std::size_t i = 0; i < kNumIdleClasses; ++i) {
    bar.parts_ns[kNumKernelCategories + i] =
        arm.breakdown.per_step(arm.breakdown.total.idle_by_class_ns[i]);
  }
  return bar;
}

// A unit in which the axis has short numbers.
struct AxisUnit {
  double ns;
  std::string_view name;
};
AxisUnit axis_unit(double longest_ns) {
  if (longest_ns >= 2e9) return {.ns = 1e9, .name = "s"};
  if (longest_ns >= 2e6) return {.ns = 1e6, .name = "ms"};
  return {.ns = 1e3, .name = "us"};
}

class Plot {
 public:
  explicit Plot(std::vector<Bar> bars) : bars_(std::move(bars)) {
    std::size_t longest_name = 0;
    for (const Bar& bar : bars_) {
      longest_name = std::max(longest_name, bar.arm->arm.size());
      longest_ns_ = std::max(longest_ns_, bar.arm->breakdown.mean_step_ns());
    }
    left_ = 16 + kLetterWidth * static_cast<double>(longest_name);
    bottom_ = kTop + kRowHeight * static_cast<double>(bars_.size());
    width_ = left_ + kPlotWidth + kTextWidth;
  }

  std::string svg() {
    const std::string legend = draw_legend();
    svg_ = svg_begin(width_, height_, "Where a step's time goes, by arm");
    svg_ += svg_text(left_, 18, "start", "Where a step's time goes on the device");
    draw_axis();
    for (std::size_t i = 0; i < bars_.size(); ++i) {
      draw_bar(bars_[i],
               kTop + kRowHeight * static_cast<double>(i) + (kRowHeight - kBarHeight) / 2);
    }
    return svg_ + legend + "</svg>\n";
  }

 private:
  double x_of(double duration_ns) const { return left_ + kPlotWidth * duration_ns / longest_ns_; }

  void draw_axis() {
    const AxisUnit unit = axis_unit(longest_ns_);
    const double step = tick_step(longest_ns_ / unit.ns);
    for (int i = 0; i * step <= longest_ns_ / unit.ns * (1 + 1e-9); ++i) {
      const double x = x_of(i * step * unit.ns);
      svg_ += svg_line(x, kTop, x, bottom_ + 5, kGridColour, 1);
      svg_ += svg_text(x, bottom_ + 19, "middle",
                       fmt::format("{:.{}f}", i * step, tick_decimals(step)));
    }
    svg_ += svg_line(left_, bottom_, left_ + kPlotWidth, bottom_, kAxisColour, 1);
    svg_ += svg_text(left_ + kPlotWidth / 2, bottom_ + 37, "middle",
                     fmt::format("mean of the traced steps in {}", unit.name));
  }

  void draw_bar(const Bar& bar, double y) {
    const double middle = y + kBarHeight / 2 + 4;
    svg_ += svg_text(left_ - 8, middle, "end", bar.arm->arm);
    const double step_ns = bar.arm->breakdown.mean_step_ns();
    double begin_ns = 0;
    for (std::size_t i = 0; i < kNumKinds; ++i) {
      const double part_ns = bar.parts_ns[i];
      if (part_ns <= 0) continue;
      const double x = x_of(begin_ns);
      begin_ns += part_ns;
      draw_part(kind_at(i), i >= kNumKernelCategories, x, y, x_of(begin_ns) - x,
                format_percent(part_ns / step_ns));
    }
    svg_ += svg_text(x_of(begin_ns) + 8, middle, "start",
                     fmt::format("{}{}", format_duration_ns(step_ns),
                                 is_distorted(*bar.arm) ? ", distorted" : ""));
  }

  void draw_part(const Swatch& kind, bool is_idle, double x, double y, double width,
                 std::string_view label) {
    svg_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"{}>"
        "<title>{}: {}</title></rect>\n",
        x, y, width, kBarHeight, kind.colour,
        is_idle ? " stroke=\"#999999\" stroke-width=\"0.5\"" : "", svg_escaped(kind.label),
        svg_escaped(label));
    if (width < kMinLabelWidth) return;
    svg_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"11\" "
        "fill=\"{}\">{}</text>\n",
        x + width / 2, y + kBarHeight / 2 + 4, kind.text_colour, svg_escaped(label));
  }

  // Only what some bar has. Also finds the picture's height.
  std::string draw_legend() {
    std::string legend;
    double x = left_;
    double y = bottom_ + kAxisHeight + 12;
    for (std::size_t i = 0; i < kNumKinds; ++i) {
      if (std::ranges::none_of(bars_, [&](const Bar& bar) { return bar.parts_ns[i] > 0; })) {
        continue;
      }
      const Swatch& kind = kind_at(i);
      const double width = 44 + 7 * static_cast<double>(kind.label.size());
      if (x > left_ && x + width > width_) {
        x = left_;
        y += kLegendRowHeight;
      }
      legend += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\" "
          "stroke=\"#999999\" stroke-width=\"0.5\"/>\n",
          x, y - 10, kind.colour);
      legend += svg_text(x + 18, y, "start", kind.label);
      x += width;
    }
    height_ = y + 14;
    return legend;
  }

  std::vector<Bar> bars_;
  double longest_ns_ = 0;
  double left_ = 0;
  double bottom_ = 0;
  double width_ = 0;
  double height_ = 0;
  std::string svg_;
};

}  // namespace

std::string breakdown_svg(std::span<const TracedArm> arms) {
  std::vector<Bar> bars;
  for (const TracedArm& arm : arms) {
    if (arm.breakdown.total.step_ns > 0) bars.push_back(bar_of(arm));
  }
  return bars.empty() ? std::string() : Plot(std::move(bars)).svg();
}

}  // namespace steplens
