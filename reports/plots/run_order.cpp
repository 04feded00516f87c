#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/pairs.h"
#include "reports/palette.h"
#include "reports/plots/axis.h"
#include "reports/plots/step_plots.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kLeft = 66;
constexpr double kPlotWidth = 860;
constexpr double kRatesHeight = 190;
constexpr double kMachineHeight = 80;
constexpr double kGap = 34;         // Room of a panel's title.
constexpr double kTop = 56;         // Legend and first title.
constexpr int kMaxRoundLines = 60;  // More would be a grey area.
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Machine {
  std::string_view key;  // Of a block's samples.
  std::string_view title;
  double min_span;
};
constexpr Machine kMachine[] = {
    {"mean_sm_clock_mhz", "mean SM clock of the block, MHz", 10},
    {"mean_power_watts", "mean power of the block, W", 10},
    {"max_temperature_celsius", "highest temperature of the block, C", 2},
};

struct Mark {
  const BlockEntry* entry;
  const BlockRecord* block;
  double minutes;
  double percent = kNaN;  // Of the arm's mean rate; none without one.
  bool is_baseline = false;
  bool is_usable = false;
};

std::vector<Mark> marks_of(const Bundle& bundle, const Results& results) {
  std::vector<Mark> marks;
  const ArmResult* baseline = baseline_of(results);
  for (std::size_t i = 0; i < bundle.blocks.size(); ++i) {
    const BlockEntry& entry = bundle.manifest.blocks[i];
    if (entry.kind != BlockKind::kThroughput) continue;
    const BlockRecord& block = bundle.blocks[i];
    Mark mark = {.entry = &entry,
                 .block = &block,
                 .minutes = (entry.start_s + entry.duration_s / 2) / 60,
                 .is_baseline = baseline != nullptr && baseline->name == entry.arm,
                 .is_usable = entry.status == BlockStatus::kOk && !entry.is_superseded};
    const ArmResult* arm = find_arm(results, entry.arm);
    if (entry.status == BlockStatus::kOk && why_unusable(block).empty() && arm != nullptr &&
        arm->valid_tokens_per_s && *arm->valid_tokens_per_s > 0) {
      mark.percent = 100 * (valid_tokens_per_s(block) / *arm->valid_tokens_per_s - 1);
    }
    marks.push_back(mark);
  }
  return marks;
}

double sample_of(const BlockRecord& block, std::string_view key) {
  if (!block.samples.is_object()) return kNaN;
  const auto it = block.samples.find(key);
  return it == block.samples.end() || !it->is_number() ? kNaN : it->get<double>();
}

bool is_throttled(const BlockRecord& block) {
  if (!block.samples.is_object()) return false;
  const auto it = block.samples.find("is_throttled_by_hardware");
  return it != block.samples.end() && it->is_boolean() && it->get<bool>();
}

std::string_view alarm_colour() { return swatch_of(Verdict::kSlower).colour; }
std::string_view baseline_colour() { return series_swatch(0).colour; }

std::string cross_svg(double x, double y) {
  return svg_line(x - 5, y - 5, x + 5, y + 5, alarm_colour(), 2.2) +
         svg_line(x - 5, y + 5, x + 5, y - 5, alarm_colour(), 2.2);
}

// Hollow: measured, but not used.
std::string dot_svg(const Mark& mark, double x, double y, std::string_view tooltip) {
  const double radius = mark.is_baseline ? 4.5 : 3;
  const std::string_view colour =
      mark.is_baseline ? baseline_colour() : swatch_of(std::optional<Verdict>()).colour;
  const std::string style =
      mark.is_usable ? fmt::format("fill=\"{}\"", colour)
                     : fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"", colour);
  return fmt::format(
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" {}{}\n", x, y, radius, style,
      tooltip.empty() ? "/>" : fmt::format("><title>{}</title></circle>", svg_escaped(tooltip)));
}

class Plot {
 public:
  explicit Plot(std::vector<Mark> marks) : marks_(std::move(marks)) {
    std::vector<double> minutes;
    minutes.reserve(marks_.size());
    for (const Mark& mark : marks_) minutes.push_back(mark.minutes);
    x_ = scale_around(minutes, 0.1, kLeft, kLeft + kPlotWidth);
  }

  std::string svg() {
    double bottom = kTop + kRatesHeight;
    std::string panels = rates_panel(bottom);
    for (const Machine& machine : kMachine) {
      const std::string panel = machine_panel(machine, bottom + kGap + kMachineHeight);
      if (panel.empty()) continue;
      panels += panel;
      bottom += kGap + kMachineHeight;
    }
    return svg_begin(kLeft + kPlotWidth + 20, bottom + 46, "The run in the order it ran",
                     "Each block's rate against its arm's mean, and the machine's state, over "
                     "time") +
           legend() + round_lines(bottom) + panels +
           svg_x_axis(x_, bottom, "minutes since the matrix began") + "</svg>\n";
  }

 private:
  std::string legend() const {
    std::string svg = dot_svg(
        {.entry = nullptr, .block = nullptr, .minutes = 0, .is_baseline = true, .is_usable = true},
        kLeft + 6, 14, "");
    svg += svg_text(kLeft + 16, 18, "start", "baseline");
    svg += dot_svg({.entry = nullptr, .block = nullptr, .minutes = 0, .is_usable = true},
                   kLeft + 96, 14, "");
    svg += svg_text(kLeft + 106, 18, "start", "other arms");
    svg += dot_svg({.entry = nullptr, .block = nullptr, .minutes = 0}, kLeft + 196, 14, "");
    svg += svg_text(kLeft + 206, 18, "start", "measured, not used");
    svg += cross_svg(kLeft + 350, 14);
    return svg + svg_text(kLeft + 362, 18, "start", "failed, or throttled by hardware");
  }

  std::string round_lines(double bottom) const {
    std::string svg;
    int drawn = -1;
    int num_lines = 0;
    for (const Mark& mark : marks_) {
      if (mark.entry->round_index <= drawn || ++num_lines > kMaxRoundLines) continue;
      drawn = mark.entry->round_index;
      const double x = x_.at(mark.entry->start_s / 60);
      if (x < x_.begin) continue;
      svg += svg_line(x, kTop, x, bottom, kGridColour, 1);
    }
    return svg;
  }

  std::string rates_panel(double bottom) const {
    std::vector<double> percents;
    percents.reserve(marks_.size());
    for (const Mark& mark : marks_) percents.push_back(mark.percent);
    const Scale y = scale_around(percents, 0.2, bottom, bottom - kRatesHeight);
    std::string svg = svg_y_axis(y, kLeft, kLeft + kPlotWidth,
                                 "rate of the block against its arm's mean, in %; a new round at "
                                 "each line");
    svg += svg_line(kLeft, y.at(0), kLeft + kPlotWidth, y.at(0), kAxisColour, 1);
    std::vector<double> xs;
    std::vector<double> ys;
    for (const Mark& mark : marks_) {
      if (!mark.is_baseline || !mark.is_usable) continue;
      xs.push_back(mark.minutes);
      ys.push_back(mark.percent);
    }
    svg += svg_polyline(x_, y, xs, ys, baseline_colour(), 1.2);
    for (const Mark& mark : marks_) {
      const double x = x_.at(mark.minutes);
      if (!std::isfinite(mark.percent)) {
        svg += cross_svg(x, bottom - 6);
        continue;
      }
      svg +=
          dot_svg(mark, x, y.at(mark.percent),
                  fmt::format("{}, round {}: {} tokens/s, {}", mark.entry->arm,
                              mark.entry->round_index, format_rate(valid_tokens_per_s(*mark.block)),
                              format_change(1 + mark.percent / 100)));
      if (is_throttled(*mark.block)) svg += cross_svg(x, y.at(mark.percent));
    }
    return svg;
  }

  std::string machine_panel(const Machine& machine, double bottom) const {
    std::vector<double> values;
    values.reserve(marks_.size());
    for (const Mark& mark : marks_) values.push_back(sample_of(*mark.block, machine.key));
    if (std::ranges::none_of(values, [](double value) { return std::isfinite(value); })) return {};
    const Scale y = scale_around(values, machine.min_span, bottom, bottom - kMachineHeight);
    std::string svg = svg_y_axis(y, kLeft, kLeft + kPlotWidth, machine.title);
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      if (std::isfinite(values[i])) {
        svg += dot_svg(marks_[i], x_.at(marks_[i].minutes), y.at(values[i]), "");
      }
    }
    return svg;
  }

  std::vector<Mark> marks_;
  Scale x_;
};

}  // namespace

std::string run_order_svg(const Bundle& bundle, const Results& results) {
  std::vector<Mark> marks = marks_of(bundle, results);
  return marks.empty() ? std::string() : Plot(std::move(marks)).svg();
}

}  // namespace steplens
