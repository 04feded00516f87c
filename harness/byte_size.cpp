#include "harness/byte_size.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "harness/error.h"

namespace steplens {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"KiB", 1024.0},
                                          {"MiB", 1048576.0},
                                          {"GiB", 1073741824.0},
                                          {"TiB", 1099511627776.0},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12}}};

}  // namespace

std::int64_t parse_byte_size(std::string_view flag, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const Unit& known : kUnits) {
    const double bytes = number * known.bytes;
    if (error == std::errc() && unit == known.name && bytes >= 1 && bytes < 9e18) {
      return std::llround(bytes);
    }
  }
  throw ConfigError(fmt::format("{}={}: takes a size such as 80GiB, 1.5GB or 512MiB", flag, text));
}

}  // namespace steplens
