#pragma once

#include <string>
#include <string_view>

#include <imgui.h>

#include "viewer/draw/theme.h"

/// Text on a draw list: measured, cut and aligned.
namespace steplens {

enum class HorizontalAlign { kLeft, kCentre, kRight };

float text_width(std::string_view text);

/// `text` if it is at most `width` wide; else its beginning and "...". Empty if nothing fits.
std::string fitted(std::string_view text, float width);

/// One line whose left end, centre or right end is at `x`.
void draw_text(ImDrawList& list, float x, float y, ImU32 colour, std::string_view text,
               HorizontalAlign align = HorizontalAlign::kLeft);

/// Text of the current item's line in a colour of the theme.
void text_in(ImU32 colour, std::string_view text);

/// The next item on this line begins `width` before the right end of the window's content.
void align_right(float width);
/// Width of a button with that label.
float button_width(std::string_view label);

/// A heading on one line with framed items: its middle is theirs.
void heading_in_line(const Theme& theme, std::string_view text, ImU32 colour = 0);

/// A small square of a colour, then the text, as one item.
void legend_entry(const Theme& theme, ImU32 colour, std::string_view text);

/// Lines in the middle of what is left of the window: a heading, and what to do about it.
void empty_state(const Theme& theme, std::string_view heading, std::string_view advice);

}  // namespace steplens
