#include "viewer/draw/fact_tooltip.h"

#include <algorithm>

#include <imgui.h>

#include "viewer/draw/text.h"

namespace steplens {

void draw_facts(const Theme& theme, const SliceFacts& facts, float wrap_width) {
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + wrap_width);
  text_in(theme.text, facts.title);
  ImGui::PopTextWrapPos();
  float label_width = 0;
  for (const auto& [label, value] : facts.lines) {
    label_width = std::max(label_width, text_width(label));
  }
  const float left = ImGui::GetCursorPosX();
  const float values_left = left + label_width + theme.px(14);
  for (const auto& [label, value] : facts.lines) {
    text_in(theme.muted, label);
    ImGui::SameLine(values_left);
    ImGui::PushTextWrapPos(left + wrap_width);
    text_in(theme.text, value);
    ImGui::PopTextWrapPos();
  }
}

void show_facts(const Theme& theme, const SliceFacts& facts) {
  if (facts.title.empty()) return;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {theme.px(12), theme.px(9)});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {theme.px(8), theme.px(3)});
  ImGui::BeginTooltip();
  draw_facts(theme, facts, theme.px(460));
  ImGui::EndTooltip();
  ImGui::PopStyleVar(2);
}

}  // namespace steplens
