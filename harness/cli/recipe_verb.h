#pragma once

#include "harness/cli/context.h"

namespace steplens {

/// Adds `recipe`: a sequential search for a fast configuration, step by step.
void add_recipe_verb(CLI::App& app, CliContext& context, int& exit_code);

}  // namespace steplens
