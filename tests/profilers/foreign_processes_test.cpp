#include "profilers/foreign_processes.h"

#include <gtest/gtest.h>

namespace steplens {
namespace {

constexpr std::int64_t kMib = 1 << 20;
constexpr std::int64_t kSelf = 100;
constexpr std::int64_t kWorker = 101;
constexpr std::int64_t kStranger = 200;
constexpr std::int64_t kDesktop = 300;

NvmlProcess row(std::int64_t pid, std::int64_t used_bytes) {
  return {.pid = static_cast<unsigned int>(pid),
          .used_bytes = static_cast<std::uint64_t>(used_bytes)};
}

std::vector<ForeignProcess> foreign(const GpuUsers& users) {
  return foreign_processes_of(users, {kSelf, kWorker}, {1, kSelf, kWorker, kStranger, kDesktop});
}

TEST(ForeignProcessesOf, IsEmptyOnAnIdleGpu) {
  EXPECT_TRUE(foreign({.memory_used_bytes = 0}).empty());
  EXPECT_TRUE(foreign({}).empty());
}

TEST(ForeignProcessesOf, LeavesOutThisProcessAndItsChildren) {
  EXPECT_TRUE(
      foreign({.compute = {row(kWorker, 5000 * kMib)}, .memory_used_bytes = 5010 * kMib}).empty());
}

TEST(ForeignProcessesOf, NamesAStrangerWithItsMemoryAndDoesNotCountItTwice) {
  const auto found = foreign({.compute = {row(kWorker, 5000 * kMib), row(kStranger, 900 * kMib)},
                              .memory_used_bytes = 5910 * kMib});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pid, kStranger);
  EXPECT_EQ(found[0].memory_bytes, 900 * kMib);
}

TEST(ForeignProcessesOf, SumsTheRowsOfOneProcess) {
  const auto found = foreign({.compute = {row(kStranger, 400 * kMib), row(kStranger, 500 * kMib)},
                              .memory_used_bytes = 900 * kMib});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].memory_bytes, 900 * kMib);
}

TEST(ForeignProcessesOf, SeesAnUnlistedUserByItsMemory) {
  const auto found =
      foreign({.compute = {row(kWorker, 5000 * kMib)}, .memory_used_bytes = 5600 * kMib});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pid, 0);
  EXPECT_EQ(found[0].memory_bytes, 600 * kMib);
}

TEST(ForeignProcessesOf, HasAThresholdOf300Mebibytes) {
  EXPECT_TRUE(foreign({.memory_used_bytes = 300 * kMib}).empty());
  EXPECT_EQ(foreign({.memory_used_bytes = 300 * kMib + 1}).size(), 1u);
}

TEST(ForeignProcessesOf, TakesPidZeroAndPidsOfTheHostAsUnseen) {
  const auto found = foreign({.compute = {row(0, 700 * kMib), row(987'654, 800 * kMib)},
                              .memory_used_bytes = 1500 * kMib});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pid, 0);
  EXPECT_EQ(found[0].memory_bytes, 1500 * kMib);
}

TEST(ForeignProcessesOf, DoesNotTakeItsOwnRowUnderAHostPidForAStrangerWhenMemoryIsSmall) {
  EXPECT_TRUE(
      foreign({.compute = {row(987'654, 20 * kMib)}, .memory_used_bytes = 20 * kMib}).empty());
}

TEST(ForeignProcessesOf, ExplainsMemoryByTheDesktopAndDoesNotListIt) {
  EXPECT_TRUE(
      foreign({.graphics = {row(kDesktop, 800 * kMib)}, .memory_used_bytes = 810 * kMib}).empty());
}

TEST(ForeignProcessesOf, CountsAProcessInBothListsOnce) {
  const auto found = foreign({.compute = {row(kStranger, 400 * kMib)},
                              .graphics = {row(kStranger, 400 * kMib)},
                              .memory_used_bytes = 1200 * kMib});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].pid, kStranger);
  EXPECT_EQ(found[1].pid, 0);
  EXPECT_EQ(found[1].memory_bytes, 800 * kMib);
}

TEST(ForeignProcessesOf, GuessesNothingFromMemoryIfARowHasNone) {
  NvmlProcess unknown = row(kStranger, 0);
  unknown.used_bytes = kNvmlValueNotAvailable;
  const auto found = foreign({.compute = {unknown}, .memory_used_bytes = 9000 * kMib});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pid, kStranger);
  EXPECT_EQ(found[0].memory_bytes, std::nullopt);
}

}  // namespace
}  // namespace steplens
