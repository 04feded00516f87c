#pragma once

#include <string>
#include <string_view>

/// What the plots share. A picture is a file with a white ground, and part of report.html, which
/// may be dark: whatever has one of the neutral colours below gets a class of the same role, by
/// which the page's style sheet replaces the colour. Those that carry a meaning are in
/// reports/palette.h.
namespace steplens {

inline constexpr std::string_view kInkColour = "#222222";     // Text: class "ink".
inline constexpr std::string_view kMutedColour = "#555555";   // Text of less weight: "muted".
inline constexpr std::string_view kAxisColour = "#333333";    // "axis"
inline constexpr std::string_view kGridColour = "#e5e5e5";    // "grid"
inline constexpr std::string_view kBandColour = "#eeeeee";    // An area to compare with: "band".
inline constexpr std::string_view kGroundColour = "#ffffff";  // "ground"

/// ` class="ink"` and so on; nothing for a colour that carries a meaning.
std::string svg_class(std::string_view colour);

/// Text for between two tags, or in an attribute's double quotes: of SVG, HTML and XML. Bytes that
/// are no UTF-8 become U+FFFD, control characters but tab and line break go.
std::string svg_escaped(std::string_view text);

/// The opening tag, a title and a description for those who do not see the picture, and a ground.
std::string svg_begin(double width, double height, std::string_view title,
                      std::string_view description = {});

/// `anchor`: "start", "middle" or "end"; `font_size`: of the letters in pixels.
std::string svg_text(double x, double y, std::string_view anchor, std::string_view content,
                     std::string_view colour = kInkColour, int font_size = 13);

/// A filled rectangle; `tooltip`: empty for none.
std::string svg_rect(double x, double y, double width, double height, std::string_view colour,
                     std::string_view tooltip = {});

std::string svg_line(double x1, double y1, double x2, double y2, std::string_view colour,
                     double width);

/// 1, 2 or 5 times a power of ten, so that about six of them span `range` (> 0).
double tick_step(double range);

/// Digits behind the point that a multiple of `tick_step` needs.
int tick_decimals(double step);

}  // namespace steplens
