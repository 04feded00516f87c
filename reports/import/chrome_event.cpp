#include "reports/import/chrome_event.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace steplens {

bool parse_us(std::string_view text, std::int64_t& ns) {
  if (text.empty()) return false;
  if (text.find_first_of("eE") != std::string_view::npos) {
    const std::string copy(text);
    char* end = nullptr;
    const double us = std::strtod(copy.c_str(), &end);
    if (end != copy.c_str() + copy.size() || !(std::fabs(us) < 9e15)) return false;
    ns = std::llround(us * 1000);
    return true;
  }
  const bool is_negative = text.front() == '-';
  if (is_negative) text.remove_prefix(1);
  const std::size_t dot = std::min(text.find('.'), text.size());
  if (dot == 0) return false;
  std::int64_t value = 0;
  for (const char c : text.substr(0, dot)) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + (c - '0');
    if (value >= std::numeric_limits<std::int64_t>::max() / 1000) return false;
  }
  const std::string_view decimals = text.substr(std::min(dot + 1, text.size()));
  for (const char c : decimals) {
    if (c < '0' || c > '9') return false;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    value = value * 10 + (i < decimals.size() ? decimals[i] - '0' : 0);
  }
  if (decimals.size() > 3 && decimals[3] >= '5') ++value;
  ns = is_negative ? -value : value;
  return true;
}

}  // namespace steplens
