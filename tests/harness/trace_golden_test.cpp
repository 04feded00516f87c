#include <cstdlib>

#include "tests/harness/trace_fixture.h"

#include "harness/trace/trace_writer.h"

namespace steplens {
namespace {

// Version 1 as it was when it was defined. The file is never written again: a change of the format
// that this test notices needs a new version and a second file.
TEST(GoldenTrace, Version1OpensWithTheseValues) {
  const Trace trace = read_trace(STEPLENS_SOURCE_DIR "/tests/harness/data/version1.slt");

  EXPECT_EQ(trace.info, nlohmann::json::parse(
                            R"({"run_kind": "trace", "arm": "attention=flash", "num_steps": 2})"));
  const std::vector<std::string> strings = {"",
                                            "ampere_sgemm_128x64_tn",
                                            "vectorized_elementwise_kernel",
                                            "cudaLaunchKernel",
                                            "main",
                                            "step",
                                            "forward",
                                            "NVIDIA H200",
                                            "GPU-42",
                                            "power",
                                            "W",
                                            "no permission",
                                            "stream",
                                            "sm_active",
                                            "%"};
  EXPECT_EQ(trace.strings, strings);
  EXPECT_EQ(trace.quality,
            (std::map<std::string, std::int64_t>{{"dropped", 0}, {"max_decode_lag_ns", 125000}}));

  ASSERT_EQ(trace.gpu_ops.size(), 602u);
  // 600 kernels of 2 names: each starts 1000 ns after the one before it and takes 700 ns, or 710 ns
  // if it is odd. Two steps of 300.
  for (std::uint32_t i = 0; i < 600; ++i) {
    const bool is_odd = i % 2 == 1;
    const GpuOp expected{
        .start_ns = -5000 + 1000 * static_cast<std::int64_t>(i),
        .end_ns = -5000 + 1000 * static_cast<std::int64_t>(i) + (is_odd ? 710 : 700),
        .name = is_odd ? 2U : 1U,
        .correlation_id = 100 + 3 * i,
        .stream_id = 7,
        .launch_shape = is_odd ? 1U : 0U,
        .range = 1,
        .step_index = i < 300 ? 0 : 1,
        .micro_step_index = 0,
        .phase = Phase::kForward,
        .attribution = Attribution::kRange};
    EXPECT_TRUE(trace.gpu_ops[i] == expected) << i;
  }
  EXPECT_TRUE(trace.gpu_ops[600] == (GpuOp{.start_ns = 700000,
                                           .end_ns = 712345,
                                           .bytes = 1048576,
                                           .correlation_id = 1,
                                           .stream_id = 13,
                                           .kind = GpuOpKind::kCopy,
                                           .copy_kind = CopyKind::kHostToDevice,
                                           .source_memory = MemoryKind::kPinned,
                                           .target_memory = MemoryKind::kDevice}));
  EXPECT_TRUE(trace.gpu_ops[601] == (GpuOp{.start_ns = 700001,
                                           .end_ns = 700002,
                                           .graph_node_id = 0x123456789ABCDEF0,
                                           .kind = GpuOpKind::kGraph,
                                           .phase = Phase::kOptimizer,
                                           .attribution = Attribution::kGraphNode}));

  EXPECT_TRUE(trace.launch_shapes ==
              (std::vector<LaunchShape>{{132, 2, 1, 256, 1, 1, 128, 1024, 65536},
                                        {4096, 1, 1, 128, 1, 1, 32, 0, 0}}));
  ASSERT_EQ(trace.apis.size(), 1u);
  EXPECT_TRUE(trace.apis[0] == (Api{.start_ns = -9000,
                                    .end_ns = -5500,
                                    .name = 3,
                                    .correlation_id = 100,
                                    .thread = 0,
                                    .range_instance = 1,
                                    .return_value = -2}));
  EXPECT_TRUE(trace.ranges ==
              (std::vector<Range>{{.name = 5}, {.name = 6, .domain = 4, .parent = 0}}));
  EXPECT_TRUE(trace.range_instances ==
              (std::vector<RangeInstance>{
                  {.start_ns = -10000, .end_ns = 800000, .range = 0, .thread = 0},
                  {.start_ns = -9500, .end_ns = 500000, .range = 1, .thread = 0, .parent = 0}}));
  EXPECT_TRUE(trace.syncs == (std::vector<Sync>{{.start_ns = 600000,
                                                 .end_ns = 750000,
                                                 .name = 12,
                                                 .correlation_id = 2000,
                                                 .stream_id = 7}}));
  EXPECT_TRUE(trace.allocs == (std::vector<Alloc>{{.time_ns = -8000,
                                                   .address = 0x7F1234560000,
                                                   .bytes = 2097152,
                                                   .range = 1,
                                                   .step_index = 0,
                                                   .action = AllocAction::kAlloc,
                                                   .owner = MemoryOwner::kGradients,
                                                   .phase = Phase::kBackward},
                                                  {.time_ns = -7000,
                                                   .address = 0x7F1234560000,
                                                   .bytes = 2097152,
                                                   .action = AllocAction::kFree}}));
  EXPECT_TRUE(trace.counter_tracks ==
              (std::vector<CounterTrack>{{.name = 9, .unit = 10},
                                         {.name = 13, .unit = 14, .absent_reason = 11}}));
  EXPECT_TRUE(trace.counter_samples ==
              (std::vector<CounterSample>{{.time_ns = 0, .value = 412.5, .track = 0},
                                          {.time_ns = 100000, .value = -0.1, .track = 0}}));
  EXPECT_TRUE(trace.steps ==
              (std::vector<Step>{{.start_ns = -10000, .end_ns = 290000, .first_step_number = 10},
                                 {.start_ns = 290000, .end_ns = 800000, .first_step_number = 11}}));
  EXPECT_TRUE(trace.threads == (std::vector<ThreadInfo>{{.tid = 31337, .name = 4}}));
  EXPECT_TRUE(trace.devices == (std::vector<DeviceInfo>{{.name = 7, .uuid = 8}}));
}

// CRC-32C bit by bit, for bytes that no code of the product made.
std::uint32_t slow_crc(const std::string& bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78 : crc >> 1;
  }
  return ~crc;
}

std::string little_endian(std::uint64_t value, int num_bytes) {
  std::string bytes;
  for (int i = 0; i < num_bytes; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

std::string with_crc(const std::string& bytes) { return bytes + little_endian(slow_crc(bytes), 4); }

std::string chunk(char table, std::uint32_t num_rows, const std::string& payload) {
  const auto size = static_cast<std::uint32_t>(payload.size());
  return with_crc(std::string("SLTC") + table + std::string(3, '\0') + little_endian(num_rows, 4) +
                  little_endian(size, 4) + little_endian(size, 4) +
                  little_endian(slow_crc(payload), 4)) +
         payload;
}

std::string column(char id, char encoding, char width, std::uint64_t base,
                   const std::string& bytes) {
  return std::string{id, encoding, width, '\0'} + little_endian(bytes.size(), 4) +
         little_endian(base, 8) + bytes;
}

TEST(GoldenTrace, AFileMadeByHandOpens) {
  using std::string_literals::operator""s;
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  const std::string header = with_crc("\x89SLT\r\n\x1a\n\x01\0\0\0"s);
  const std::string strings =
      chunk(2, 2, column(1, 1, 1, 3, "\0\x01"s) + column(2, 5, 0, 0, "one-two"));
  // Starts 100, 250, 150: gaps since the end before of 0, 50, -110; durations 100, 10, 20.
  const std::string ops = chunk(
      3, 3,
      column(1, 0, 0, kSign + 100, "") + column(2, 1, 1, kSign - 110, "\x6E\xA0\x00"s) +
          column(3, 1, 1, kSign + 10, "\x5A\x00\x0A"s) +
          column(6, 3, 0, 1, "\x00\x02\x02\x01"s) +  // Runs: 1, 1, 2.
          column(7, 2, 1, 40, "\x00\x04\x01"s) +     // Deltas 0, 2, -1.
          column(4, 4, 0, 0, "\x01\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x09\x01\x00\x01"s));
  const std::string file = header + strings + ops;
  const auto offset = [](std::size_t value) { return static_cast<char>(value); };
  const std::string index =
      chunk(16, 2,
            column(1, 1, 1, 0, {offset(header.size()), offset(header.size() + strings.size())}) +
                column(2, 1, 1, 2, "\0\x01"s) + column(3, 1, 1, 2, "\0\x01"s));
  const std::string trailer = with_crc(little_endian(file.size(), 8) + "SLTE");

  const Trace trace = read_bytes(file + index + trailer);
  EXPECT_EQ(trace.strings, (std::vector<std::string>{"", "one", "-two"}));
  const std::vector<GpuOp> expected = {
      {.start_ns = 100, .end_ns = 200, .bytes = 9, .name = 1, .correlation_id = 40},
      {.start_ns = 250, .end_ns = 260, .bytes = 0, .name = 1, .correlation_id = 42},
      {.start_ns = 150, .end_ns = 170, .bytes = 9, .name = 2, .correlation_id = 41}};
  EXPECT_TRUE(trace.gpu_ops == expected);
  EXPECT_TRUE(trace.quality.empty());
}

}  // namespace
}  // namespace steplens
