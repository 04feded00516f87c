#pragma once

#include "harness/cli/context.h"

namespace steplens {

/// Adds `list`. `context` must outlive the parse.
void add_list_verb(CLI::App& app, CliContext& context);

}  // namespace steplens
