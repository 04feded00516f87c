#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace steplens {

/// JSON as the files of a bundle have it, for people and for diff: an indent of 1 (thousands of
/// lines a bundle), and a list of numbers, words or nulls on one line. Bytes that are no UTF-8 are
/// replaced; ends with a newline. scripts/arms/block_protocol.py writes the same.
std::string json_text(const nlohmann::json& json);

}  // namespace steplens
