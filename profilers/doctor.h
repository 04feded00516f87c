#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/machine.h"
#include "profilers/host.h"

namespace steplens {

/// One thing that a run needs or that disturbs it.
struct DoctorCheck {
  enum class Status : std::uint8_t {
    kOk,
    kWarning,  // There, but in the way of good measurements, or of one feature.
    kMissing,
  };
  std::string name;  // "counter permission"
  Status status = Status::kOk;
  std::string finding;  // What is there.
  std::string advice;   // What to do; empty if ok.
};
std::string_view name_of(DoctorCheck::Status status);  // "ok", "warning", "missing"

/// Where to look. Only the first three are the caller's business; the rest is for tests.
struct DoctorOptions {
  std::filesystem::path site_packages;  // The folder with torch/ and nvidia/; empty: none found.
  std::filesystem::path worker;         // steplens-worker; empty: none found.
  std::filesystem::path output_folder = ".";  // Where bundles go; need not exist yet.

  Machine* machine = nullptr;  // Null: this machine.
  Host host = Host();
  std::filesystem::path cuda_folder = "/usr/local/cuda";
  /// Empty means: this process's environment, and dlopen.
  std::function<std::optional<std::string>(const std::string& name)> environment_variable;
  std::function<std::string(const std::string& library)> why_not_loadable;  // "" if it loads.
};

/// All checks, in the order to read them. Changes nothing; never throws for what it finds.
std::vector<DoctorCheck> run_doctor(const DoctorOptions& options);

/// A table with aligned columns, the advice below each finding that needs one, and a line that
/// counts.
std::string format_doctor(const std::vector<DoctorCheck>& checks);

/// An array of {name, status, finding, advice}.
nlohmann::json to_json(const std::vector<DoctorCheck>& checks);

}  // namespace steplens
