#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace steplens {

/// Writes to a temporary name beside `path`, fsyncs file and folder, renames: after a kill at any
/// point `path` holds the old content or the new one, whole. ConfigError names path and cause
/// (disk full, no permission); nothing is left behind then.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// The same, as `json_text` has it.
void write_json_atomically(const std::filesystem::path& path, const nlohmann::json& json);

/// Renames folder `from` to `to` and fsyncs the parent. `to` must not exist.
void publish_folder(const std::filesystem::path& from, const std::filesystem::path& to);

/// Whole file as text. ConfigError names path and cause.
std::string read_file(const std::filesystem::path& path);

/// Parses a JSON file; ConfigError names the file and the place where it is damaged.
nlohmann::json read_json(const std::filesystem::path& path);

/// SHA-256 as 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);
std::string sha256_file_hex(const std::filesystem::path& path);

/// Every character outside [A-Za-z0-9._-] becomes '-'.
std::string folder_name_of(std::string_view text);

}  // namespace steplens
