#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace steplens {

/// CRC-32C (Castagnoli, as in iSCSI): 0xE3069283 for the text "123456789".
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace steplens
