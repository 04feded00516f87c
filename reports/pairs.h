#pragma once

#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "harness/bundle.h"

namespace steplens {

/// A candidate's block and its reference's of the same round: what one log-ratio is made of.
struct BlockPair {
  int round_index = 0;
  const BlockRecord* candidate = nullptr;
  const BlockRecord* reference = nullptr;
};

/// Whether the round enters estimates: run to its end and not dropped.
bool is_usable(const RoundRecord& round);

/// Why a block that ended "ok" cannot enter an estimate (no measured step, no time, no tokens);
/// empty if it can. External block programs may write anything.
std::string_view why_unusable(const BlockRecord& block);

/// The throughput blocks of one arm that may enter an estimate, in round order: complete rounds
/// only, status ok, not superseded. Pointers into `bundle`.
std::vector<const BlockRecord*> usable_blocks(const Bundle& bundle, std::string_view arm);

/// Natural logarithm of an arm's valid tokens/s, by round: of its usable blocks.
using LogRates = std::map<int, double>;
LogRates log_rates(const Bundle& bundle, std::string_view arm);

/// One pair for each round in which both `arm` and its reference have a usable block, in round
/// order. Empty for an arm without a reference.
std::vector<BlockPair> block_pairs(const Bundle& bundle, const Arm& arm);

/// The last pilot of an arm that ended "ok", or nullptr.
const BlockRecord* find_pilot(const Bundle& bundle, std::string_view arm);

/// The last block of kind "trace" of an arm that ended "ok", or nullptr.
const BlockRecord* find_trace(const Bundle& bundle, std::string_view arm);
/// The last block of kind "memory" of an arm that ended "ok", or nullptr.
const BlockRecord* find_memory(const Bundle& bundle, std::string_view arm);
/// Path of the trace file of an arm's last good block of that kind; empty where there is none.
std::filesystem::path trace_path(const Bundle& bundle, std::string_view arm,
                                 BlockKind kind = BlockKind::kTrace);

}  // namespace steplens
