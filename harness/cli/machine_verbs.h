#pragma once

#include "harness/cli/context.h"

namespace steplens {

/// Adds `doctor` and `data`: what a machine needs before it can measure. `context` must outlive the
/// parse.
void add_machine_verbs(CLI::App& app, CliContext& context);

}  // namespace steplens
