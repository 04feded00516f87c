#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/machine.h"
#include "harness/run_config.h"

namespace steplens {

/// The place where a run measures.
struct MeasuredDevice {
  std::string gpu_uuid;    // Empty on a CPU.
  std::string gpu_name;    // Empty on a CPU.
  std::string machine_id;  // GPU UUID, or CPU model.
};

/// Chooses the GPU that `wanted` names, else `preferred` (of an earlier session), else the first
/// one without foreign processes, else the first. DeviceError if there is none, ConfigError if
/// `wanted` is unknown.
MeasuredDevice choose_device(Machine& machine, Device device, const std::string& wanted,
                             const std::string& preferred);

/// What a manifest says of a token file: the JSON beside it, or name and hash without one.
/// ConfigError if the file is missing.
nlohmann::json describe_data(const std::filesystem::path& data_path);

}  // namespace steplens
