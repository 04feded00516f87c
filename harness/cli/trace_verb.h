#pragma once

#include "harness/cli/context.h"

namespace steplens {

/// Adds `trace`: one setting of the workload, or any other program, with every kernel of some
/// steps.
void add_trace_verb(CLI::App& app, CliContext& context, int& exit_code);

}  // namespace steplens
