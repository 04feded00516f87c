#pragma once

#include <cstdint>
#include <string_view>

namespace steplens {

/// Reads "80GiB", "1.5 GB", "512MiB" or "1073741824". Units: B, KiB, MiB, GiB, TiB (powers of 1024)
/// and kB, MB, GB, TB (powers of 1000). ConfigError names `flag` for anything else, and for less
/// than one byte.
std::int64_t parse_byte_size(std::string_view flag, std::string_view text);

}  // namespace steplens
