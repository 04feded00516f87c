#pragma once

#include <functional>
#include <string>
#include <variant>

#include "profilers/nvml_abi.h"

namespace steplens {

/// Fills the table by asking `symbol` for each function by its name in the library; `symbol`
/// returns null for what it does not have.
NvmlApi resolve_nvml(const std::function<void*(const char*)>& symbol);

/// Loads libnvidia-ml.so.1, which is part of the driver and stays loaded. Either its functions, or
/// why there are none.
std::variant<NvmlApi, std::string> load_nvml();

/// One clause on why NVML's library cannot be loaded, from dlerror's text.
std::string why_no_nvml(const std::string& dlopen_error);

}  // namespace steplens
