#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "profilers/nvml.h"

namespace steplens {

/// What stays the same during a run on that GPU: driver, modes, limits, links. What NVML does not
/// give is null, and `absent_reasons` says why. Null if there is no such GPU. No serial numbers, no
/// host name; of the PCI id only bus, device and function.
nlohmann::json gpu_environment(const Nvml& nvml, const std::string& gpu_uuid);

}  // namespace steplens
