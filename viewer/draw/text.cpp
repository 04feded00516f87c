#include "viewer/draw/text.h"

#include <algorithm>
#include <cmath>

namespace steplens {
namespace {

const char* end_of(std::string_view text) { return text.data() + text.size(); }

bool is_inside_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

void centred(std::string_view text, ImU32 colour, float wrap_width) {
  const ImVec2 size = ImGui::CalcTextSize(text.data(), end_of(text), false, wrap_width);
  ImGui::SetCursorPosX(std::max(0.0F, (ImGui::GetWindowWidth() - size.x) / 2));
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + wrap_width);
  text_in(colour, text);
  ImGui::PopTextWrapPos();
}

}  // namespace

float text_width(std::string_view text) { return ImGui::CalcTextSize(text.data(), end_of(text)).x; }

std::string fitted(std::string_view text, float width) {
  if (text_width(text) <= width) return std::string(text);
  constexpr std::string_view kDots = "...";
  const float room = width - text_width(kDots);
  if (room <= 0) return {};
  std::size_t low = 0;  // The longest beginning that fits is in [low, high).
  std::size_t high = text.size();
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (text_width(text.substr(0, middle)) <= room ? low : high) = middle;
  }
  while (low > 0 && is_inside_character(text[low])) --low;
  return low == 0 ? std::string() : std::string(text.substr(0, low)) + std::string(kDots);
}

void draw_text(ImDrawList& list, float x, float y, ImU32 colour, std::string_view text,
               HorizontalAlign align) {
  if (align == HorizontalAlign::kCentre) x -= text_width(text) / 2;
  if (align == HorizontalAlign::kRight) x -= text_width(text);
  // Whole pixels: glyphs stay sharp.
  list.AddText({std::round(x), std::round(y)}, colour, text.data(), end_of(text));
}

void text_in(ImU32 colour, std::string_view text) {
  ImGui::PushStyleColor(ImGuiCol_Text, colour);
  ImGui::TextUnformatted(text.data(), end_of(text));
  ImGui::PopStyleColor();
}

void align_right(float width) {
  ImGui::SameLine(std::max(0.0F, ImGui::GetWindowContentRegionMax().x - width));
}

float button_width(std::string_view label) {
  return text_width(label) + 2 * ImGui::GetStyle().FramePadding.x;
}

void heading_in_line(const Theme& theme, std::string_view text, ImU32 colour) {
  const ImVec2 position = ImGui::GetCursorScreenPos();
  const float height = ImGui::GetFrameHeight();
  ImGui::PushFont(theme.heading);
  const ImVec2 size = ImGui::CalcTextSize(text.data(), end_of(text));
  draw_text(*ImGui::GetWindowDrawList(), position.x, position.y + (height - size.y) / 2,
            colour == 0 ? theme.text : colour, text);
  ImGui::PopFont();
  ImGui::Dummy({size.x, height});
}

void legend_entry(const Theme& theme, ImU32 colour, std::string_view text) {
  const ImVec2 position = ImGui::GetCursorScreenPos();
  const float side = theme.px(10);
  const float line = ImGui::GetTextLineHeight();
  const float y = std::round(position.y + (line - side) / 2);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled({position.x, y}, {position.x + side, y + side}, colour, theme.px(2));
  list.AddRect({position.x, y}, {position.x + side, y + side}, theme.border, theme.px(2));
  draw_text(list, position.x + side + theme.px(6), position.y, theme.text, text);
  ImGui::Dummy({side + theme.px(6) + text_width(text), line});
}

void empty_state(const Theme& theme, std::string_view heading, std::string_view advice) {
  const float wrap_width = std::min(theme.px(620), ImGui::GetContentRegionAvail().x - theme.px(24));
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() +
                       std::max(0.0F, ImGui::GetContentRegionAvail().y * 0.38F - theme.px(30)));
  ImGui::PushFont(theme.heading);
  centred(heading, theme.text, wrap_width);
  ImGui::PopFont();
  centred(advice, theme.muted, wrap_width);
}

}  // namespace steplens
