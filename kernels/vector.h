#pragma once

#include <cstdint>
#include <string_view>

namespace steplens {

/// Type of a tensor's elements in device memory.
enum class ElementType : std::uint8_t { kFloat32, kBfloat16 };

constexpr std::int64_t element_bytes(ElementType type) {
  return type == ElementType::kFloat32 ? 4 : 2;
}

constexpr std::string_view element_name(ElementType type) {
  return type == ElementType::kFloat32 ? "float32" : "bfloat16";
}

/// Throws ConfigError "`op`: `field`=`value`: `allowed`" unless `is_allowed`: the check that each
/// operator makes of its arguments before a launch.
void check_argument(bool is_allowed, std::string_view op, std::string_view field,
                    std::int64_t value, std::string_view allowed);

}  // namespace steplens
