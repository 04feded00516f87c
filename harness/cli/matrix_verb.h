#pragma once

#include "harness/cli/context.h"

namespace steplens {

/// Adds `matrix`. `context` and `exit_code` must outlive the parse.
void add_matrix_verb(CLI::App& app, CliContext& context, int& exit_code);

}  // namespace steplens
