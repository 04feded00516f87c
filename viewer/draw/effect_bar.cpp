#include "viewer/draw/effect_bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "viewer/draw/text.h"

namespace steplens {
namespace {

double stretched(double ratio) {
  constexpr double kLinear = 0.02;
  return std::asinh((ratio - 1) / kLinear);
}

}  // namespace

EffectScale::EffectScale(const Results& results) : low_(stretched(0.98)), high_(stretched(1.02)) {
  for (const ArmResult& arm : results.arms) {
    for (const auto& ratio : {arm.effect_ratio, arm.effect_low_ratio, arm.effect_high_ratio}) {
      if (!ratio || !std::isfinite(*ratio)) continue;
      low_ = std::min(low_, stretched(*ratio));
      high_ = std::max(high_, stretched(*ratio));
    }
  }
  const double margin = 0.06 * (high_ - low_);
  low_ -= margin;
  high_ += margin;
}

float EffectScale::x_of(double ratio, float left, float right) const {
  const double share = (stretched(ratio) - low_) / (high_ - low_);
  return left + (right - left) * static_cast<float>(share);
}

bool EffectScale::contains(double ratio) const {
  return stretched(ratio) >= low_ && stretched(ratio) <= high_;
}

void paint_effect_ticks(const Theme& theme, const EffectScale& scale, ImVec2 low, ImVec2 high) {
  // In the order of what is left out last.
  constexpr std::array kTicks = {0.0, -0.02, 0.02, -0.1, 0.1, -0.5, 0.5, -0.005, 0.005};
  std::vector<std::pair<float, float>> taken;
  for (const double tick : kTicks) {
    if (!scale.contains(1 + tick)) continue;
    const std::string label = tick == 0 ? "0" : fmt::format("{:+.3g} %", 100 * tick);
    const float width = text_width(label);
    const float left = std::clamp(scale.x_of(1 + tick, low.x, high.x) - width / 2, low.x,
                                  std::max(low.x, high.x - width));
    const bool is_free = std::ranges::none_of(taken, [&](const auto& other) {
      return left < other.second + theme.px(6) && left + width + theme.px(6) > other.first;
    });
    if (!is_free) continue;
    taken.emplace_back(left, left + width);
    draw_text(*ImGui::GetWindowDrawList(), left, low.y, theme.muted, label);
  }
}

void paint_effect_bar(const Theme& theme, const VerdictRule& rule, const EffectScale& scale,
                      const ArmResult* arm, ImVec2 low, ImVec2 high) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const double equivalence = rule.equivalence_ratio;
  const float middle = std::round((low.y + high.y) / 2);
  list.AddRectFilled({scale.x_of(1 / equivalence, low.x, high.x), low.y},
                     {scale.x_of(equivalence, low.x, high.x), high.y},
                     with_alpha(theme.text, 0.06F));
  const float zero = std::round(scale.x_of(1, low.x, high.x));
  list.AddLine({zero, low.y}, {zero, high.y}, theme.border);
  if (arm == nullptr || !arm->effect_ratio) return;
  const ImU32 colour = theme.colour_of(swatch_of(arm->verdict));
  const float x = scale.x_of(*arm->effect_ratio, low.x, high.x);
  const float thickness = theme.px(8);
  list.AddRectFilled({std::min(zero, x), middle - thickness / 2},
                     {std::max(zero, x), middle + thickness / 2}, with_alpha(colour, 0.35F));
  if (arm->effect_low_ratio && arm->effect_high_ratio) {
    const float left = scale.x_of(*arm->effect_low_ratio, low.x, high.x);
    const float right = scale.x_of(*arm->effect_high_ratio, low.x, high.x);
    list.AddLine({left, middle}, {right, middle}, colour, theme.px(2));
    // Caps that the point would hide only look ragged.
    for (const float end : {left, right}) {
      if (right - left < theme.px(10)) break;
      list.AddLine({end, middle - theme.px(5)}, {end, middle + theme.px(5)}, colour, theme.px(2));
    }
  }
  list.AddCircleFilled({x, middle}, theme.px(4.5F), colour);
}

}  // namespace steplens
