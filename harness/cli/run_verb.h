#pragma once

#include "harness/cli/context.h"

namespace steplens {

/// Adds `run`: one arm, some blocks, its metrics. `context` and `exit_code` must outlive the parse.
void add_run_verb(CLI::App& app, CliContext& context, int& exit_code);

}  // namespace steplens
