#include "profilers/cupti/cupti_collector.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/profilers/cupti_replay.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "profilers/cupti/api_calls.h"

namespace steplens {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr CollectorOptions kSmall = {.num_slabs = 4, .slab_bytes = 4096};  // 18 kernels a slab.

class CuptiCollectorTest : public testing::Test {
 protected:
  std::unique_ptr<CuptiCollector> make(const CollectorOptions& options = kSmall) {
    return std::make_unique<CuptiCollector>(cupti_, names_, ranges_, options);
  }
  // Records from time 0 on.
  std::unique_ptr<CuptiCollector> start(const CollectorOptions& options = kSmall) {
    auto collector = make(options);
    collector->start();
    collector->open_window(0);
    return collector;
  }
  static RawRecords finish(CuptiCollector& collector) {
    collector.stop();
    return collector.take_records();
  }
  static std::string failure_of_start(CuptiCollector& collector) {
    try {
      collector.start();
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "";
  }
  static std::int64_t counter(const RawRecords& records, std::string_view name) {
    return records.quality.at(std::string(name));
  }
  static ActivityRecords kernels(int num_kernels, std::uint32_t first_correlation_id = 1) {
    ActivityRecords records;
    for (int i = 0; i < num_kernels; ++i) {
      const auto id = first_correlation_id + static_cast<std::uint32_t>(i);
      records.add(kernel_record(1000 + 10 * id, 1005 + 10 * id, id));
    }
    return records;
  }

  CuptiReplay replay_;
  const CuptiApi cupti_ = CuptiReplay::api();
  StringTable names_;
  RangeRecorder ranges_{names_};
};

TEST_F(CuptiCollectorTest, KeepsTheRecordsOfAllBuffers) {
  const auto collector = start();
  replay_.deliver(kernels(2, 1));
  replay_.deliver(ActivityRecords().add(api_record(10, 20, 1)).add(kernel_record(30, 40, 9)));
  replay_.hold(kernels(1, 20));  // Comes with the flush at the end.
  const RawRecords records = finish(*collector);
  std::vector<std::uint32_t> ids;
  for (const GpuOp& op : records.gpu_ops) ids.push_back(op.correlation_id);
  EXPECT_THAT(ids, ElementsAre(1, 2, 9, 20));
  EXPECT_EQ(records.apis.size(), 1u);
  EXPECT_EQ(counter(records, quality::kDropped), 0);
  EXPECT_EQ(counter(records, quality::kNullRequests), 0);
  EXPECT_EQ(counter(records, "decoded_records"), 5);
  EXPECT_GE(counter(records, quality::kMaxDecodeLagNs), 0);
  EXPECT_GE(counter(records, quality::kPeakSlabs), 1);
  EXPECT_LE(counter(records, quality::kPeakSlabs), 4);
  EXPECT_FALSE(has_lost_data(records.quality));
}

TEST_F(CuptiCollectorTest, SubscribesAndEnablesBeforeAndDisablesAfter) {
  const auto collector = start();
  EXPECT_TRUE(replay_.is_subscribed);
  EXPECT_EQ(replay_.subscriber_name, "steplens");
  EXPECT_TRUE(replay_.is_zeroed_out);
  EXPECT_EQ(replay_.enabled, (std::set<CUpti_ActivityKind>{
                                 CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                 CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET,
                                 CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_OVERHEAD,
                                 CUPTI_ACTIVITY_KIND_DEVICE}));
  EXPECT_EQ(replay_.enabled_callbacks.size(), 2u);
  EXPECT_EQ(replay_.enabled_calls,
            (std::set<std::string>{"cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000",
                                   "cuLaunchKernel"}));
  collector->stop();
  EXPECT_TRUE(replay_.enabled.empty());
  EXPECT_TRUE(replay_.enabled_calls.empty());
  EXPECT_TRUE(replay_.enabled_callbacks.empty());
  EXPECT_FALSE(replay_.flush_flags.empty());
  for (const std::uint32_t flags : replay_.flush_flags) EXPECT_EQ(flags, 0u);  // Never by force.
}

// Calls find the ranges of their thread by its id, and NVTX ranges know theirs by gettid.
TEST_F(CuptiCollectorTest, AsksForTheThreadIdsOfTheSystem) {
  const auto collector = start();
  EXPECT_EQ(replay_.thread_id_type, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
}

TEST(IsRecordedCall, HoldsForAllThatTheBreakdownLooksFor) {
  for (const char* name : {"cudaLaunchKernel_v7000",
                           "cudaLaunchKernelExC_v11060",
                           "cuLaunchKernelEx",
                           "cudaLaunchCooperativeKernel_v9000",
                           "cudaGraphLaunch_v10000",
                           "cudaGraphInstantiateWithFlags_v11040",
                           "cudaMemcpyAsync_v3020",
                           "cuMemcpyDtoHAsync_v2",
                           "cudaMemsetAsync_v3020",
                           "cuMemsetD32Async",
                           "cudaDeviceSynchronize_v3020",
                           "cuCtxSynchronize",
                           "cudaStreamSynchronize_v3020",
                           "cudaEventSynchronize_v3020",
                           "cudaStreamWaitEvent_v3020",
                           "cudaEventRecordWithFlags_v11010",
                           "cudaMalloc_v3020",
                           "cudaFree_v3020",
                           "cudaHostAlloc_v3020",
                           "cuMemCreate",
                           "cuMemMap",
                           "cuMemUnmap",
                           "cuMemSetAccess",
                           "cuMemAddressReserve",
                           "cuModuleLoadDataEx"}) {
    EXPECT_TRUE(is_recorded_call(name)) << name;
  }
  for (const char* name :
       {"cudaGetDevice_v3020", "cudaGetLastError_v3020", "cudaPeekAtLastError_v3020",
        "cuDevicePrimaryCtxGetState", "cuKernelGetName", "cuKernelGetAttribute", "cuCtxGetCurrent",
        "cudaFuncSetAttribute_v9000", "cudaDeviceGetAttribute_v5000",
        "cudaStreamIsCapturing_v10000", "cudaMemGetInfo_v3020", "cuMemGetInfo_v2",
        "cudaEventQuery_v3020", "Launch", "", "cu"}) {
    EXPECT_FALSE(is_recorded_call(name)) << name;
  }
}

TEST_F(CuptiCollectorTest, EnablesGraphLaunchesOnRequest) {
  const auto collector = start({.is_whole_graph = true, .num_slabs = 1, .slab_bytes = 4096});
  EXPECT_TRUE(replay_.enabled.contains(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
}

TEST_F(CuptiCollectorTest, ThrowsAwayAllRecordsAsTheNullCollector) {
  const auto collector = start({.is_null = true, .num_slabs = 2, .slab_bytes = 4096});
  EXPECT_EQ(replay_.enabled, (std::set<CUpti_ActivityKind>{
                                 CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                 CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET}));
  EXPECT_TRUE(replay_.enabled_calls.empty());
  for (int i = 0; i < 10; ++i) replay_.deliver(kernels(3));
  const RawRecords records = finish(*collector);
  EXPECT_TRUE(records.gpu_ops.empty());
  EXPECT_TRUE(records.launch_shapes.empty());
  EXPECT_EQ(counter(records, "decoded_records"), 0);
  EXPECT_EQ(replay_.num_dirty_buffers, 0);
  EXPECT_EQ(names_.texts().size(), 1u);
}

// https://github.com/pytorch/pytorch/issues/117935
TEST_F(CuptiCollectorTest, NamesTheProfilerThatIsThereAlready) {
  replay_.subscribe_result = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  replay_.holder = "CUPTI for Kineto";
  const auto collector = make();
  EXPECT_EQ(failure_of_start(*collector),
            "cannot trace: \"CUPTI for Kineto\" uses CUPTI in this process already, and CUPTI "
            "serves one at a time; run without it (nsys, ncu, compute-sanitizer, cuda-gdb and "
            "torch.profiler are such)");
  EXPECT_EQ(replay_.num_registrations, 0);
}

TEST_F(CuptiCollectorTest, SaysThatAnotherProfilerIsThereWithoutItsName) {
  replay_.subscribe_result = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  const auto collector = make();
  EXPECT_THAT(failure_of_start(*collector), HasSubstr("cannot trace: another profiler uses CUPTI"));
}

TEST_F(CuptiCollectorTest, NamesWhatCuptiRefused) {
  {
    replay_.subscribe_result = CUPTI_ERROR_NOT_INITIALIZED;
    const auto collector = make();
    EXPECT_EQ(failure_of_start(*collector),
              "cannot trace: cuptiSubscribe: CUPTI_ERROR_NOT_INITIALIZED (15)");
    replay_.subscribe_result = CUPTI_SUCCESS;
  }
  {
    replay_.register_result = CUPTI_ERROR_UNKNOWN;
    const auto collector = make();
    EXPECT_EQ(failure_of_start(*collector),
              "cannot trace: cuptiActivityRegisterCallbacks: error 999");
    replay_.register_result = CUPTI_SUCCESS;
  }
  EXPECT_FALSE(replay_.is_subscribed);
  {
    replay_.enable_results[CUPTI_ACTIVITY_KIND_MEMSET] = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    const auto collector = make();
    EXPECT_EQ(failure_of_start(*collector),
              "cannot trace memsets: cuptiActivityEnable: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES "
              "(35)");
    replay_.enable_results.clear();
  }
  EXPECT_FALSE(replay_.is_subscribed);
  EXPECT_TRUE(replay_.enabled.empty());
  // None of them is in the way of one that works.
  const auto collector = start();
  replay_.deliver(kernels(1));
  EXPECT_EQ(finish(*collector).gpu_ops.size(), 1u);
}

TEST_F(CuptiCollectorTest, RefusesASecondCollectorBesideTheFirst) {
  const auto first = start();
  {
    const auto second = make();
    EXPECT_EQ(failure_of_start(*second),
              "cannot trace: this process is being traced by Steplens already");
  }
  replay_.deliver(kernels(1));  // Its end did not take the first one's place.
  EXPECT_EQ(finish(*first).gpu_ops.size(), 1u);
}

// https://github.com/pytorch/pytorch/issues/192021
TEST_F(CuptiCollectorTest, TracesTwoWindowsOfOneProcess) {
  for (const std::uint32_t window : {1u, 2u}) {
    const auto collector = start();
    replay_.deliver(kernels(5, 100 * window));
    const RawRecords records = finish(*collector);
    ASSERT_EQ(records.gpu_ops.size(), 5u);
    for (std::uint32_t i = 0; i < 5; ++i) {
      EXPECT_EQ(records.gpu_ops[i].correlation_id, 100 * window + i);
      EXPECT_EQ(records.gpu_ops[i].launch_shape, 0u);
    }
    EXPECT_EQ(records.launch_shapes.size(), 1u);
    EXPECT_EQ(replay_.num_registrations, static_cast<int>(window));
  }
  EXPECT_FALSE(replay_.is_subscribed);
}

TEST_F(CuptiCollectorTest, GivesNoBufferOnceItIsGone) {
  {
    const auto collector = start();
  }
  replay_.deliver(kernels(3));
  EXPECT_EQ(replay_.num_null_answers, 1);
}

TEST_F(CuptiCollectorTest, PassesOverWhatEndedBeforeTheWindow) {
  const auto collector = make();
  collector->start();
  for (int i = 0; i < 3; ++i) {
    replay_.deliver(kernels(10));  // No window yet.
    std::this_thread::yield();
  }
  // Wait until the decoder has given all of them back: then none is seen with the window open.
  std::int64_t num_free = 0;
  while (num_free < kSmall.num_slabs) {
    num_free = 0;
    std::vector<std::uint8_t*> slabs;
    for (std::uint32_t i = 0; i < kSmall.num_slabs; ++i) {
      std::uint8_t* buffer = nullptr;
      std::size_t size = 0;
      std::size_t max_num_records = 1;
      collector->request_buffer(&buffer, &size, &max_num_records);
      EXPECT_EQ(max_num_records, 0u);  // As many as fit.
      if (buffer != nullptr) slabs.push_back(buffer);
    }
    num_free = static_cast<std::int64_t>(slabs.size());
    for (std::uint8_t* slab : slabs) collector->complete_buffer(nullptr, 0, slab, 0);
  }
  collector->open_window(1045);  // Kernel 4 ends then, and 5 starts later.
  // Those slabs come back when the decoder has seen that they are empty: until then there is none.
  do {
    replay_.num_null_answers = 0;
    replay_.deliver(kernels(6));
  } while (replay_.num_null_answers > 0);
  const RawRecords records = finish(*collector);
  std::vector<std::uint32_t> ids;
  for (const GpuOp& op : records.gpu_ops) ids.push_back(op.correlation_id);
  EXPECT_THAT(ids, ElementsAre(4, 5, 6));
  EXPECT_EQ(counter(records, "decoded_records"), 36);
}

// https://github.com/pytorch/kineto/issues/1362
TEST_F(CuptiCollectorTest, CountsWhatIsLostWhenAllBuffersAreTaken) {
  const auto collector = make({.num_slabs = 2, .slab_bytes = 4096});
  collector->start();
  collector->open_window(0);
  // Buffers that CUPTI is still filling.
  std::uint8_t* filling[2] = {};
  std::size_t size = 0;
  std::size_t max_num_records = 0;
  for (std::uint8_t*& buffer : filling) {
    collector->request_buffer(&buffer, &size, &max_num_records);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(size, 4096u);
  }
  for (int i = 0; i < 1000; ++i) replay_.deliver(kernels(18));
  EXPECT_EQ(replay_.num_null_answers, 1000);
  for (std::uint8_t* buffer : filling) collector->complete_buffer(nullptr, 0, buffer, 0);
  const RawRecords records = finish(*collector);
  EXPECT_TRUE(records.gpu_ops.empty());
  EXPECT_EQ(counter(records, quality::kNullRequests), 1000);
  EXPECT_EQ(counter(records, quality::kDropped), 18'000);
  EXPECT_EQ(counter(records, quality::kPeakSlabs), 2);  // Never more than it was given.
  EXPECT_TRUE(has_lost_data(records.quality));
}

TEST_F(CuptiCollectorTest, TakesABufferThatIsNone) {
  const auto collector = start();
  collector->complete_buffer(nullptr, 0, nullptr, 0);
  EXPECT_TRUE(finish(*collector).gpu_ops.empty());
}

// https://github.com/pytorch/pytorch/issues/192094
TEST_F(CuptiCollectorTest, AddsUpWhatCuptiDropped) {
  const auto collector = start();
  replay_.drop(5);
  replay_.deliver(kernels(1));
  replay_.deliver(kernels(1));
  replay_.drop(7);  // After the last buffer.
  const RawRecords records = finish(*collector);
  EXPECT_EQ(counter(records, quality::kDropped), 12);
  EXPECT_TRUE(has_lost_data(records.quality));
}

TEST_F(CuptiCollectorTest, HandsOutClearedBuffersAgain) {
  const auto collector = start({.num_slabs = 1, .slab_bytes = 4096});
  std::int64_t num_records = 0;
  for (int i = 0; i < 200; ++i) {
    const std::int64_t num_null = replay_.num_null_answers;
    replay_.deliver(kernels(1 + i % 18));
    if (replay_.num_null_answers == num_null) num_records += 1 + i % 18;
  }
  EXPECT_EQ(replay_.num_dirty_buffers, 0);
  EXPECT_EQ(static_cast<std::int64_t>(finish(*collector).gpu_ops.size()), num_records);
}

TEST_F(CuptiCollectorTest, TakesBuffersFromSeveralThreads) {
  constexpr int kNumThreads = 4;
  constexpr int kNumBuffers = 200;
  constexpr int kNumKernels = 18;
  const auto collector = start({.num_slabs = 3, .slab_bytes = 4096});
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kNumThreads; ++i) {
      threads.emplace_back([&] {
        const ActivityRecords records = kernels(kNumKernels);
        for (int buffer = 0; buffer < kNumBuffers; ++buffer) replay_.deliver(records);
      });
    }
  }
  const RawRecords records = finish(*collector);
  EXPECT_EQ(counter(records, quality::kNullRequests), replay_.num_null_answers);
  EXPECT_EQ(counter(records, quality::kDropped), replay_.num_null_answers * kNumKernels);
  EXPECT_EQ(static_cast<std::int64_t>(records.gpu_ops.size()),
            (kNumThreads * kNumBuffers - replay_.num_null_answers) * kNumKernels);
  EXPECT_EQ(replay_.num_dirty_buffers, 0);
  EXPECT_LE(counter(records, quality::kPeakSlabs), 3);
}

// https://github.com/pytorch/pytorch/issues/188956
TEST_F(CuptiCollectorTest, FindsThatTheClocksDisagree) {
  {
    const auto collector = start();
    EXPECT_LT(counter(finish(*collector), quality::kClockResidualNs), 100'000'000);
  }
  const auto collector = start();
  replay_.clock_skew_ns = -5'000'000'000;
  collector->bracket_clocks();
  replay_.clock_skew_ns = 0;  // Once is enough.
  const std::int64_t residual_ns = counter(finish(*collector), quality::kClockResidualNs);
  EXPECT_NEAR(static_cast<double>(residual_ns), 5e9, 1e8);
}

// https://github.com/pytorch/pytorch/issues/186626
TEST_F(CuptiCollectorTest, RemembersWhereEachNodeOfTwoGraphsWasCaptured) {
  ranges_.watch_steps("step", nullptr, nullptr);
  const auto collector = start();
  const auto range_in = [&](std::uint64_t node) {
    return collector->node_origins().at(node).range;
  };
  ranges_.push(0, "step");
  ranges_.push(0, "forward");
  const std::uint32_t forward = ranges_.current_range();
  replay_.create_node(1);
  ranges_.pop(0);
  ranges_.push(0, "backward");
  const std::uint32_t backward = ranges_.current_range();
  replay_.create_node(2);
  // As autograd does it: another thread captures.
  std::uint32_t node_range = kNoRow;
  std::jthread([&] {
    ranges_.push(0, "block 0");
    node_range = ranges_.current_range();
    replay_.create_node(3);
    ranges_.pop(0);
  }).join();
  ranges_.pop(0);
  ranges_.pop(0);
  // Both are instantiated outside of all ranges, their nodes in turn: 11 to 13 run on the device.
  replay_.clone_node(12, 2);
  replay_.clone_node(11, 1);
  replay_.clone_node(13, 3);
  replay_.clone_node(23, 13);  // A copy of the copy.
  replay_.clone_node(24, 99);  // Of a node that was made before.
  EXPECT_EQ(range_in(1), forward);
  EXPECT_EQ(range_in(11), forward);
  EXPECT_EQ(range_in(12), backward);
  EXPECT_EQ(range_in(13), node_range);
  EXPECT_EQ(range_in(23), node_range);
  EXPECT_EQ(collector->node_origins().at(13).step_range, backward);
  EXPECT_FALSE(collector->node_origins().contains(24));
}

TEST_F(CuptiCollectorTest, LearnsNoMoreNodesAfterItsEnd) {
  const auto collector = start();
  replay_.create_node(1);
  collector->stop();
  replay_.create_node(2);
  EXPECT_EQ(collector->node_origins().size(), 1u);
}

// https://github.com/pytorch/pytorch/issues/193348
TEST_F(CuptiCollectorTest, HoldsNothingOfTenThousandStepsBeforeTheWindow) {
  const auto collector = make();
  collector->start();
  for (int step = 0; step < 10'000; ++step) {
    ranges_.push(0, "step");
    replay_.deliver(kernels(18));
    ranges_.pop(0);
  }
  const RawRecords records = finish(*collector);
  EXPECT_TRUE(records.gpu_ops.empty());
  EXPECT_TRUE(records.launch_shapes.empty());
  EXPECT_TRUE(ranges_.snapshot().threads.at(0).instances.empty());
  EXPECT_EQ(names_.texts().size(), 2u);
}

TEST_F(CuptiCollectorTest, CanBeStoppedTwiceOrNotAtAll) {
  const auto collector = start();
  collector->stop();
  collector->stop();
  EXPECT_EQ(collector->take_records().quality.count(std::string(quality::kDropped)), 1u);
  const auto never_started = make();
}

TEST(LoadCupti, SaysWhyThereIsNone) {
  std::string why_not;
  const CuptiApi* cupti = load_cupti(why_not);
  EXPECT_EQ(cupti == nullptr, !why_not.empty());
  std::string again;
  EXPECT_EQ(load_cupti(again), cupti);
  EXPECT_EQ(again, why_not);
}

}  // namespace
}  // namespace steplens
