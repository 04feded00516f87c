#include "profilers/trace/slab_pool.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace steplens {
namespace {

TEST(SlabPool, RefusesAndCountsOnceAllAreTaken) {
  SlabPool pool(3, 128);
  EXPECT_EQ(pool.num_slabs(), 3u);
  std::set<std::uint8_t*> taken;
  for (int i = 0; i < 3; ++i) taken.insert(pool.take());
  EXPECT_EQ(taken.size(), 3u);
  EXPECT_FALSE(taken.contains(nullptr));
  EXPECT_EQ(pool.num_refused(), 0);
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(pool.num_refused(), 2);

  std::uint8_t* slab = *taken.begin();
  pool.give(slab);
  EXPECT_EQ(pool.take(), slab);
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(pool.num_refused(), 3);
}

TEST(SlabPool, RefusesAlwaysWithoutSlabs) {
  SlabPool pool(0, 64);
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(pool.num_refused(), 1);
}

TEST(SlabPool, RemembersTheMostThatWereTaken) {
  SlabPool pool(8, 64);
  EXPECT_EQ(pool.peak_taken(), 0);
  std::uint8_t* first = pool.take();
  std::uint8_t* second = pool.take();
  std::uint8_t* third = pool.take();
  pool.give(second);
  pool.give(third);
  pool.give(pool.take());
  EXPECT_EQ(pool.peak_taken(), 3);
  pool.give(first);
  EXPECT_EQ(pool.peak_taken(), 3);
}

TEST(SlabPool, GivesAlignedZeroedMemoryThatDoesNotOverlap) {
  constexpr std::uint32_t kNumSlabs = 5;
  SlabPool pool(kNumSlabs, 100);
  EXPECT_EQ(pool.slab_bytes(), 128u);  // The next multiple of 64.
  std::vector<std::uint8_t*> slabs;
  for (std::uint32_t i = 0; i < kNumSlabs; ++i) {
    std::uint8_t* slab = pool.take();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slab) % SlabPool::kAlignmentBytes, 0u);
    EXPECT_TRUE(std::all_of(slab, slab + 128, [](std::uint8_t byte) { return byte == 0; }));
    std::memset(slab, static_cast<int>(i + 1), 128);
    slabs.push_back(slab);
  }
  for (std::uint32_t i = 0; i < kNumSlabs; ++i) {
    EXPECT_TRUE(
        std::all_of(slabs[i], slabs[i] + 128, [&](std::uint8_t byte) { return byte == i + 1; }));
  }
}

TEST(SlabPool, NeverGivesOneSlabToTwoThreads) {
  constexpr std::uint32_t kNumSlabs = 3;  // Fewer than threads: some are refused.
  constexpr int kNumThreads = 4;
  constexpr int kNumRounds = 20'000;
  SlabPool pool(kNumSlabs, 64);
  std::atomic<std::int64_t> num_refused = 0;
  std::atomic<int> num_clashes = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kNumThreads; ++i) {
      threads.emplace_back([&, i] {
        for (int round = 0; round < kNumRounds; ++round) {
          std::uint8_t* slab = pool.take();
          if (slab == nullptr) {
            ++num_refused;
            std::this_thread::yield();
            continue;
          }
          // Not atomic: taking it is what makes it this thread's alone.
          if (*slab != 0) ++num_clashes;
          *slab = static_cast<std::uint8_t>(i + 1);
          if (round % 16 == 0) std::this_thread::yield();
          if (*slab != i + 1) ++num_clashes;
          *slab = 0;
          pool.give(slab);
        }
      });
    }
  }
  EXPECT_EQ(num_clashes, 0);
  EXPECT_EQ(pool.num_refused(), num_refused);
  EXPECT_GE(pool.peak_taken(), 1);
  EXPECT_LE(pool.peak_taken(), kNumSlabs);
  std::set<std::uint8_t*> slabs;  // All came back.
  for (std::uint32_t i = 0; i < kNumSlabs; ++i) slabs.insert(pool.take());
  EXPECT_EQ(slabs.size(), kNumSlabs);
  EXPECT_FALSE(slabs.contains(nullptr));
}

}  // namespace
}  // namespace steplens
