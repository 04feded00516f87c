#include "viewer/draw/round_plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/svg.h"
#include "viewer/draw/text.h"

namespace steplens {
namespace {

constexpr float kMinHeightUnits = 110;
constexpr float kMaxHeightUnits = 340;
constexpr float kMaxWidthUnits = 960;
constexpr float kLeftUnits = 64;

double percent_of(double ratio) { return 100 * (ratio - 1); }

}  // namespace

void draw_round_plot(const Theme& theme, const RoundPlot& plot) {
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (plot.rounds.size() < 2 || room.y < theme.px(kMinHeightUnits)) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float left = corner.x + theme.px(kLeftUnits);
  const float right = corner.x + std::min(room.x - theme.px(8), theme.px(kMaxWidthUnits));
  const float top = corner.y + theme.px(26);
  const float bottom = corner.y + std::min(room.y, theme.px(kMaxHeightUnits)) - theme.px(24);
  draw_text(list, corner.x, corner.y + theme.px(4), theme.muted,
            "Change of tokens/s in each round, in %");

  double low =
      std::min(percent_of(plot.low_ratio.value_or(plot.mean_ratio)), percent_of(plot.mean_ratio));
  double high =
      std::max(percent_of(plot.high_ratio.value_or(plot.mean_ratio)), percent_of(plot.mean_ratio));
  for (const RoundPlot::Round& round : plot.rounds) {
    low = std::min(low, percent_of(round.ratio));
    high = std::max(high, percent_of(round.ratio));
  }
  const double margin = std::max(0.12 * (high - low), 0.02);
  low -= margin;
  high += margin;
  const auto y_of = [&](double percent) {
    return bottom - (bottom - top) * static_cast<float>((percent - low) / (high - low));
  };

  const double step = tick_step((high - low) * 1.6);
  for (double tick = std::ceil(low / step) * step; tick <= high; tick += step) {
    const float y = std::round(y_of(tick));
    list.AddLine({left, y}, {right, y}, std::abs(tick) < step / 2 ? theme.muted : theme.grid);
    draw_text(list, left - theme.px(8), y - ImGui::GetTextLineHeight() / 2, theme.muted,
              std::abs(tick) < step / 2 ? "0" : fmt::format("{:+.{}f}", tick, tick_decimals(step)),
              HorizontalAlign::kRight);
  }
  if (plot.low_ratio && plot.high_ratio) {
    list.AddRectFilled({left, y_of(percent_of(*plot.high_ratio))},
                       {right, y_of(percent_of(*plot.low_ratio))}, with_alpha(plot.colour, 0.2F));
  }
  const float mean_y = y_of(percent_of(plot.mean_ratio));
  list.AddLine({left, mean_y}, {right, mean_y}, plot.colour, theme.px(1.5F));

  const auto num_rounds = static_cast<float>(plot.rounds.size());
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  for (std::size_t i = 0; i < plot.rounds.size(); ++i) {
    const RoundPlot::Round& round = plot.rounds[i];
    const float x = left + (right - left) * (static_cast<float>(i) + 0.5F) / num_rounds;
    const float y = y_of(percent_of(round.ratio));
    list.AddCircleFilled({x, y}, theme.px(4.5F), plot.colour);
    if (plot.rounds.size() <= 40) {
      draw_text(list, x, bottom + theme.px(4), theme.muted, fmt::format("{}", round.index + 1),
                HorizontalAlign::kCentre);
    }
    const bool is_near = std::hypot(mouse.x - x, mouse.y - y) < theme.px(8);
    if (is_near && ImGui::IsWindowHovered()) {
      ImGui::SetTooltip("round %d: %s", round.index + 1, format_change(round.ratio).c_str());
    }
  }
  ImGui::Dummy({room.x, bottom + theme.px(20) - corner.y});
}

}  // namespace steplens
