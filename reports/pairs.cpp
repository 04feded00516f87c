#include "reports/pairs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace steplens {
namespace {

std::int64_t sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

std::map<int, const BlockRecord*> usable_blocks_by_round(const Bundle& bundle,
                                                         std::string_view arm) {
  std::map<int, const BlockRecord*> blocks;
  for (std::size_t i = 0; i < bundle.blocks.size(); ++i) {
    const BlockEntry& entry = bundle.manifest.blocks[i];
    const BlockRecord& block = bundle.blocks[i];
    if (entry.arm != arm || entry.is_superseded || block.kind != BlockKind::kThroughput ||
        block.status != BlockStatus::kOk || !why_unusable(block).empty()) {
      continue;
    }
    const bool is_in_usable_round =
        std::ranges::any_of(bundle.manifest.rounds, [&](const RoundRecord& round) {
          return round.index == entry.round_index && is_usable(round);
        });
    if (is_in_usable_round) blocks.emplace(entry.round_index, &block);
  }
  return blocks;
}

}  // namespace

bool is_usable(const RoundRecord& round) {
  return round.is_complete && round.dropped_reason.empty();
}

std::string_view why_unusable(const BlockRecord& block) {
  if (block.steps.size() == 0) return "it has no measured step";
  if (sum(block.steps.step_wall_ns) <= 0) return "its measured steps took no time";
  if (sum(block.steps.num_valid_tokens) <= 0) return "its measured steps hold no token";
  return {};
}

std::vector<const BlockRecord*> usable_blocks(const Bundle& bundle, std::string_view arm) {
  std::vector<const BlockRecord*> blocks;
  for (const auto& [round_index, block] : usable_blocks_by_round(bundle, arm)) {
    blocks.push_back(block);
  }
  return blocks;
}

LogRates log_rates(const Bundle& bundle, std::string_view arm) {
  LogRates rates;
  for (const BlockRecord* block : usable_blocks(bundle, arm)) {
    rates[block->round_index] = std::log(valid_tokens_per_s(*block));
  }
  return rates;
}

std::vector<BlockPair> block_pairs(const Bundle& bundle, const Arm& arm) {
  if (arm.reference.empty()) return {};
  const auto candidates = usable_blocks_by_round(bundle, arm.name);
  const auto references = usable_blocks_by_round(bundle, arm.reference);
  std::vector<BlockPair> pairs;
  for (const auto& [round_index, candidate] : candidates) {
    if (const auto it = references.find(round_index); it != references.end()) {
      pairs.push_back(
          {.round_index = round_index, .candidate = candidate, .reference = it->second});
    }
  }
  return pairs;
}

namespace {

// Row of the last good block of that kind, or of no block.
std::size_t last_row(const Bundle& bundle, std::string_view arm, BlockKind kind) {
  for (std::size_t i = bundle.blocks.size(); i-- > 0;) {
    if (bundle.manifest.blocks[i].arm == arm && !bundle.manifest.blocks[i].is_superseded &&
        bundle.blocks[i].kind == kind && bundle.blocks[i].status == BlockStatus::kOk) {
      return i;
    }
  }
  return bundle.blocks.size();
}

const BlockRecord* block_at(const Bundle& bundle, std::size_t row) {
  return row < bundle.blocks.size() ? &bundle.blocks[row] : nullptr;
}

}  // namespace

const BlockRecord* find_pilot(const Bundle& bundle, std::string_view arm) {
  return block_at(bundle, last_row(bundle, arm, BlockKind::kPilot));
}

const BlockRecord* find_trace(const Bundle& bundle, std::string_view arm) {
  return block_at(bundle, last_row(bundle, arm, BlockKind::kTrace));
}

const BlockRecord* find_memory(const Bundle& bundle, std::string_view arm) {
  return block_at(bundle, last_row(bundle, arm, BlockKind::kMemory));
}

std::filesystem::path trace_path(const Bundle& bundle, std::string_view arm, BlockKind kind) {
  const std::size_t row = last_row(bundle, arm, kind);
  if (row == bundle.blocks.size()) return {};
  const std::filesystem::path path =
      block_path(bundle.folder, bundle.manifest.blocks[row]).parent_path() / kTraceFileName;
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace steplens
