#pragma once

#include <span>
#include <string_view>

#include "harness/cli/context.h"

namespace steplens {

/// One number of results.json's arms.
struct MetricRow {
  std::string_view name;  // The key; its unit is the last part.
  std::string_view summary;
};

/// The metrics of an arm, in the order in which `steplens list metrics` shows them.
std::span<const MetricRow> all_metrics();

/// Adds `list`. `context` must outlive the parse.
void add_list_verb(CLI::App& app, CliContext& context);

}  // namespace steplens
