#include "reports/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace steplens {

namespace {

struct Role {
  std::string_view colour;
  std::string_view name;
};
constexpr std::array<Role, 6> kRoles = {{{kInkColour, "ink"},
                                         {kMutedColour, "muted"},
                                         {kAxisColour, "axis"},
                                         {kGridColour, "grid"},
                                         {kBandColour, "band"},
                                         {kGroundColour, "ground"}}};

// Length of the UTF-8 character that `text` begins with, by RFC 3629; 0 if it is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  if (first == 0xE0 && second < 0xA0) return 0;   // Overlong,
  if (first == 0xED && second >= 0xA0) return 0;  // a surrogate,
  if (first == 0xF0 && second < 0x90) return 0;   // overlong,
  if (first == 0xF4 && second >= 0x90) return 0;  // beyond U+10FFFF,
  // U+FFFE and U+FFFF, which XML does not allow.
  if (first == 0xEF && second == 0xBF && byte(2) >= 0xBE) return 0;
  return length;
}

}  // namespace

std::string svg_class(std::string_view colour) {
  const auto* const role = std::ranges::find(kRoles, colour, &Role::colour);
  return role == kRoles.end() ? std::string() : fmt::format(" class=\"{}\"", role->name);
}

std::string svg_escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const char c = text.front();
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default:
        if (length == 0) {
          result += "\xEF\xBF\xBD";
        } else if (length > 1 || c == '\t' || c == '\n' || (c >= ' ' && c != '\x7f')) {
          result += text.substr(0, length);
        }
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::string svg_begin(double width, double height, std::string_view title,
                      std::string_view description) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"13\" "
      "role=\"img\">\n<title>{2}</title>\n<desc>{3}</desc>\n"
      "<rect class=\"ground\" width=\"100%\" height=\"100%\" fill=\"{4}\"/>\n",
      width, height, svg_escaped(title), svg_escaped(description.empty() ? title : description),
      kGroundColour);
}

std::string svg_text(double x, double y, std::string_view anchor, std::string_view content,
                     std::string_view colour, int font_size) {
  return fmt::format(
      "<text{} x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n",
      svg_class(colour), x, y, anchor, colour,
      font_size == 13 ? "" : fmt::format(" font-size=\"{}\"", font_size), svg_escaped(content));
}

std::string svg_rect(double x, double y, double width, double height, std::string_view colour,
                     std::string_view tooltip) {
  return fmt::format(
      "<rect{} x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"{}\n",
      svg_class(colour), x, y, width, height, colour,
      tooltip.empty() ? "/>" : fmt::format("><title>{}</title></rect>", svg_escaped(tooltip)));
}

std::string svg_line(double x1, double y1, double x2, double y2, std::string_view colour,
                     double width) {
  return fmt::format(
      "<line{} x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"{}\"/>\n",
      svg_class(colour), x1, y1, x2, y2, colour, width);
}

double tick_step(double range) {
  constexpr double kNumTicks = 6;
  const double rough = range / kNumTicks;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

int tick_decimals(double step) {
  return std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
}

}  // namespace steplens
