#include "harness/block_slot.h"

#include <map>
#include <vector>

#include <fmt/format.h>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr int kMaxSameFailures = 2;
constexpr int kMaxInvalid = 3;  // The first run and two retries.

}  // namespace

SlotVerdict judge_slot(const BundleWriter& writer, const BlockSlot& slot) {
  std::map<BlockStatus, int> num_by_status;
  const BlockEntry* last = nullptr;
  const std::vector<BlockEntry>& blocks = writer.manifest().blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const BlockEntry& entry = blocks[i];
    if (entry.arm != slot.arm || entry.kind != slot.kind || entry.round_index != slot.round_index) {
      continue;
    }
    // Disturbances of an earlier session say nothing of the machine now.
    const bool is_forgiven =
        entry.status == BlockStatus::kInvalid && i < writer.num_earlier_blocks();
    if (!is_forgiven) ++num_by_status[entry.status];
    last = &entry;
  }
  if (last == nullptr) return {};
  if (last->status == BlockStatus::kOk) return {.state = SlotState::kDone};
  const auto with_reason = [&](SlotState state, std::string_view what) -> SlotVerdict {
    const std::string reason = writer.read_block(*last).reason;
    return {.state = state,
            .reason = reason.empty() ? std::string(what) : fmt::format("{}: {}", what, reason)};
  };
  if (last->status == BlockStatus::kUnsupported) {
    return with_reason(SlotState::kArmFailed, "unsupported");
  }
  const int num_same = num_by_status[last->status];
  if (last->status == BlockStatus::kInvalid) {
    return num_same < kMaxInvalid
               ? SlotVerdict{}
               : with_reason(SlotState::kInvalidTooOften,
                             fmt::format("block of {} invalid {} times", slot.arm, num_same));
  }
  return num_same < kMaxSameFailures
             ? SlotVerdict{}
             : with_reason(SlotState::kArmFailed,
                           fmt::format("{}, {} times", name_of(last->status), num_same));
}

}  // namespace steplens
