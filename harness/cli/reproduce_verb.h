#pragma once

#include "harness/cli/context.h"

namespace steplens {

/// Adds `reproduce`: runs the experiment of a bundle here and compares the effects. Its result goes
/// to `exit_code`, which must outlive `app`, like `context`.
void add_reproduce_verb(CLI::App& app, CliContext& context, int& exit_code);

}  // namespace steplens
