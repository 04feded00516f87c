#pragma once

#include <filesystem>
#include <string_view>

namespace steplens {

/// The folder that the environment variable `variable` names, else `name` in
/// ${XDG_CACHE_HOME:-~/.cache}/steplens. Not created.
std::filesystem::path cache_folder_of(const char* variable, std::string_view name);

}  // namespace steplens
