#pragma once

#include "harness/cli/context.h"

namespace steplens {

/// Adds `plan`: how much memory a step needs, and how to hold a global batch in what there is.
void add_plan_verb(CLI::App& app, CliContext& context, int& exit_code);

}  // namespace steplens
