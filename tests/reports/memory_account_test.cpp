#include "reports/memory/memory_account.h"

#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/memory/memory_parts.h"

namespace steplens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Allocations by hand; each row is 10 ns after the one before.
class Allocations {
 public:
  Allocations& alloc(std::uint64_t address, std::int64_t bytes, MemoryOwner owner,
                     std::string_view path = "", std::int32_t step_index = 0) {
    Alloc& row = add(AllocAction::kAlloc, address, bytes, path, step_index);
    row.owner = owner;
    return *this;
  }
  Allocations& free(std::uint64_t address, std::string_view path = "",
                    std::int32_t step_index = 0) {
    add(AllocAction::kFree, address, 0, path, step_index);
    return *this;
  }
  Alloc& add(AllocAction action, std::uint64_t address, std::int64_t bytes, std::string_view path,
             std::int32_t step_index) {
    const std::uint32_t range = path.empty() ? kNoRow : builder_.range(path);
    builder_.trace().allocs.push_back({.time_ns = time_ns_ += 10,
                                       .address = address,
                                       .bytes = bytes,
                                       .range = range,
                                       .step_index = step_index,
                                       .action = action,
                                       .phase = TraceBuilder::phase_of(path)});
    return builder_.trace().allocs.back();
  }
  void sample(std::string_view track, std::int64_t time_ns, double value) {
    Trace& trace = builder_.trace();
    if (trace.counter_tracks.empty() || trace.text(trace.counter_tracks.back().name) != track) {
      trace.counter_tracks.push_back({.name = builder_.text(track)});
    }
    trace.counter_samples.push_back(
        {.time_ns = time_ns,
         .value = value,
         .track = static_cast<std::uint32_t>(trace.counter_tracks.size() - 1)});
  }
  Trace& trace() { return builder_.trace(); }
  MemoryUse use() { return compute_memory_use(builder_.trace()); }

 private:
  TraceBuilder builder_;
  std::int64_t time_ns_ = 0;
};

constexpr std::string_view kAttention = "step/micro-step/forward/block 0/attention";
constexpr std::string_view kMlp = "step/micro-step/forward/block 1/mlp";

// 100 of parameters; 30 + 50 of activations; the mlp's 50 goes before a gradient of 40 comes.
Allocations small_step() {
  Allocations rows;
  rows.alloc(1, 100, MemoryOwner::kParameters, "", -1)
      .alloc(2, 30, MemoryOwner::kActivations, kAttention)
      .alloc(3, 50, MemoryOwner::kActivations, kMlp)
      .free(3, "step/micro-step/backward")
      .alloc(4, 40, MemoryOwner::kGradients, kAttention)
      .free(2)
      .free(4);
  return rows;
}

TEST(ComputeMemoryUse, SumsOwnersAndModulesToThePeak) {
  const MemoryUse use = small_step().use();
  EXPECT_EQ(use.peak.allocated_bytes(), 180);
  EXPECT_EQ(bytes_of(use.peak.by_owner, MemoryOwner::kParameters), 100);
  EXPECT_EQ(bytes_of(use.peak.by_owner, MemoryOwner::kActivations), 80);
  EXPECT_EQ(bytes_of(use.peak.by_owner, MemoryOwner::kGradients), 0);
  EXPECT_EQ(use.peak.time_ns, 30);
  EXPECT_EQ(use.peak.module, "block 1/mlp");
  ASSERT_EQ(use.peak.modules.size(), 3U);
  EXPECT_EQ(use.peak.modules[0].module, "parameters");
  EXPECT_EQ(use.peak.modules[1].module, "block 1/mlp");
  EXPECT_EQ(sum_of(use.peak.modules[1].by_owner), 50);
  EXPECT_EQ(use.peak.modules[2].module, "block 0/attention");
  std::int64_t sum = 0;
  for (const ModuleMemory& module : use.peak.modules) sum += sum_of(module.by_owner);
  EXPECT_EQ(sum, 180);
  ASSERT_EQ(use.peak.largest.size(), 3U);
  EXPECT_EQ(use.peak.largest[1].bytes, 50);
  EXPECT_EQ(use.num_allocations, 4);
  EXPECT_EQ(use.num_frees, 3);
  EXPECT_FALSE(use.has_lost_data);
}

TEST(ComputeMemoryUse, TakesTheFirstOfEqualPeaks) {
  Allocations rows;
  rows.alloc(1, 10, MemoryOwner::kData).free(1).alloc(1, 10, MemoryOwner::kWorkspace);
  EXPECT_EQ(bytes_of(rows.use().peak.by_owner, MemoryOwner::kData), 10);
}

TEST(ComputeMemoryUse, CountsFreesOfWhatIsNotLiveAndIsNeverNegative) {
  Allocations rows;
  rows.free(9).alloc(1, 10, MemoryOwner::kData).free(1).free(1);
  const MemoryUse use = rows.use();
  EXPECT_EQ(use.num_unmatched_frees, 2);
  EXPECT_EQ(use.peak.allocated_bytes(), 10);
  for (const MemoryPoint& point : memory_timeline(rows.trace(), 0)) {
    EXPECT_GE(sum_of(point.by_owner), 0);
  }
}

TEST(ComputeMemoryUse, AddsTheFreeThatNobodySaw) {
  Allocations rows;
  rows.alloc(1, 10, MemoryOwner::kData).alloc(1, 20, MemoryOwner::kWorkspace);
  const MemoryUse use = rows.use();
  EXPECT_EQ(use.num_reused_addresses, 1);
  EXPECT_EQ(use.peak.allocated_bytes(), 20);
  EXPECT_EQ(bytes_of(use.peak.by_owner, MemoryOwner::kData), 0);
}

TEST(ComputeMemoryUse, LeavesOutNegativeSizesAndOtherDevices) {
  Allocations rows;
  rows.alloc(1, -5, MemoryOwner::kData).alloc(2, 7, MemoryOwner::kData);
  rows.add(AllocAction::kAlloc, 3, 1000, "", 0).device = 1;
  rows.add(AllocAction::kSegmentAlloc, 3, 1000, "", 0);
  const MemoryUse use = rows.use();
  EXPECT_EQ(use.num_invalid_rows, 1);
  EXPECT_EQ(use.peak.allocated_bytes(), 7);
}

TEST(ComputeMemoryUse, HasNoPeakWithoutAllocations) {
  const MemoryUse use = Allocations().use();
  EXPECT_EQ(use.peak.allocated_bytes(), 0);
  EXPECT_FALSE(use.out_of_memory);
  EXPECT_THAT(memory_svg(std::vector{memory_arm(Trace())}), IsEmpty());
  EXPECT_THAT(memory_table(std::vector{memory_arm(Trace())}).rows, IsEmpty());
}

TEST(ComputeMemoryUse, SetsCacheAndDriverBesideTheAllocatedBytes) {
  Allocations rows = small_step();
  rows.sample("reserved", 0, 150);
  rows.sample("reserved", 25, 256);
  rows.sample("reserved", 60, 512);
  rows.sample("driver_used", 5, 700);
  rows.sample("driver_used", 65, 1000);
  const MemoryUse use = rows.use();
  EXPECT_EQ(use.peak.reserved_bytes, 256);
  EXPECT_EQ(use.peak.cache_slack_bytes(), 256 - 180);
  EXPECT_EQ(use.driver_used_peak_bytes, 1000);
  EXPECT_EQ(use.unaccounted_bytes, 1000 - 512);
}

TEST(ComputeMemoryUse, SaysWhatWasLiveWhenMemoryRanOut) {
  Allocations rows;
  rows.alloc(1, 100, MemoryOwner::kParameters, "", -1)
      .alloc(2, 300, MemoryOwner::kActivations, kMlp);
  rows.add(AllocAction::kOutOfMemory, 0, 5000, kAttention, 0);
  rows.free(2);
  const MemoryUse use = rows.use();
  ASSERT_TRUE(use.out_of_memory);
  EXPECT_EQ(use.out_of_memory->wanted_bytes, 5000);
  EXPECT_EQ(use.out_of_memory->account.allocated_bytes(), 400);
  EXPECT_EQ(use.out_of_memory->account.module, "block 0/attention");
  EXPECT_EQ(use.peak.allocated_bytes(), 400);
  EXPECT_EQ(to_json(use).at("out_of_memory").at("by_owner_bytes").at("activations"), 300);
}

TEST(MemoryTimeline, BeginsWithWhatWasThereBeforeTheStep) {
  const std::vector<MemoryPoint> points = memory_timeline(small_step().trace(), 0);
  std::vector<std::int64_t> bytes;
  for (const MemoryPoint& point : points) bytes.push_back(sum_of(point.by_owner));
  EXPECT_THAT(bytes, ElementsAre(100, 130, 180, 130, 170, 140, 100));
  EXPECT_THAT(memory_timeline(small_step().trace(), 1), IsEmpty());
}

TEST(OwnersText, NamesTheLargestFirst) {
  OwnerBytes bytes = {};
  bytes[static_cast<std::size_t>(MemoryOwner::kOptimizerState)] = 3 << 20;
  bytes[static_cast<std::size_t>(MemoryOwner::kActivations)] = 5 << 20;
  bytes[static_cast<std::size_t>(MemoryOwner::kData)] = 1 << 20;
  EXPECT_EQ(owners_text(bytes, 2), "activations 5.00 MiB, optimizer state 3.00 MiB");
}

TEST(MemoryParts, CompareWithTheReference) {
  Allocations rows = small_step();
  rows.trace().steps.push_back({.start_ns = 15, .end_ns = 80});
  std::vector<MemoryArm> arms(2, memory_arm(rows.trace()));
  arms[0].arm = "baseline";
  arms[1].arm = "checkpoint=full";
  arms[1].reference = "baseline";
  arms[1].use.peak.by_owner[static_cast<std::size_t>(MemoryOwner::kActivations)] = 80 - (1 << 20);
  const Table differences = memory_difference_table(arms);
  ASSERT_EQ(differences.rows.size(), 1U);
  EXPECT_THAT(differences.rows[0],
              ElementsAre("checkpoint=full", "baseline", "-1.00 MiB", "-1.00 MiB"));
  EXPECT_THAT(memory_svg(arms), HasSubstr("activations"));
  EXPECT_THAT(memory_warnings(arms), IsEmpty());
}

// A page with fifteen arms had 3.3 MB of corners that nobody sees.
TEST(MemorySvg, DrawsACornerOnlyWhereALevelChanges) {
  MemoryArm arm;
  arm.arm = "baseline";
  arm.use.peak.by_owner[static_cast<std::size_t>(MemoryOwner::kParameters)] = 300;
  for (int i = 0; i < 5000; ++i) {
    MemoryPoint point;
    point.by_owner[static_cast<std::size_t>(MemoryOwner::kParameters)] = 300;
    point.by_owner[static_cast<std::size_t>(MemoryOwner::kActivations)] = i < 2500 ? 0 : 700;
    arm.timeline.push_back(point);
  }
  const std::string svg = memory_svg(std::vector{arm});
  // 130 px are 1000 bytes: parameters reach from the ground at 184 up to 145, activations to 54.
  EXPECT_THAT(svg, HasSubstr("<path d=\"M66.0 145.0H746.0V184.0H66.0Z\""));
  EXPECT_THAT(svg, HasSubstr("<path d=\"M66.0 145.0H406.0V54.0H746.0V145.0H66.0Z\""));
}

TEST(MemoryModuleTable, SumsEachColumnOverTheRest) {
  MemoryAccount account;
  for (int i = 0; i < 20; ++i) {
    ModuleMemory module{.module = std::string(1, static_cast<char>('a' + i))};
    module.by_owner[static_cast<std::size_t>(MemoryOwner::kActivations)] = (20 - i) << 20;
    account.modules.push_back(module);
  }
  const Table table = memory_module_table(account, 2);
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0][0], "a");
  EXPECT_EQ(table.rows[2][0], "18 others");
  EXPECT_EQ(table.rows[2][1], "171 MiB");
}

}  // namespace
}  // namespace steplens
