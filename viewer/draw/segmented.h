#pragma once

#include <cstddef>
#include <span>

#include "viewer/draw/theme.h"

namespace steplens {

/// Buttons in a row of which one is down. Returns true if another one was picked.
bool segmented(const Theme& theme, const char* id, std::span<const char* const> labels,
               std::size_t& index);

}  // namespace steplens
