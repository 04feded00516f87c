#pragma once

#include <string>
#include <string_view>

/// What the plots share.
namespace steplens {

/// Text for between two tags.
std::string svg_escaped(std::string_view text);

/// The opening tag, a title for those who do not see the picture, and a white ground.
std::string svg_begin(double width, double height, std::string_view title);

/// `anchor`: "start", "middle" or "end"; `colour`: "#222222".
std::string svg_text(double x, double y, std::string_view anchor, std::string_view content,
                     std::string_view colour = "#222222");

std::string svg_line(double x1, double y1, double x2, double y2, std::string_view colour,
                     double width);

/// 1, 2 or 5 times a power of ten, so that about six of them span `range` (> 0).
double tick_step(double range);

/// Digits behind the point that a multiple of `tick_step` needs.
int tick_decimals(double step);

}  // namespace steplens
