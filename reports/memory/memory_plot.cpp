#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/memory/memory_parts.h"
#include "reports/palette.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kPlotWidth = 680;
constexpr double kPlotHeight = 130;
constexpr double kPanelHeight = kPlotHeight + 44;  // With its name above and its phases below.
constexpr double kTop = 34;
constexpr double kLeft = 66;
constexpr double kRight = 120;  // "peak 29.14 GiB"
constexpr double kLegendRowHeight = 20;
constexpr std::size_t kMaxColumns = 680;  // One a pixel: more cannot be seen.
constexpr double kMinPhaseWidth = 52;     // Of "optimizer" in the 11 px font.

// From the bottom up: what stays, then what comes and goes.
constexpr std::array<MemoryOwner, kNumMemoryOwners> kLayers = {
    MemoryOwner::kParameters, MemoryOwner::kOptimizerState, MemoryOwner::kGradients,
    MemoryOwner::kGraphPool,  MemoryOwner::kData,           MemoryOwner::kActivations,
    MemoryOwner::kWorkspace,  MemoryOwner::kUnknown,
};

// Of neighbouring points the one with most bytes, so that no peak is lost.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& points) {
  if (points.size() <= kMaxColumns) return points;
  std::vector<MemoryPoint> result;
  for (std::size_t column = 0; column < kMaxColumns; ++column) {
    const auto begin =
        points.begin() + static_cast<std::ptrdiff_t>(column * points.size() / kMaxColumns);
    const auto end =
        points.begin() + static_cast<std::ptrdiff_t>((column + 1) * points.size() / kMaxColumns);
    result.push_back(*std::max_element(begin, end, [](const auto& left, const auto& right) {
      return sum_of(left.by_owner) < sum_of(right.by_owner);
    }));
  }
  return result;
}

struct Unit {
  double bytes;
  std::string_view name;
};
Unit unit_for(double largest_bytes) {
  if (largest_bytes >= 2.0 * (1 << 30)) return {.bytes = 1 << 30, .name = "GiB"};
  if (largest_bytes >= 2.0 * (1 << 20)) return {.bytes = 1 << 20, .name = "MiB"};
  return {.bytes = 1 << 10, .name = "KiB"};
}

class Plot {
 public:
  explicit Plot(std::vector<const MemoryArm*> arms) : arms_(std::move(arms)) {
    for (const MemoryArm* arm : arms_) {
      panels_.push_back(thinned(arm->timeline));
      for (const MemoryPoint& point : panels_.back()) {
        largest_bytes_ = std::max(largest_bytes_, static_cast<double>(sum_of(point.by_owner)));
      }
    }
    unit_ = unit_for(largest_bytes_);
    width_ = kLeft + kPlotWidth + kRight;
  }

  std::string svg() {
    const double bottom = kTop + kPanelHeight * static_cast<double>(arms_.size());
    const std::string legend = draw_legend(bottom + 18);
    svg_ = svg_begin(width_, height_, "Allocated bytes through one step by owner, by arm");
    svg_ += svg_text(kLeft, 18, "start",
                     fmt::format("Allocated memory through one step, {}, by owner; left to right "
                                 "in the order of allocations and frees",
                                 unit_.name));
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      draw_panel(*arms_[i], panels_[i], kTop + kPanelHeight * static_cast<double>(i) + 20);
    }
    return svg_ + legend + "</svg>\n";
  }

 private:
  static double x_of(std::size_t point, std::size_t num_points) {
    return kLeft + kPlotWidth * static_cast<double>(point) / static_cast<double>(num_points);
  }
  double y_of(double bytes, double top) const {
    return top + kPlotHeight * (1 - bytes / largest_bytes_);
  }

  void draw_panel(const MemoryArm& arm, const std::vector<MemoryPoint>& points, double top) {
    svg_ += svg_text(kLeft, top - 6, "start", arm.arm);
    draw_axis(top);
    std::vector<double> below(points.size(), 0);
    for (const MemoryOwner owner : kLayers) draw_layer(owner, points, top, below);
    const double peak = *std::ranges::max_element(below);
    svg_ += svg_text(kLeft + kPlotWidth + 8, y_of(peak, top) + 4, "start",
                     "peak " + format_bytes(peak));
    draw_phases(points, top);
    svg_ +=
        svg_line(kLeft, top + kPlotHeight, kLeft + kPlotWidth, top + kPlotHeight, kAxisColour, 1);
  }

  void draw_axis(double top) {
    const double step = tick_step(largest_bytes_ / unit_.bytes) * 2;
    for (int i = 0; i * step * unit_.bytes <= largest_bytes_ * (1 + 1e-9); ++i) {
      const double y = y_of(i * step * unit_.bytes, top);
      svg_ += svg_line(kLeft - 4, y, kLeft + kPlotWidth, y, kGridColour, 1);
      svg_ +=
          svg_text(kLeft - 8, y + 4, "end", fmt::format("{:.{}f}", i * step, tick_decimals(step)));
    }
  }

  // One level a column, from the level of the first to the end of the last: a corner for each
  // change that a tenth of a pixel shows.
  static std::string stairs(const std::vector<double>& levels, bool is_backwards) {
    std::string path;
    std::string drawn;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const std::size_t column = is_backwards ? levels.size() - 1 - i : i;
      const std::string level = fmt::format("{:.1f}", levels[column]);
      if (i > 0 && level != drawn) {
        path += fmt::format("H{:.1f}V{}", x_of(is_backwards ? column + 1 : column, levels.size()),
                            level);
      }
      drawn = level;
    }
    return path + fmt::format("H{:.1f}", is_backwards ? kLeft : kLeft + kPlotWidth);
  }

  void draw_layer(MemoryOwner owner, const std::vector<MemoryPoint>& points, double top,
                  std::vector<double>& below) {
    std::vector<double> low, high;
    bool has_bytes = false;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto bytes = static_cast<double>(bytes_of(points[i].by_owner, owner));
      has_bytes |= bytes > 0;
      low.push_back(y_of(below[i], top));
      below[i] += bytes;
      high.push_back(y_of(below[i], top));
    }
    if (!has_bytes) return;
    const std::string path =
        fmt::format("M{:.1f} {:.1f}", kLeft, high[0]) + stairs(high, /*is_backwards=*/false) +
        fmt::format("V{:.1f}", low.back()) + stairs(low, /*is_backwards=*/true);
    svg_ += fmt::format("<path d=\"{}Z\" fill=\"{}\"><title>{}</title></path>\n", path,
                        swatch_of(owner).colour, svg_escaped(label_of(owner)));
  }

  void draw_phases(const std::vector<MemoryPoint>& points, double top) {
    std::size_t begin = 1;  // Point 0 is from before the step.
    for (std::size_t i = 2; i <= points.size(); ++i) {
      if (i < points.size() && points[i].phase == points[begin].phase) continue;
      const double left = x_of(begin, points.size());
      const double right = x_of(i, points.size());
      if (right - left >= kMinPhaseWidth) {
        svg_ += svg_line(left, top, left, top + kPlotHeight + 6, "#888888", 0.7);
        svg_ += svg_line(right, top, right, top + kPlotHeight + 6, "#888888", 0.7);
        svg_ += svg_text((left + right) / 2, top + kPlotHeight + 14, "middle",
                         name_of(points[begin].phase), kMutedColour, 11);
      }
      begin = i;
    }
  }

  // Only what some arm has. Also finds the picture's height.
  std::string draw_legend(double y) {
    std::string legend;
    double x = kLeft;
    for (const MemoryOwner owner : kLayers) {
      const bool is_there = std::ranges::any_of(panels_, [&](const auto& points) {
        return std::ranges::any_of(
            points, [&](const MemoryPoint& point) { return bytes_of(point.by_owner, owner) > 0; });
      });
      if (!is_there) continue;
      const std::string label = label_of(owner);
      const double width = 44 + 7 * static_cast<double>(label.size());
      if (x > kLeft && x + width > width_) {
        x = kLeft;
        y += kLegendRowHeight;
      }
      legend +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n",
                      x, y - 10, swatch_of(owner).colour);
      legend += svg_text(x + 18, y, "start", label);
      x += width;
    }
    height_ = y + 14;
    return legend;
  }

  std::vector<const MemoryArm*> arms_;
  std::vector<std::vector<MemoryPoint>> panels_;  // Of each arm.
  double largest_bytes_ = 0;
  Unit unit_ = {};
  double width_ = 0;
  double height_ = 0;
  std::string svg_;
};

}  // namespace

std::span<const MemoryOwner> stacking_order() { return kLayers; }

std::string memory_svg(std::span<const MemoryArm> arms) {
  std::vector<const MemoryArm*> drawn;
  for (const MemoryArm& arm : arms) {
    if (arm.timeline.size() > 1 && arm.use.peak.allocated_bytes() > 0) drawn.push_back(&arm);
  }
  return drawn.empty() ? std::string() : Plot(std::move(drawn)).svg();
}

}  // namespace steplens
