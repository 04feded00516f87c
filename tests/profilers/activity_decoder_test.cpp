#include "profilers/cupti/activity_decoder.h"

#include <cstdlib>
#include <limits>
#include <string>

#include "tests/profilers/cupti_replay.h"
#include <gtest/gtest.h>

namespace steplens {
namespace {

class ActivityDecoderTest : public testing::Test {
 protected:
  const RawRecords& decode(ActivityRecords records, std::int64_t not_before_ns = 0) {
    decoder_.decode(records.bytes().data(), records.bytes().size(), not_before_ns);
    return decoder_.records();
  }
  std::string text(StringId id) const { return names_.texts()[id]; }
  std::int64_t counted(std::string_view name) {
    const auto& counters = decoder_.records().quality;
    const auto found = counters.find(std::string(name));
    return found == counters.end() ? 0 : found->second;
  }

  CuptiReplay replay_;
  const CuptiApi cupti_ = CuptiReplay::api();
  StringTable names_;
  ActivityDecoder decoder_{cupti_, names_};
};

TEST_F(ActivityDecoderTest, TakesDownAKernel) {
  CUpti_ActivityKernel10 record = kernel_record(1000, 1500, 7, "_Z4gemmPf");
  record.registersPerThread = 168;
  record.deviceId = 3;
  record.streamId = 13;
  record.gridX = 132;
  record.gridY = 2;
  record.gridZ = 3;
  record.blockX = 384;
  record.blockY = 4;
  record.blockZ = 5;
  record.staticSharedMemory = 1024;
  record.dynamicSharedMemory = 227'328;
  record.graphNodeId = (std::uint64_t{1} << 40) + 9;
  const RawRecords& records = decode(ActivityRecords().add(record));
  ASSERT_EQ(records.gpu_ops.size(), 1u);
  EXPECT_EQ(records.gpu_ops[0], (GpuOp{.start_ns = 1000,
                                       .end_ns = 1500,
                                       .graph_node_id = (std::uint64_t{1} << 40) + 9,
                                       .name = names_.id_of("_Z4gemmPf"),
                                       .correlation_id = 7,
                                       .stream_id = 13,
                                       .launch_shape = 0,
                                       .kind = GpuOpKind::kKernel,
                                       .device = 3}));
  ASSERT_EQ(records.launch_shapes.size(), 1u);
  EXPECT_EQ(records.launch_shapes[0], (LaunchShape{.grid_x = 132,
                                                   .grid_y = 2,
                                                   .grid_z = 3,
                                                   .block_x = 384,
                                                   .block_y = 4,
                                                   .block_z = 5,
                                                   .registers_per_thread = 168,
                                                   .static_shared_bytes = 1024,
                                                   .dynamic_shared_bytes = 227'328}));
  EXPECT_EQ(decoder_.num_decoded(), 1);
  EXPECT_TRUE(records.quality.empty());
}

TEST_F(ActivityDecoderTest, SharesEqualShapesAndNames) {
  CUpti_ActivityKernel10 wide = kernel_record(3, 4, 3);
  wide.gridX = 2;
  CUpti_ActivityKernel10 serial = kernel_record(5, 6, 4);
  serial.kind = CUPTI_ACTIVITY_KIND_KERNEL;
  const RawRecords& records = decode(ActivityRecords()
                                         .add(kernel_record(1, 2, 1))
                                         .add(wide)
                                         .add(kernel_record(2, 3, 2))
                                         .add(serial));
  ASSERT_EQ(records.gpu_ops.size(), 4u);
  EXPECT_EQ(records.launch_shapes.size(), 2u);
  EXPECT_EQ(records.gpu_ops[0].launch_shape, 0u);
  EXPECT_EQ(records.gpu_ops[1].launch_shape, 1u);
  EXPECT_EQ(records.gpu_ops[2].launch_shape, 0u);
  EXPECT_EQ(records.gpu_ops[3].launch_shape, 0u);
  EXPECT_EQ(names_.texts().size(), 2u);
}

TEST_F(ActivityDecoderTest, TakesAKernelWithoutAName) {
  const RawRecords& records = decode(ActivityRecords().add(kernel_record(1, 2, 1, nullptr)));
  ASSERT_EQ(records.gpu_ops.size(), 1u);
  EXPECT_EQ(records.gpu_ops[0].name, 0u);
}

TEST_F(ActivityDecoderTest, TakesDownCopies) {
  CUpti_ActivityMemcpy6 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  record.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  record.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.bytes = std::uint64_t{5} << 30;
  record.start = 100;
  record.end = 250;
  record.deviceId = 1;
  record.streamId = 20;
  record.correlationId = 8;
  record.graphNodeId = 77;
  const RawRecords& records = decode(ActivityRecords().add(record));
  ASSERT_EQ(records.gpu_ops.size(), 1u);
  EXPECT_EQ(records.gpu_ops[0], (GpuOp{.start_ns = 100,
                                       .end_ns = 250,
                                       .bytes = std::int64_t{5} << 30,
                                       .graph_node_id = 77,
                                       .name = names_.id_of("memcpy h2d"),
                                       .correlation_id = 8,
                                       .stream_id = 20,
                                       .kind = GpuOpKind::kCopy,
                                       .copy_kind = CopyKind::kHostToDevice,
                                       .source_memory = MemoryKind::kPinned,
                                       .target_memory = MemoryKind::kDevice,
                                       .device = 1}));
}

TEST_F(ActivityDecoderTest, KnowsAllKindsOfCopiesAndMemory) {
  const struct {
    int cupti;
    CopyKind kind;
  } copies[] = {
      {CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN, CopyKind::kOther},
      {CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CopyKind::kHostToDevice},
      {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CopyKind::kDeviceToHost},
      {CUPTI_ACTIVITY_MEMCPY_KIND_HTOA, CopyKind::kHostToDevice},
      {CUPTI_ACTIVITY_MEMCPY_KIND_ATOH, CopyKind::kDeviceToHost},
      {CUPTI_ACTIVITY_MEMCPY_KIND_ATOA, CopyKind::kDeviceToDevice},
      {CUPTI_ACTIVITY_MEMCPY_KIND_ATOD, CopyKind::kDeviceToDevice},
      {CUPTI_ACTIVITY_MEMCPY_KIND_DTOA, CopyKind::kDeviceToDevice},
      {CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, CopyKind::kDeviceToDevice},
      {CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, CopyKind::kHostToHost},
      {CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, CopyKind::kPeerToPeer},
      {200, CopyKind::kOther},
  };
  const struct {
    int cupti;
    MemoryKind kind;
  } memories[] = {
      {CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN, MemoryKind::kUnknown},
      {CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, MemoryKind::kPageable},
      {CUPTI_ACTIVITY_MEMORY_KIND_PINNED, MemoryKind::kPinned},
      {CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, MemoryKind::kDevice},
      {CUPTI_ACTIVITY_MEMORY_KIND_ARRAY, MemoryKind::kArray},
      {CUPTI_ACTIVITY_MEMORY_KIND_MANAGED, MemoryKind::kManaged},
      {CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC, MemoryKind::kDevice},
      {CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC, MemoryKind::kManaged},
      {200, MemoryKind::kUnknown},
  };
  for (const auto& copy : copies) {
    CUpti_ActivityMemcpy6 record{};
    record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    record.copyKind = static_cast<std::uint8_t>(copy.cupti);
    record.start = record.end = 1;
    EXPECT_EQ(decode(ActivityRecords().add(record)).gpu_ops.back().copy_kind, copy.kind)
        << copy.cupti;
  }
  for (const auto& memory : memories) {
    CUpti_ActivityMemcpy6 record{};
    record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    record.srcKind = static_cast<std::uint8_t>(memory.cupti);
    record.start = record.end = 1;
    const GpuOp op = decode(ActivityRecords().add(record)).gpu_ops.back();
    EXPECT_EQ(op.source_memory, memory.kind) << memory.cupti;
    EXPECT_EQ(op.target_memory, MemoryKind::kUnknown);
  }
}

TEST_F(ActivityDecoderTest, TakesDownAPeerCopy) {
  CUpti_ActivityMemcpyPtoP4 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  record.srcKind = record.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.bytes = 4096;
  record.start = 10;
  record.end = 30;
  record.deviceId = 2;
  record.srcDeviceId = 2;
  record.dstDeviceId = 5;
  record.streamId = 4;
  record.correlationId = 9;
  record.graphNodeId = 6;
  const RawRecords& records = decode(ActivityRecords().add(record));
  ASSERT_EQ(records.gpu_ops.size(), 1u);
  EXPECT_EQ(records.gpu_ops[0], (GpuOp{.start_ns = 10,
                                       .end_ns = 30,
                                       .bytes = 4096,
                                       .graph_node_id = 6,
                                       .name = names_.id_of("memcpy p2p"),
                                       .correlation_id = 9,
                                       .stream_id = 4,
                                       .kind = GpuOpKind::kCopy,
                                       .copy_kind = CopyKind::kPeerToPeer,
                                       .source_memory = MemoryKind::kDevice,
                                       .target_memory = MemoryKind::kDevice,
                                       .device = 2}));
}

TEST_F(ActivityDecoderTest, TakesDownAMemset) {
  CUpti_ActivityMemset4 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  record.bytes = 512;
  record.start = 40;
  record.end = 41;
  record.deviceId = 1;
  record.streamId = 7;
  record.correlationId = 11;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.graphNodeId = 12;
  const RawRecords& records = decode(ActivityRecords().add(record));
  ASSERT_EQ(records.gpu_ops.size(), 1u);
  EXPECT_EQ(records.gpu_ops[0], (GpuOp{.start_ns = 40,
                                       .end_ns = 41,
                                       .bytes = 512,
                                       .graph_node_id = 12,
                                       .name = names_.id_of("memset"),
                                       .correlation_id = 11,
                                       .stream_id = 7,
                                       .kind = GpuOpKind::kSet,
                                       .target_memory = MemoryKind::kDevice,
                                       .device = 1}));
}

TEST_F(ActivityDecoderTest, TakesDownAGraphLaunch) {
  CUpti_ActivityGraphTrace2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  record.correlationId = 21;
  record.start = 100;
  record.end = 900;
  record.deviceId = 1;
  record.graphId = 4;
  record.streamId = 13;
  const RawRecords& records = decode(ActivityRecords().add(record));
  ASSERT_EQ(records.gpu_ops.size(), 1u);
  EXPECT_EQ(records.gpu_ops[0], (GpuOp{.start_ns = 100,
                                       .end_ns = 900,
                                       .name = names_.id_of("graph 4"),
                                       .correlation_id = 21,
                                       .stream_id = 13,
                                       .kind = GpuOpKind::kGraph,
                                       .device = 1}));
}

TEST_F(ActivityDecoderTest, TakesDownCallsOfRuntimeAndDriver) {
  CUpti_ActivityAPI runtime = api_record(100, 108, 5);
  runtime.threadId = 4'000'000'000;
  runtime.returnValue = 2;
  const RawRecords& records =
      decode(ActivityRecords()
                 .add(runtime)
                 .add(api_record(101, 107, 5, CUPTI_ACTIVITY_KIND_DRIVER, 307))
                 .add(api_record(110, 120, 6, CUPTI_ACTIVITY_KIND_RUNTIME, 9999))
                 .add(api_record(110, 120, 7, CUPTI_ACTIVITY_KIND_DRIVER, 211)));
  ASSERT_EQ(records.apis.size(), 4u);
  EXPECT_EQ(records.apis[0].api, (Api{.start_ns = 100,
                                      .end_ns = 108,
                                      .name = names_.id_of("cudaLaunchKernel"),
                                      .correlation_id = 5,
                                      .return_value = 2}));
  EXPECT_EQ(records.apis[0].tid, 4'000'000'000u);
  EXPECT_FALSE(records.apis[0].is_driver);
  EXPECT_EQ(text(records.apis[1].api.name), "cuLaunchKernel");
  EXPECT_TRUE(records.apis[1].is_driver);
  EXPECT_EQ(text(records.apis[2].api.name), "runtime call 9999");
  EXPECT_EQ(text(records.apis[3].api.name), "driver call 211");
}

TEST_F(ActivityDecoderTest, TakesDownWaits) {
  const struct {
    CUpti_ActivitySynchronizationType type;
    const char* name;
  } waits[] = {
      {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, "event"},
      {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, "stream wait event"},
      {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, "stream"},
      {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, "context"},
      {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN, "unknown"},
  };
  for (const auto& wait : waits) {
    CUpti_ActivitySynchronization2 record{};
    record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
    record.type = wait.type;
    record.start = 5;
    record.end = 9;
    record.correlationId = 3;
    record.streamId = 7;
    EXPECT_EQ(decode(ActivityRecords().add(record)).syncs.back(),
              (Sync{.start_ns = 5,
                    .end_ns = 9,
                    .name = names_.id_of(wait.name),
                    .correlation_id = 3,
                    .stream_id = 7}));
  }
}

TEST_F(ActivityDecoderTest, TakesDownTheProfilersOwnCostAndFreesItsData) {
  CUpti_ActivityOverhead3 record{};
  record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  record.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  record.start = 5;
  record.end = 9;
  record.overheadData = std::malloc(16);  // NOLINT: AddressSanitizer reports it if it stays.
  const RawRecords& records = decode(ActivityRecords().add(record));
  ASSERT_EQ(records.overheads.size(), 1u);
  EXPECT_EQ(records.overheads[0].start_ns, 5);
  EXPECT_EQ(records.overheads[0].end_ns, 9);
  EXPECT_EQ(text(records.overheads[0].name), "buffer flush");
}

// A host that is ahead fills the driver's queue, and lazy loading happens in any run.
TEST_F(ActivityDecoderTest, TellsTheDriversWorkFromTheProfilers) {
  const auto overhead = [](CUpti_ActivityOverheadKind kind) {
    CUpti_ActivityOverhead3 record{};
    record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
    record.overheadKind = kind;
    record.start = 5;
    record.end = 9;
    return record;
  };
  const RawRecords& records =
      decode(ActivityRecords()
                 .add(overhead(CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL))
                 .add(overhead(CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING))
                 .add(overhead(CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION))
                 .add(overhead(CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST)));
  ASSERT_EQ(records.overheads.size(), 4u);
  EXPECT_EQ(text(records.overheads[0].name), "command buffer full");
  EXPECT_TRUE(records.overheads[0].is_of_driver);
  EXPECT_EQ(text(records.overheads[1].name), "lazy function loading");
  EXPECT_TRUE(records.overheads[1].is_of_driver);
  EXPECT_FALSE(records.overheads[2].is_of_driver);
  EXPECT_EQ(text(records.overheads[3].name), "buffer request");
  EXPECT_FALSE(records.overheads[3].is_of_driver);
}

TEST_F(ActivityDecoderTest, TakesDownDevicesWhateverTheWindow) {
  CUpti_ActivityDevice5 record{};
  record.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  record.id = 2;
  record.name = "NVIDIA H200";
  for (int i = 0; i < 16; ++i) record.uuid.bytes[i] = static_cast<char>(0xf0 + i);
  const RawRecords& records =
      decode(ActivityRecords().add(record), std::numeric_limits<std::int64_t>::max());
  ASSERT_TRUE(records.devices.contains(2));
  EXPECT_EQ(text(records.devices.at(2).first), "NVIDIA H200");
  EXPECT_EQ(text(records.devices.at(2).second), "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
}

// https://github.com/pytorch/kineto/issues/109
TEST_F(ActivityDecoderTest, CountsAndLeavesOutWhatHasNoTime) {
  CUpti_ActivitySynchronization2 wait{};
  wait.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  CUpti_ActivityOverhead3 overhead{};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  const RawRecords& records = decode(ActivityRecords()
                                         .add(kernel_record(0, 0, 1))
                                         .add(kernel_record(0, 500, 2))
                                         .add(kernel_record(500, 0, 3))
                                         .add(api_record(0, 0, 1))
                                         .add(api_record(500, 0, 2))
                                         .add(wait)
                                         .add(overhead)
                                         .add(kernel_record(500, 600, 4)),
                                     400);
  ASSERT_EQ(records.gpu_ops.size(), 1u);
  EXPECT_EQ(records.gpu_ops[0].correlation_id, 4u);
  EXPECT_TRUE(records.apis.empty());
  EXPECT_TRUE(records.syncs.empty());
  EXPECT_TRUE(records.overheads.empty());
  EXPECT_EQ(counted(quality::kZeroTimestamps), 7);
  EXPECT_EQ(counted(quality::kEndBeforeStart), 0);
}

// https://github.com/pytorch/kineto/issues/646
TEST_F(ActivityDecoderTest, CountsAndLeavesOutWhatEndsBeforeItStarts) {
  CUpti_ActivitySynchronization2 wait{};
  wait.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  wait.start = 9;
  wait.end = 8;
  const RawRecords& records = decode(ActivityRecords()
                                         .add(kernel_record(200, 199, 1))
                                         .add(api_record(200, 100, 2))
                                         .add(wait)
                                         .add(kernel_record(200, 200, 3)));
  ASSERT_EQ(records.gpu_ops.size(), 1u);
  EXPECT_EQ(records.gpu_ops[0].correlation_id, 3u);
  EXPECT_TRUE(records.apis.empty());
  EXPECT_TRUE(records.syncs.empty());
  EXPECT_EQ(counted(quality::kEndBeforeStart), 3);
}

// Doubles would round these: 2^60 ns is the year 2006, and they differ by 1.
TEST_F(ActivityDecoderTest, KeepsEveryNanosecond) {
  const std::uint64_t start = (std::uint64_t{1} << 60) + 1;
  const RawRecords& records = decode(ActivityRecords().add(kernel_record(start, start + 1, 1)));
  EXPECT_EQ(records.gpu_ops.at(0).start_ns, static_cast<std::int64_t>(start));
  EXPECT_EQ(records.gpu_ops.at(0).end_ns - records.gpu_ops.at(0).start_ns, 1);
}

TEST_F(ActivityDecoderTest, PassesOverWhatEndedBeforeTheWindow) {
  const RawRecords& records = decode(ActivityRecords()
                                         .add(kernel_record(100, 999, 1, "before"))
                                         .add(kernel_record(100, 1000, 2, "across"))
                                         .add(kernel_record(900, 800, 3))  // Broken, but not ours.
                                         .add(kernel_record(900, 0, 4))
                                         .add(api_record(100, 999, 5))
                                         .add(api_record(100, 1000, 6)),
                                     1000);
  ASSERT_EQ(records.gpu_ops.size(), 1u);
  EXPECT_EQ(records.gpu_ops[0].correlation_id, 2u);
  ASSERT_EQ(records.apis.size(), 1u);
  EXPECT_EQ(records.apis[0].api.correlation_id, 6u);
  EXPECT_TRUE(records.quality.empty());
  EXPECT_EQ(names_.texts(), (std::vector<std::string>{"", "across", "cudaLaunchKernel"}));
}

TEST_F(ActivityDecoderTest, CountsKindsThatItDoesNotKnowAndGoesOn) {
  CUpti_ActivityMarker2 marker{};
  marker.kind = CUPTI_ACTIVITY_KIND_MARKER;
  const RawRecords& records =
      decode(ActivityRecords().add(marker).add(kernel_record(1, 2, 1)).add(marker));
  EXPECT_EQ(records.gpu_ops.size(), 1u);
  EXPECT_EQ(counted(quality::kUnknownKind), 2);
  EXPECT_TRUE(has_lost_data(records.quality));
  EXPECT_EQ(decoder_.num_decoded(), 3);
}

TEST_F(ActivityDecoderTest, CountsABufferThatCannotBeReadToItsEnd) {
  ActivityRecords records;
  records.add(kernel_record(1, 2, 1)).add(std::uint64_t{0xdead}).add(kernel_record(3, 4, 2));
  EXPECT_EQ(decode(records).gpu_ops.size(), 1u);
  EXPECT_EQ(counted(quality::kUnknownKind), 1);
}

TEST_F(ActivityDecoderTest, TakesAnEmptyBuffer) {
  EXPECT_TRUE(decode(ActivityRecords()).gpu_ops.empty());
  EXPECT_EQ(decoder_.num_decoded(), 0);
  EXPECT_TRUE(decoder_.records().quality.empty());
}

}  // namespace
}  // namespace steplens
