#pragma once

#include <string>
#include <vector>

#include "harness/run_config.h"

namespace steplens {

struct PhaseResult;
struct RunParts;

/// How packages of compile=aoti are made.
struct PackageExport {
  std::vector<std::string> command;  // scripts/arms/export_step.py.
  /// Equal names: one package serves both configs. nullptr: each arm asks for its own.
  std::string (*name_of)(const RunConfig& config) = nullptr;
};

/// Sees to it that the package of every arm with compile=aoti is there before the first block:
/// the command is run once a package, outside of every block and its clock, and how long that took
/// becomes a note of the bundle. An arm whose package cannot be made is entered as FAILED, "not
/// available" and the last line of what the command said.
PhaseResult export_packages(RunParts& parts, const PackageExport& exporter);

}  // namespace steplens
