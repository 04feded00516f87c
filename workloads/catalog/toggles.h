#pragma once

#include <span>

#include "harness/toggle.h"

namespace steplens {

/// All toggles, in the order in which reports show them.
std::span<const Toggle> all_toggles();

/// Why `config` cannot run as a whole (graph with a Python-side step count, padded batches in a
/// graph, ...); empty if it can. Levels' own reasons are `Level::why_not`.
std::string_view why_not(const RunConfig& config);

/// A block executable that is not steplens-worker, known by name: `--arms torch-eager`.
struct ExternalArm {
  std::string_view name;
  std::string_view summary;
  std::string_view script;     // Below scripts/arms/.
  bool runs_on_ranks = false;  // It takes its place among the ranks of a block.
  Contract contract = Contract::kSameMaths;
};
std::span<const ExternalArm> all_external_arms();

}  // namespace steplens
