#include <algorithm>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "tests/harness/caching_allocator_model.h"
#include <gtest/gtest.h>

#include "harness/bundle.h"
#include "harness/memory_plan.h"
#include "harness/trace/trace_reader.h"

// What a captured step's private pool holds, from the allocations of eager steps alone, against the
// pools that captured steps of other bundles had. Nothing here was fitted to those.
namespace steplens {
namespace {

namespace fs = std::filesystem;

const fs::path kPublished = fs::path(STEPLENS_SOURCE_DIR) / "reports/published";

/// The events of the second step of an eager arm's memory block.
std::vector<Alloc> eager_step(std::string_view block_folder) {
  const Trace trace =
      read_trace(kPublished / "h200-gpt2-124m-toggles/blocks" / block_folder / "trace.slt");
  std::vector<Alloc> events;
  for (const Alloc& event : trace.allocs) {
    if (event.step_index == 1) events.push_back(event);
  }
  return events;
}

std::vector<Alloc> step_of_one() { return eager_step("0121-memory-baseline"); }
std::vector<Alloc> step_of_four() { return eager_step("0125-memory-accumulation-4"); }

// Where the second of four micro-steps begins, and how many events one has: from the second on,
// all are alike.
struct Period {
  std::ptrdiff_t begin = 0;
  std::ptrdiff_t length = 0;
};
Period period_of(const std::vector<Alloc>& step) {
  constexpr std::int64_t kLogitsBytes = std::int64_t{4} * 8192 * 50304;  // Two a micro-step.
  std::vector<std::ptrdiff_t> logits;
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (step[i].action == AllocAction::kAlloc && step[i].bytes == kLogitsBytes)
      logits.push_back(static_cast<std::ptrdiff_t>(i));
  }
  if (logits.size() != 8) throw std::runtime_error("not four micro-steps");
  const std::ptrdiff_t length = logits[4] - logits[2];
  const auto is_alike = [](const Alloc& a, const Alloc& b) {
    return a.action == b.action && a.bytes == b.bytes;
  };
  for (std::ptrdiff_t begin = 0; begin < logits[2]; ++begin) {
    const auto at = step.begin() + begin;
    if (std::equal(at, at + length, at + length, is_alike)) return {begin, length};
  }
  throw std::runtime_error("no two micro-steps are alike");
}

std::int64_t measured_pool(std::string_view bundle_name, std::string_view arm) {
  const Bundle bundle = open_bundle(kPublished / bundle_name);
  for (const BlockRecord& block : bundle.blocks) {
    if (block.arm == arm && block.kind == BlockKind::kThroughput)
      return block.memory.at("graph_pool_hidden_bytes").get<std::int64_t>();
  }
  throw std::runtime_error("no such arm");
}

void expect_within(std::int64_t value, std::int64_t expected, double ratio) {
  EXPECT_NEAR(static_cast<double>(value) / static_cast<double>(expected), 1, ratio)
      << value << " against " << expected;
}

TEST(CachingAllocatorModel, FollowsItsRules) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  CachingAllocatorModel pool;
  pool.allocate(1);  // A small segment of 2 MiB, of which 512 bytes are taken.
  EXPECT_EQ(pool.allocated_bytes(), 512);
  EXPECT_EQ(pool.reserved_bytes(), 2 * kMiB);
  const std::size_t first = pool.allocate(3 * kMiB);  // 20 MiB, split.
  const std::size_t second = pool.allocate(5 * kMiB);
  EXPECT_EQ(pool.reserved_bytes(), 22 * kMiB);
  const std::size_t large = pool.allocate(13 * kMiB + 1);  // Of its own: 14 MiB, not split.
  EXPECT_EQ(pool.reserved_bytes(), 22 * kMiB + 14 * kMiB);
  EXPECT_EQ(pool.allocated_bytes(), 512 + 8 * kMiB + 14 * kMiB);
  // 3 and 5 MiB merge with the 12 MiB behind them: room for 20, but 14 is the best fit for 14.
  pool.free(first);
  pool.free(second);
  pool.free(large);
  pool.allocate(14 * kMiB);
  pool.allocate(20 * kMiB);
  EXPECT_EQ(pool.reserved_bytes(), 22 * kMiB + 14 * kMiB);
  EXPECT_EQ(pool.peak_allocated_bytes(), 512 + 34 * kMiB);
}

// Gradients that a captured step makes are live in its pool, so what it hides is the rest.
TEST(GraphPool, IsWhatAnEagerStepTakesInAnEmptyPool) {
  const CachingAllocatorModel pool = replayed(step_of_one());
  const std::int64_t hidden = pool.reserved_bytes() - pool.allocated_bytes();
  expect_within(hidden, measured_pool("h200-gpt2-124m", "graph=on"), 2e-4);
  expect_within(hidden, measured_pool("h200-tracing-graph", "baseline"), 2e-4);
}

TEST(GraphPool, OfOneMicroStepIsThatOfASmallerBatch) {
  const std::vector<Alloc> step = step_of_four();
  // The first micro-step, which keeps its gradients.
  const CachingAllocatorModel pool =
      replayed(std::span(step).first(static_cast<std::size_t>(period_of(step).begin)));
  expect_within(pool.reserved_bytes() - pool.allocated_bytes(),
                measured_pool("h200-aa20-graph", "aa-00"), 3e-4);
}

TEST(GraphPool, OfFourMicroStepsHoldsAnotherFp32Logits) {
  const CachingAllocatorModel pool = replayed(step_of_four());
  expect_within(pool.reserved_bytes() - pool.allocated_bytes(),
                measured_pool("h200-reducer", "baseline"), 2e-4);
}

// A reducer's gradients are views of buckets, which are older than the capture.
TEST(GraphPool, WithAReducerHoldsNoGradients) {
  const std::vector<Alloc> step = step_of_four();
  const Period period = period_of(step);
  const CachingAllocatorModel pool = replayed(std::span(step).subspan(
      static_cast<std::size_t>(period.begin), 3 * static_cast<std::size_t>(period.length)));
  EXPECT_LT(pool.allocated_bytes(), 10'000);  // Losses.
  EXPECT_EQ(pool.reserved_bytes(), measured_pool("h200-reducer", "reducer=always"));
  EXPECT_EQ(pool.reserved_bytes(), measured_pool("h200x2-gpt2-124m", "baseline"));
}

// The planner's closed forms against the replay.
TEST(GraphPool, IsWhatThePlannerSays) {
  RunConfig config;
  config.device = Device::kCuda;
  config.shape = {.num_layers = 12,
                  .d_model = 768,
                  .num_heads = 12,
                  .num_kv_heads = 12,
                  .head_dim = 64,
                  .ffn_width = 2048,
                  .vocab_size = 50304};
  config.sequence_length = 1024;
  config.global_batch_size = 32;
  config.precision = Precision::kBf16;
  config.data = DataPath::kPinned;
  config.graph = true;
  const auto planned = [&] {
    const MemoryPlan plan = predict_memory(config);
    return plan.bytes_of("activations") + plan.bytes_of("graph_pool") + plan.bytes_of("gradients");
  };
  expect_within(planned(), replayed(step_of_one()).reserved_bytes(), 0.01);
  config.num_accumulation = 4;
  expect_within(planned(), replayed(step_of_four()).reserved_bytes(), 0.01);
}

}  // namespace
}  // namespace steplens
