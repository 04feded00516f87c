#pragma once

#include <filesystem>
#include <string>

#include "harness/cli/context.h"
#include "harness/cli/experiment_flags.h"

namespace steplens {

/// What `matrix --sweep` was asked for, beside the experiment and the machine.
struct SweepFlags {
  std::string sweep;  // "seq_len=512,1024"; empty: the folder says it.
  bool holds_positions = false;
  std::filesystem::path folder;
  bool is_resume = false;
  bool is_dry_run = false;
  bool is_json = false;
};

/// Runs the matrix at each value, one after the other, in bundles below `folder`. Returns the exit
/// code. A folder that was begun goes on with `is_resume`; values that are finished are kept.
int run_sweep(const SweepFlags& flags, const ExperimentFlags& experiment_flags,
              const MachineFlags& machine_flags, CliContext& context);

}  // namespace steplens
