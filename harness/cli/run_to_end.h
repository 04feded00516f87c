#pragma once

#include <functional>
#include <string>

#include "harness/machine.h"
#include "harness/scheduler.h"

namespace steplens {

/// Runs `plan` into its bundle on this machine, with progress on stderr and Ctrl-C caught, and says
/// there how it ended and that `resume_command` goes on where it can. Returns the exit code: 0
/// done, or out of time after a complete round; 3 the baseline failed; 4 incomplete.
/// `on_finished` as in `run_plan`, whose errors pass through.
int run_to_end(const Plan& plan, const RunOptions& options, Machine& machine, bool is_quiet,
               const std::string& resume_command,
               const std::function<void(const std::filesystem::path&)>& on_finished);

/// The manifest of a bundle. ConfigError names the folder if it has none, and `what_for`.
Manifest read_manifest(const std::filesystem::path& bundle, std::string_view what_for);

/// Commands on this machine of the external arms that come with Steplens.
void find_commands(Plan& plan, const PlanVocabulary& vocabulary);

}  // namespace steplens
