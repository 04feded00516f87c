#include "tests/reports/trace_builder.h"
#include <gtest/gtest.h>

#include "reports/breakdown/breakdown.h"

namespace steplens {
namespace {

constexpr std::string_view kMlp = "step/micro-step/forward/block 0/mlp";

// A step whose device is idle in [1000, 2000), between two kernels. The tests say what the host
// did.
class IdleTest : public testing::Test {
 protected:
  IdleTest() {
    builder_.kernel("nvjet_a", 0, 1000, 0, kMlp);
    builder_.launched(-50, -40);
    builder_.kernel("nvjet_b", 2000, 3000, 0, kMlp);
  }

  // Of the idle time in nanoseconds, all that is not 0.
  std::map<std::string, std::int64_t> idle() {
    const Breakdown breakdown = compute_breakdown(builder_.trace());
    std::map<std::string, std::int64_t> result;
    for (std::size_t i = 0; i < kNumIdleClasses; ++i) {
      const std::int64_t part_ns = breakdown.total.idle_by_class_ns[i];
      if (part_ns != 0) result[std::string(name_of(static_cast<IdleClass>(i)))] = part_ns;
    }
    return result;
  }

  using Parts = std::map<std::string, std::int64_t>;
  TraceBuilder builder_;
};

TEST_F(IdleTest, LaunchedAfterTheIdleBeganIsLate) {
  builder_.launched(1900, 1950);
  EXPECT_EQ(idle(), (Parts{{"late_launch", 1000}}));
}

TEST_F(IdleTest, LaunchedBeforeTheIdleBeganIsADependency) {
  builder_.launched(900, 1000);
  EXPECT_EQ(idle(), (Parts{{"dependency", 1000}}));
}

TEST_F(IdleTest, ACallThatHadNotReturnedIsLate) {
  builder_.launched(900, 1001);
  EXPECT_EQ(idle(), (Parts{{"late_launch", 1000}}));
}

TEST_F(IdleTest, WithoutTheCallNobodyKnows) { EXPECT_EQ(idle(), (Parts{{"unknown", 1000}})); }

TEST_F(IdleTest, AWaitThatDrainedTheDeviceIsTheCauseOfAllThatFollows) {
  builder_.launched(1500, 1520);
  builder_.api("cudaStreamSynchronize", 200, 1010);
  EXPECT_EQ(idle(), (Parts{{"sync", 1000}}));
}

TEST_F(IdleTest, AWaitOnAnIdleDeviceCostsOnlyItself) {
  builder_.launched(1500, 1520);
  builder_.api("cudaDeviceSynchronize", 1100, 1130);
  EXPECT_EQ(idle(), (Parts{{"sync", 30}, {"late_launch", 970}}));
}

TEST_F(IdleTest, AWaitBehindALaunchInTimeIsADependency) {
  builder_.launched(500, 520);
  builder_.api("cudaStreamSynchronize", 600, 3010);
  EXPECT_EQ(idle(), (Parts{{"dependency", 1000}}));
}

TEST_F(IdleTest, AnotherThreadThatWatchesTheDeviceDelaysNobody) {
  builder_.launched(1500, 1520);
  builder_.api("cudaEventSynchronize", 200, 1010, "observer");
  EXPECT_EQ(idle(), (Parts{{"late_launch", 1000}}));
}

TEST_F(IdleTest, ARowOfAWaitCountsLikeItsCall) {
  builder_.launched(1500, 1520);
  const std::uint32_t id = builder_.api("item", 200, 1010).correlation_id;
  builder_.trace().syncs.push_back(
      {.start_ns = 300, .end_ns = 1005, .name = builder_.text("stream"), .correlation_id = id});
  EXPECT_EQ(idle(), (Parts{{"sync", 1000}}));
  // A stream that waits for an event does not hold the host.
  builder_.trace().syncs.back().name = builder_.text("stream wait event");
  EXPECT_EQ(idle(), (Parts{{"late_launch", 1000}}));
}

TEST_F(IdleTest, TheHostThatGetsDataIsADataWait) {
  builder_.launched(1900, 1950);
  builder_.open("data", 900, 1600);
  EXPECT_EQ(idle(), (Parts{{"data_wait", 600}, {"late_launch", 400}}));
}

TEST_F(IdleTest, ALoaderThreadIsNoDataWait) {
  builder_.launched(1900, 1950);
  builder_.open("data", 900, 1600, "loader");
  EXPECT_EQ(idle(), (Parts{{"late_launch", 1000}}));
}

TEST_F(IdleTest, DataOfAHostThatIsAheadIsNoDataWait) {
  builder_.launched(500, 520);
  builder_.open("data", 900, 1600);
  EXPECT_EQ(idle(), (Parts{{"dependency", 1000}}));
}

TEST_F(IdleTest, TakesTheClassesInOrder) {
  builder_.launched(1950, 1960);
  builder_.open("overhead", 1000, 1100, "cupti", kProfilerDomainName);
  builder_.api("cudaMalloc", 1050, 1300, "loader");
  builder_.open("data", 1200, 1500);
  builder_.api("cudaEventSynchronize", 1400, 1700);
  EXPECT_EQ(idle(), (Parts{{"profiler", 100},
                           {"allocator", 200},
                           {"data_wait", 200},
                           {"sync", 200},
                           {"late_launch", 300}}));
}

TEST_F(IdleTest, TheProfilerComesBeforeADependency) {
  builder_.launched(500, 520);
  builder_.open("overhead", 1000, 1100, "cupti", kProfilerDomainName);
  EXPECT_EQ(idle(), (Parts{{"profiler", 100}, {"dependency", 900}}));
}

TEST_F(IdleTest, KernelsOfAGraphShareItsLaunch) {
  GpuOp& second = builder_.trace().gpu_ops[1];
  second.correlation_id = builder_.trace().gpu_ops[0].correlation_id;
  EXPECT_EQ(idle(), (Parts{{"dependency", 1000}}));
}

TEST_F(IdleTest, IdleBeforeAFenceIsNotLate) {
  builder_.launched(500, 520);
  builder_.open("fence", 2500, 3100);
  builder_.api("cudaDeviceSynchronize", 2500, 3060);
  EXPECT_EQ(idle(), (Parts{{"dependency", 1000}, {"sync", 60}, {"unknown", 40}}));
}

TEST(IsAllocatorCall, KnowsTheRuntimesAndTheDrivers) {
  for (const char* name : {"cudaMalloc", "cudaMallocAsync_v11020", "cudaFree", "cuMemMap",
                           "cuMemUnmap", "cuMemSetAccess", "cudaHostAlloc", "cuMemAlloc_v2"}) {
    EXPECT_TRUE(is_allocator_call(name)) << name;
  }
  for (const char* name : {"cudaMemcpyAsync", "cudaLaunchKernel", "cuLaunchKernelEx", ""}) {
    EXPECT_FALSE(is_allocator_call(name)) << name;
  }
}

TEST(IsWaitingCall, KnowsWhatHoldsTheHost) {
  for (const char* name :
       {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cuEventSynchronize", "cudaMemcpy"}) {
    EXPECT_TRUE(is_waiting_call(name)) << name;
  }
  for (const char* name : {"cudaMemcpyAsync", "cuMemcpyHtoDAsync_v2", "cudaStreamWaitEvent"}) {
    EXPECT_FALSE(is_waiting_call(name)) << name;
  }
}

}  // namespace
}  // namespace steplens
