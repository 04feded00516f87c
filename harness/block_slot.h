#pragma once

#include <cstdint>
#include <string>

#include "harness/bundle_writer.h"

namespace steplens {

/// The place of one block: an arm's pilot, or its throughput block of a round. It may take several
/// attempts. What comes next follows from the manifest alone, so a killed run resumes here as if
/// nothing had happened.
struct BlockSlot {
  std::string arm;
  BlockKind kind = BlockKind::kThroughput;
  int round_index = -1;
};

enum class SlotState : std::uint8_t {
  kNeedsBlock,       // Nothing yet, or a failure that may be repeated.
  kDone,             // The last attempt is ok.
  kArmFailed,        // Unsupported, or twice the same failure.
  kInvalidTooOften,  // The machine disturbed it and both retries.
};

struct SlotVerdict {
  SlotState state = SlotState::kNeedsBlock;
  std::string reason;  // One sentence without a full stop, for the last two states.
};

/// A failure (crash, time-out, out of memory, NaN) is repeated once; twice the same makes the arm
/// FAILED, and so does "unsupported" at once. An invalid block is run again up to two times in
/// a session.
SlotVerdict judge_slot(const BundleWriter& writer, const BlockSlot& slot);

inline bool needs_block(const BundleWriter& writer, const BlockSlot& slot) {
  return judge_slot(writer, slot).state == SlotState::kNeedsBlock;
}

}  // namespace steplens
