#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/harness/fake_site.h"
#include "tests/harness/plan_fixture.h"
#include <gtest/gtest.h>

namespace steplens::testing_support {

// Baseline, attention=math, optimizer=fused: three arms.
inline Plan plan_of_rounds(int num_rounds) {
  return make_plan({.baseline = cpu_baseline(),
                    .toggles = parse_toggle_choices("attention=math,optimizer=fused"),
                    .num_rounds = num_rounds},
                   vocabulary());
}

inline std::vector<std::string> arms_of_kind(const FakeWorld& world, BlockKind kind) {
  std::vector<std::string> arms;
  for (const BlockConfig& block : world.ran) {
    if (block.kind == kind) arms.push_back(block.arm);
  }
  return arms;
}

inline std::vector<std::string> arms_of_round(const FakeWorld& world, int round_index) {
  std::vector<std::string> arms;
  for (const BlockConfig& block : world.ran) {
    if (block.kind == BlockKind::kThroughput && block.round_index == round_index) {
      arms.push_back(block.arm);
    }
  }
  return arms;
}

// Every slot of every complete round holds exactly one usable block of each arm that is not FAILED.
inline void expect_whole(const Bundle& bundle) {
  for (const RoundRecord& round : bundle.manifest.rounds) {
    if (!round.is_complete) continue;
    std::map<std::string, int> num_used;
    for (const BlockEntry& entry : bundle.manifest.blocks) {
      if (entry.kind == BlockKind::kThroughput && entry.round_index == round.index &&
          entry.status == BlockStatus::kOk && !entry.is_superseded) {
        ++num_used[entry.arm];
      }
    }
    for (const std::string& arm : round.order) {
      if (bundle.manifest.failed_arms.contains(arm)) continue;
      EXPECT_EQ(num_used[arm], 1) << "round " << round.index << ", " << arm;
    }
  }
  for (const BlockEntry& entry : bundle.manifest.blocks) {
    EXPECT_EQ(sha256_file_hex(block_path(bundle.folder, entry)), entry.sha256);
  }
}

inline int num_complete(const Bundle& bundle) {
  return static_cast<int>(
      std::ranges::count(bundle.manifest.rounds, true, &RoundRecord::is_complete));
}

// Interrupts the block with this number, counted over all that were started.
inline void interrupt_block(FakeWorld& world, std::size_t number) {
  world.answer = [&world, number](const BlockConfig&, int) {
    return FakeBlock{.is_interrupted = world.ran.size() == number + 1};
  };
}

inline Plan gpu_plan(int num_rounds) {
  RunConfig baseline = cpu_baseline();
  baseline.device = Device::kCuda;
  return make_plan({.baseline = baseline,
                    .toggles = parse_toggle_choices("attention=math"),
                    .num_rounds = num_rounds},
                   vocabulary());
}

}  // namespace steplens::testing_support
