#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "reports/advice/arm_facts.h"

namespace steplens {

/// One known bottleneck: how it shows, what it costs at most, and which switch would test it.
struct AdviceRule {
  std::string_view key;      // JSON value. Never renamed.
  std::string_view title;    // Heading of the finding.
  std::string_view summary;  // When it speaks, with its threshold.
  /// The finding, without what `advise` adds (key, title, arm, command, measured, severity); absent
  /// where there is nothing to find, or where the numbers that it needs are not there.
  std::optional<Finding> (*find)(const ArmFacts& facts);
};

/// All rules, in no order of importance: findings are sorted by what there is to gain.
std::span<const AdviceRule> all_advice_rules();

// ---- Rules. Time in which the device waits: rules_idle.cpp. ----
std::optional<Finding> find_data_wait(const ArmFacts& facts);
std::optional<Finding> find_launch_bound(const ArmFacts& facts);
std::optional<Finding> find_kernel_gaps(const ArmFacts& facts);
std::optional<Finding> find_waiting_calls(const ArmFacts& facts);
std::optional<Finding> find_recompilation(const ArmFacts& facts);
std::optional<Finding> find_exposed_communication(const ArmFacts& facts);
std::optional<Finding> find_many_all_reduces(const ArmFacts& facts);

// ---- What the kernels do: rules_kernels.cpp. ----
std::optional<Finding> find_unfused_attention(const ArmFacts& facts);
std::optional<Finding> find_attention_share(const ArmFacts& facts);
std::optional<Finding> find_idle_tensor_cores(const ArmFacts& facts);
std::optional<Finding> find_memory_bound(const ArmFacts& facts);
std::optional<Finding> find_unfused_optimizer(const ArmFacts& facts);
std::optional<Finding> find_needless_recompute(const ArmFacts& facts);

// ---- Memory, shapes and the machine: rules_machine.cpp. ----
std::optional<Finding> find_allocator_retries(const ArmFacts& facts);
std::optional<Finding> find_memory_short(const ArmFacts& facts);
std::optional<Finding> find_memory_to_spare(const ArmFacts& facts);
std::optional<Finding> find_padding(const ArmFacts& facts);
std::optional<Finding> find_low_clock(const ArmFacts& facts);

}  // namespace steplens
