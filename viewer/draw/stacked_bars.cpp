#include "viewer/draw/stacked_bars.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/format.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/text.h"

namespace steplens {
namespace {

constexpr float kLineUnits = 30;
constexpr float kBarUnits = 20;

ImU32 dimmed(const Theme& theme, ImU32 colour) { return mix(theme.surface, colour, 0.22F); }

// Stripes from the bottom left to the top right.
void hatch(ImDrawList& list, const Theme& theme, ImVec2 low, ImVec2 high) {
  const float pitch = theme.px(6);
  const float height = high.y - low.y;
  if (high.x - low.x < theme.px(4)) return;
  list.PushClipRect(low, high, true);
  // On a common grid, so that neighbours do not look shifted.
  for (float x = std::floor((low.x - height) / pitch) * pitch; x < high.x; x += pitch) {
    list.AddLine({x, high.y}, {x + height, low.y}, with_alpha(theme.background, 0.45F),
                 theme.px(1));
  }
  list.PopClipRect();
}

void part_tooltip(const Theme& theme, const StackedBar& bar, const BarPart& part) {
  ImGui::BeginTooltip();
  legend_entry(theme, part.colour, part.label);
  text_in(theme.text, fmt::format("{}   {} of a step", format_duration_ns(part.duration_ns),
                                  format_percent(part.duration_ns / bar.total_ns)));
  text_in(theme.muted, bar.name);
  ImGui::EndTooltip();
}

float name_room(const Theme& theme, std::span<const StackedBar> bars) {
  float width = 0;
  for (const StackedBar& bar : bars) width = std::max(width, text_width(bar.name));
  return std::min(width, theme.px(240)) + theme.px(40);
}

}  // namespace

float stacked_bars_height(const Theme& theme, std::size_t num_bars) {
  return theme.px(kLineUnits) * static_cast<float>(num_bars) + theme.px(6);
}

BarEvents stacked_bars(const Theme& theme, std::span<const StackedBar> bars,
                       const std::string& highlight, double longest_ns) {
  BarEvents events;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float names = name_room(theme, bars);
  const float left = corner.x + names;
  const float width =
      std::max(theme.px(60), ImGui::GetContentRegionAvail().x - names - theme.px(150));
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  for (std::size_t b = 0; b < bars.size(); ++b) {
    const StackedBar& bar = bars[b];
    const float line_top = corner.y + theme.px(kLineUnits) * static_cast<float>(b);
    const float top = std::round(line_top + theme.px(kLineUnits - kBarUnits) / 2);
    const float bottom = top + theme.px(kBarUnits);
    const float text_y = line_top + (theme.px(kLineUnits) - ImGui::GetTextLineHeight()) / 2;

    ImGui::SetCursorScreenPos({corner.x, line_top});
    ImGui::PushID(static_cast<int>(b));
    if (ImGui::InvisibleButton("name", {names - theme.px(8), theme.px(kLineUnits)})) {
      events.clicked_name = b;
    }
    mark(fmt::format("bar.{}", bar.name));
    const bool is_name_hovered = ImGui::IsItemHovered();
    if (!bar.badge.empty()) {
      list.AddRectFilled({corner.x, top + theme.px(1)},
                         {corner.x + theme.px(18), bottom - theme.px(1)}, theme.selected,
                         theme.px(3));
      draw_text(list, corner.x + theme.px(9), text_y, theme.text, bar.badge,
                HorizontalAlign::kCentre);
    }
    draw_text(list, corner.x + theme.px(26), text_y,
              is_name_hovered || !bar.badge.empty() ? theme.text : theme.muted,
              fitted(bar.name, names - theme.px(34)));

    ImGui::SetCursorScreenPos({left, top});
    const bool is_clicked = ImGui::InvisibleButton("bar", {width, bottom - top});
    const bool is_hovered = ImGui::IsItemHovered();
    ImGui::PopID();
    double begin_ns = 0;
    for (std::size_t p = 0; p < bar.parts.size(); ++p) {
      const BarPart& part = bar.parts[p];
      if (part.duration_ns <= 0) continue;
      const auto x_of = [&](double duration_ns) {
        return left + width * static_cast<float>(duration_ns / longest_ns);
      };
      const float x0 = x_of(begin_ns);
      begin_ns += part.duration_ns;
      const float x1 = x_of(begin_ns);
      const bool is_dim = !highlight.empty() && highlight != part.key;
      const ImU32 colour = is_dim ? dimmed(theme, part.colour) : part.colour;
      list.AddRectFilled({x0, top}, {std::max(x1, x0 + 0.5F), bottom}, colour);
      if (part.is_hatched) hatch(list, theme, {x0, top}, {x1, bottom});
      if (x1 - x0 > theme.px(3)) list.AddLine({x1, top}, {x1, bottom}, theme.background);
      const std::string share = format_percent(part.duration_ns / bar.total_ns);
      if (x1 - x0 > text_width(share) + theme.px(8) && !is_dim) {
        draw_text(list, (x0 + x1) / 2, text_y, text_on(colour), share, HorizontalAlign::kCentre);
      }
      mark(fmt::format("bar.{}/{}", bar.name, part.key), {x0, top}, {x1, bottom});
      if (!is_hovered || mouse.x < x0 || mouse.x >= x1) continue;
      list.AddRect({x0, top}, {x1, bottom}, theme.text);
      part_tooltip(theme, bar, part);
      if (is_clicked) events.clicked = BarRef{.bar = b, .part = p};
    }
    draw_text(list, left + width * static_cast<float>(begin_ns / longest_ns) + theme.px(8), text_y,
              theme.text, bar.note);
  }
  ImGui::SetCursorScreenPos(
      {corner.x, corner.y + stacked_bars_height(theme, bars.size()) - theme.px(6)});
  ImGui::Dummy({1, 1});
  return events;
}

std::optional<std::size_t> bar_legend(const Theme& theme, std::span<const BarPart> parts,
                                      const std::string& highlight) {
  std::optional<std::size_t> clicked;
  const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const float width = text_width(parts[i].label) + theme.px(16);
    if (i > 0 && ImGui::GetItemRectMax().x + theme.px(16) + width < right) {
      ImGui::SameLine(0, theme.px(16));
    }
    const bool is_dim = !highlight.empty() && highlight != parts[i].key;
    legend_entry(theme, is_dim ? dimmed(theme, parts[i].colour) : parts[i].colour, parts[i].label);
    mark(fmt::format("legend.{}", parts[i].key));
    if (ImGui::IsItemClicked()) clicked = i;
  }
  return clicked;
}

}  // namespace steplens
