#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "harness/run_config.h"

// Packages of compile=aoti: forward and backward of one micro-batch, compiled ahead of time by
// scripts/arms/export_step.py. NAME.pt2 is AOTInductor's package, NAME.json says what it was made
// for. What decides the computation is in NAME, hashed; what a package is bound to besides stands
// in its JSON alone, so that one from elsewhere is found, and refused by name.

namespace steplens {

/// Raised when what a package computes, or how it is called, changes.
inline constexpr int kPackageStepVersion = 2;

/// What a package is bound to beside its config.
struct PackagePlace {
  std::string torch_version;  // "2.11.0".
  std::string architecture;   // "sm_90", or a CPU's instruction set: "AVX512".
};

/// STEPLENS_PACKAGES, else ~/.cache/steplens/packages.
std::filesystem::path packages_folder();

/// Keys and values of the config that decide a package's computation.
nlohmann::json package_config(const RunConfig& config);

/// "L4-d192-B4-T128-fp32-flash-cpu-1a2b3c4d5e6f".
std::string package_name(const RunConfig& config);

/// Why the package of `config` in `folder` cannot be used here: it is not there, was made for
/// something else, or is not the file that its JSON describes. Empty if it can.
std::string why_package_refused(const std::filesystem::path& folder, const RunConfig& config,
                                const PackagePlace& place);

/// The JSON beside a package that was not refused.
nlohmann::json package_info(const std::filesystem::path& folder, const RunConfig& config);

}  // namespace steplens
