#include "viewer/draw/waterfall_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/format.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/text.h"

namespace steplens {
namespace {

constexpr float kLineUnits = 26;
constexpr float kBarUnits = 16;
constexpr float kNameUnits = 170;
constexpr float kValueUnits = 160;

std::string signed_duration(double duration_ns) {
  return fmt::format("{}{}", duration_ns < 0 ? "-" : "+",
                     format_duration_ns(std::abs(duration_ns)));
}

/// Bars do not begin at 0: of a step of 100 ms that gained 2 ms only the end is worth the width.
struct Axis {
  double low_ns = 0;
  double high_ns = 0;

  explicit Axis(const WaterfallChart& chart) {
    double running_ns = chart.reference_ns;
    low_ns = std::min(chart.reference_ns, chart.candidate_ns);
    high_ns = std::max(chart.reference_ns, chart.candidate_ns);
    for (const WaterfallBar& bar : chart.bars) {
      running_ns += bar.difference_ns;
      low_ns = std::min(low_ns, running_ns);
      high_ns = std::max(high_ns, running_ns);
    }
    const double margin_ns = std::max(0.15 * (high_ns - low_ns), 1.0);
    low_ns = std::max(0.0, low_ns - margin_ns);
    high_ns += 0.03 * (high_ns - low_ns);
  }
  float x_of(double duration_ns, float left, float width) const {
    return left + width * static_cast<float>((duration_ns - low_ns) / (high_ns - low_ns));
  }
};

class Chart {
 public:
  Chart(const Theme& theme, const WaterfallChart& chart, const std::string& highlight)
      : theme_(theme),
        chart_(chart),
        highlight_(highlight),
        axis_(chart),
        list_(*ImGui::GetWindowDrawList()),
        left_(ImGui::GetCursorScreenPos().x + theme.px(kNameUnits)),
        width_(std::max(theme.px(60),
                        ImGui::GetContentRegionAvail().x - theme.px(kNameUnits + kValueUnits))) {}

  std::optional<std::size_t> draw() {
    std::optional<std::size_t> clicked;
    draw_end(chart_.reference, "A", chart_.reference_ns);
    double running_ns = chart_.reference_ns;
    for (std::size_t i = 0; i < chart_.bars.size(); ++i) {
      if (draw_bar(chart_.bars[i], running_ns)) clicked = i;
      running_ns += chart_.bars[i].difference_ns;
    }
    draw_end(chart_.candidate, "B", chart_.candidate_ns);
    return clicked;
  }

 private:
  float bar_top(ImVec2 corner) const {
    return std::round(corner.y + theme_.px(kLineUnits - kBarUnits) / 2);
  }
  float text_top(ImVec2 corner) const {
    return corner.y + (theme_.px(kLineUnits) - ImGui::GetTextLineHeight()) / 2;
  }

  void draw_end(const std::string& name, const char* badge, double duration_ns) {
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const float top = bar_top(corner);
    const float x = axis_.x_of(duration_ns, left_, width_);
    const ImU32 colour = mix(theme_.background, theme_.muted, 0.6F);
    list_.AddRectFilled({left_, top}, {x, top + theme_.px(kBarUnits)}, colour);
    // The torn end: the bar goes on to 0 outside of the picture.
    if (axis_.low_ns > 0) {
      for (int i = 0; i < 2; ++i) {
        const float tear = left_ + theme_.px(8 + 6 * static_cast<float>(i));
        list_.AddLine({tear + theme_.px(3), top}, {tear - theme_.px(3), top + theme_.px(kBarUnits)},
                      theme_.background, theme_.px(2));
      }
    }
    draw_text(list_, corner.x, text_top(corner), theme_.accent, badge);
    draw_text(list_, corner.x + theme_.px(18), text_top(corner), theme_.text,
              fitted(name, theme_.px(kNameUnits - 26)));
    draw_text(list_, left_ + width_ + theme_.px(78), text_top(corner), theme_.text,
              format_duration_ns(duration_ns), HorizontalAlign::kRight);
    ImGui::Dummy({1, theme_.px(kLineUnits)});
  }

  bool draw_bar(const WaterfallBar& bar, double begin_ns) {
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    ImGui::PushID(bar.key.c_str());
    const bool is_clicked = ImGui::InvisibleButton(
        "bar", {theme_.px(kNameUnits + kValueUnits) + width_, theme_.px(kLineUnits)});
    ImGui::PopID();
    mark(fmt::format("waterfall.{}", bar.key));
    const bool is_dim = !highlight_.empty() && highlight_ != bar.key;
    if (ImGui::IsItemHovered() || highlight_ == bar.key) {
      list_.AddRectFilled(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(),
                          with_alpha(theme_.text, 0.05F), theme_.px(3));
    }
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", bar.tooltip.c_str());
    const float x0 = axis_.x_of(begin_ns, left_, width_);
    const float x1 = axis_.x_of(begin_ns + bar.difference_ns, left_, width_);
    const float top = bar_top(corner);
    const float bottom = top + theme_.px(kBarUnits);
    const ImU32 colour = is_dim ? mix(theme_.surface, bar.colour, 0.22F) : bar.colour;
    list_.AddRectFilled({std::min(x0, x1), top},
                        {std::max(std::max(x0, x1), std::min(x0, x1) + 1), bottom}, colour);
    // To the next line, so that the eye follows the running sum.
    list_.AddLine({x1, bottom}, {x1, bottom + theme_.px(kLineUnits - kBarUnits)}, theme_.border);
    const ImU32 text = is_dim ? theme_.muted : theme_.text;
    draw_text(list_, corner.x + theme_.px(18), text_top(corner), text,
              fitted(bar.label, theme_.px(kNameUnits - 26)));
    draw_text(list_, left_ + width_ + theme_.px(78), text_top(corner),
              bar.difference_ns < 0 ? theme_.good : theme_.bad, signed_duration(bar.difference_ns),
              HorizontalAlign::kRight);
    draw_text(list_, left_ + width_ + theme_.px(150), text_top(corner), theme_.muted,
              fmt::format("{:+.2f} %", 100 * bar.difference_ns / chart_.reference_ns),
              HorizontalAlign::kRight);
    return is_clicked;
  }

  const Theme& theme_;
  const WaterfallChart& chart_;
  const std::string& highlight_;
  Axis axis_;
  ImDrawList& list_;
  float left_;
  float width_;
};

}  // namespace

std::optional<std::size_t> draw_waterfall(const Theme& theme, const WaterfallChart& chart,
                                          const std::string& highlight, ImVec2 size) {
  ImGui::BeginChild("##waterfall", size, false);
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, 0});
  const std::optional<std::size_t> clicked = Chart(theme, chart, highlight).draw();
  ImGui::PopStyleVar();
  ImGui::EndChild();
  return clicked;
}

}  // namespace steplens
