#pragma once

#include <filesystem>
#include <string_view>

namespace steplens {

/// ${XDG_CACHE_HOME:-~/.cache}/steplens. ConfigError if neither variable is set.
std::filesystem::path cache_folder();

/// The folder that the environment variable `variable` names, else `name` in cache_folder(). Not
/// created.
std::filesystem::path cache_folder_of(const char* variable, std::string_view name);

}  // namespace steplens
