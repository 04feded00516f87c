#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace steplens {

/// Bytes of the UTF-8 character that `text` starts with; 0 if it starts with none (bad bytes,
/// overlong forms and surrogates are none).
std::size_t utf8_length(std::string_view text);

/// `text` with U+FFFD for every byte that belongs to no UTF-8 character.
std::string valid_utf8(std::string_view text);

/// Appends `text` as a JSON string, quotes included. Valid JSON whatever the bytes are.
void append_json_string(std::string& json, std::string_view text);

}  // namespace steplens
