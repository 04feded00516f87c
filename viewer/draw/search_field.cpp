#include "viewer/draw/search_field.h"

#include <algorithm>
#include <cctype>

#include <imgui.h>

#include "viewer/draw/marks.h"

namespace steplens {

bool contains_ignoring_case(std::string_view text, std::string_view wanted) {
  const auto is_same = [](char left, char right) {
    return std::tolower(static_cast<unsigned char>(left)) ==
           std::tolower(static_cast<unsigned char>(right));
  };
  return !std::ranges::search(text, wanted, is_same).empty() || wanted.empty();
}

void SearchField::set_text(std::string_view text) {
  buffer_ = {};
  text.substr(0, buffer_.size() - 1).copy(buffer_.data(), buffer_.size() - 1);
}

void SearchField::draw(const Theme& /*theme*/, const char* hint, float width) {
  if (wants_focus_) ImGui::SetKeyboardFocusHere();
  wants_focus_ = false;
  ImGui::SetNextItemWidth(width);
  const std::string full_hint = std::string("/  ") + hint;
  ImGui::InputTextWithHint("##search", full_hint.c_str(), buffer_.data(), buffer_.size(),
                           ImGuiInputTextFlags_AutoSelectAll);
  mark("search");
}

}  // namespace steplens
