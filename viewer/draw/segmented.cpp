#include "viewer/draw/segmented.h"

#include <fmt/format.h>
#include <imgui.h>

#include "viewer/draw/marks.h"

namespace steplens {

bool segmented(const Theme& theme, const char* id, std::span<const char* const> labels,
               std::size_t& index) {
  bool is_changed = false;
  ImGui::PushID(id);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (i > 0) ImGui::SameLine(0, theme.px(1));
    const bool is_down = i == index;
    ImGui::PushStyleColor(ImGuiCol_Button, is_down ? theme.selected : theme.raised);
    ImGui::PushStyleColor(ImGuiCol_Text, is_down ? theme.text : theme.muted);
    if (ImGui::Button(labels[i]) && !is_down) {
      index = i;
      is_changed = true;
    }
    mark(fmt::format("{}.{}", id, labels[i]));
    ImGui::PopStyleColor(2);
  }
  ImGui::PopID();
  return is_changed;
}

}  // namespace steplens
