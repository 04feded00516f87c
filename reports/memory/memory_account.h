#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/trace/trace.h"

/// Who owns device memory: the allocations of a trace become accounts that add up to the byte.
namespace steplens {

inline constexpr std::size_t kNumMemoryOwners = 8;
/// Bytes by MemoryOwner.
using OwnerBytes = std::array<std::int64_t, kNumMemoryOwners>;
inline std::int64_t bytes_of(const OwnerBytes& bytes, MemoryOwner owner) {
  return bytes[static_cast<std::size_t>(owner)];
}
std::int64_t sum_of(const OwnerBytes& bytes);

struct ModuleMemory {
  std::string module;  // "block 3/attention"; the owner's name where no module was open.
  OwnerBytes by_owner = {};
};

struct LiveAllocation {
  std::int64_t bytes = 0;
  MemoryOwner owner = MemoryOwner::kUnknown;
  Phase phase = Phase::kNone;  // In which it was allocated.
  std::string module;
};

/// What was live at one moment. The sums of `by_owner` and of `modules` are the allocated bytes.
struct MemoryAccount {
  std::int64_t time_ns = 0;
  std::int32_t step_index = -1;
  Phase phase = Phase::kNone;
  std::string module;  // That was open then.
  OwnerBytes by_owner = {};
  std::vector<ModuleMemory> modules;           // Most bytes first.
  std::vector<LiveAllocation> largest;         // The ten largest, largest first.
  std::optional<std::int64_t> reserved_bytes;  // By the cache, from the driver.

  std::int64_t allocated_bytes() const { return sum_of(by_owner); }
  /// Reserved but not allocated.
  std::optional<std::int64_t> cache_slack_bytes() const;
};

/// An allocation that the device could not give.
struct OutOfMemory {
  std::int64_t wanted_bytes = 0;
  MemoryAccount account;  // At that moment.
};

struct MemoryUse {
  MemoryAccount peak;                        // The first moment at which most bytes were allocated.
  std::optional<OutOfMemory> out_of_memory;  // The last one.
  std::optional<std::int64_t> driver_used_peak_bytes;
  /// Driver-used minus reserved at that sample: context, library workspaces, other programs.
  std::optional<std::int64_t> unaccounted_bytes;
  std::int64_t num_steps = 0;
  std::int64_t num_allocations = 0;
  std::int64_t num_frees = 0;
  std::int64_t num_unmatched_frees = 0;   // Of what was not live; they change no account.
  std::int64_t num_reused_addresses = 0;  // Allocated again without a free, which is added then.
  std::int64_t num_invalid_rows = 0;      // Negative sizes; left out.
  bool has_lost_data = false;             // The recorder missed something, or the file is cut.
};

/// Accounts for the allocations of one device of a trace, in their order. Never throws for what a
/// trace may hold; no account is ever negative.
MemoryUse compute_memory_use(const Trace& trace, std::uint8_t device = 0);

/// Allocated bytes after one allocation or free.
struct MemoryPoint {
  std::int64_t time_ns = 0;
  Phase phase = Phase::kNone;
  OwnerBytes by_owner = {};
};

/// What was allocated when the step began, then one point for each of its allocations and frees;
/// of all steps and what lies around them, if no step is given.
std::vector<MemoryPoint> memory_timeline(const Trace& trace, std::optional<std::int32_t> step_index,
                                         std::uint8_t device = 0);

/// "activations 12.1 GiB, parameters 475 MiB, ...": the largest owners, at most `max_owners`.
std::string owners_text(const OwnerBytes& bytes, std::size_t max_owners = 5);

/// "graph pool"
std::string label_of(MemoryOwner owner);

/// For block.json's evidence: the account at the peak and what the checks found.
nlohmann::json to_json(const MemoryUse& use);

}  // namespace steplens
