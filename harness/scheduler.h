#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/package_export.h"
#include "harness/plan.h"
#include "harness/progress.h"
#include "harness/run_site.h"

namespace steplens {

/// Somebody else computes on the GPU, so nothing can be measured there. Exit code 3.
struct ForeignLoadError : DeviceError {
  using DeviceError::DeviceError;
};

/// How to run a plan here and now. None of it changes what is compared, so `--resume` may differ.
struct RunOptions {
  std::filesystem::path bundle;
  bool is_resume = false;
  std::vector<std::string> worker_command;
  PackageExport package_export;             // For compile=aoti.
  std::filesystem::path data_path;          // Empty on --resume: where it was,
  std::filesystem::path default_data_path;  // or here, if that is not known any more.
  std::filesystem::path memory_path;        // Of the ResumeMemory; empty: none is kept.
  std::string gpu;                          // UUID or PCI id; empty: the first one that is free.
  std::optional<double> max_seconds;
  bool allows_foreign_load = false;
  double block_timeout_s = 600;
  bool keeps_logs = false;
};

/// Why a run ended.
enum class RunEnd : std::uint8_t {
  kDone,  // The planned rounds, the half-width, or no arm left to compare.
  kTimeLimit,
  kInterrupted,     // Ctrl-C: resumable.
  kUnsteady,        // Invalid blocks in three rounds running: resumable.
  kBaselineFailed,  // Nothing can be compared.
};

struct RunOutcome {
  RunEnd end = RunEnd::kDone;
  int num_complete_rounds = 0;
  std::string reason;  // One sentence without a full stop.
};

/// Runs `plan` into a bundle: pilots, soak, randomised rounds, each block a fresh process.
///
/// A bundle that was interrupted goes on where it stopped. Its open round is completed only on the
/// same machine since the same start of it; else that round is dropped whole and another one drawn.
/// `on_finished` is called with the bundle's folder when a run ends for good (not when it was
/// interrupted).
///
/// ConfigError: the bundle, the data or the request cannot be used; nothing is written then.
/// ForeignLoadError, DeviceError: the machine cannot.
RunOutcome run_plan(const Plan& plan, const RunOptions& options, const RunSite& site,
                    Progress& progress,
                    const std::function<void(const std::filesystem::path&)>& on_finished = {});

}  // namespace steplens
