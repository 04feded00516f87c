#include "harness/cli/run_to_end.h"

#include <iostream>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/cli/context.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/interrupt.h"

namespace steplens {
namespace {

int exit_code_of(const RunOutcome& outcome) {
  switch (outcome.end) {
    case RunEnd::kDone: return kExitOk;
    case RunEnd::kTimeLimit: return outcome.num_complete_rounds > 0 ? kExitOk : kExitIncomplete;
    case RunEnd::kInterrupted:
    case RunEnd::kUnsteady: return kExitIncomplete;
    case RunEnd::kBaselineFailed: return kExitDevice;
  }
  return kExitDevice;
}

}  // namespace

int run_to_end(const Plan& plan, const RunOptions& options, Machine& machine, bool is_quiet,
               const std::string& resume_command,
               const std::function<void(const std::filesystem::path&)>& on_finished) {
  const InterruptGuard guard;
  const RunSite site = make_run_site(machine);
  Progress progress(std::cerr, ::isatty(STDERR_FILENO) == 1, is_quiet);
  const RunOutcome outcome = run_plan(plan, options, site, progress, on_finished);
  switch (outcome.end) {
    case RunEnd::kDone:
      progress.say(fmt::format("{}; bundle: {}", outcome.reason, options.bundle.string()));
      break;
    case RunEnd::kTimeLimit:
      progress.say(fmt::format("{}; continue with: {}", outcome.reason, resume_command));
      break;
    case RunEnd::kInterrupted:
    case RunEnd::kUnsteady:
      progress.say(fmt::format("steplens: stopped after {} complete rounds ({}); continue with: {}",
                               outcome.num_complete_rounds, outcome.reason, resume_command));
      break;
    case RunEnd::kBaselineFailed: progress.say(fmt::format("steplens: {}", outcome.reason)); break;
  }
  return exit_code_of(outcome);
}

Manifest read_manifest(const std::filesystem::path& bundle, std::string_view what_for) {
  const std::filesystem::path path = bundle / "manifest.json";
  if (!std::filesystem::exists(path)) {
    throw ConfigError(
        fmt::format("{}: nothing to {}: it has no manifest.json", bundle.string(), what_for));
  }
  return manifest_from_json(read_json(path), path.string());
}

void find_commands(Plan& plan, const PlanVocabulary& vocabulary) {
  for (const Arm& arm : plan.arms) {
    for (const KnownExternalArm& known : vocabulary.external_arms) {
      if (arm.name == known.name && arm.command == std::vector<std::string>{known.script}) {
        plan.commands[arm.name] = command_of(known, vocabulary.scripts_folder);
      }
    }
  }
}

}  // namespace steplens
