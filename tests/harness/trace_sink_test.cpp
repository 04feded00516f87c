#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "tests/harness/synthetic_trace.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/trace/trace_format.h"
#include "harness/trace/trace_reader.h"
#include "harness/trace/trace_writer.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

// Puts the rows where a Trace has them.
class Collector : public RowSink {
 public:
  Trace rows;
  Trace seen;  // As `begin` was given it.

  void begin(const Trace& trace, TableExtent gpu_ops, TableExtent apis,
             TableExtent range_instances) override {
    seen = trace;
    rows.gpu_ops.resize(gpu_ops.num_rows);
    rows.apis.resize(apis.num_rows);
    rows.range_instances.resize(range_instances.num_rows);
  }
  void take(std::span<const GpuOp> batch, RowPlace place) override {
    std::ranges::copy(batch, rows.gpu_ops.begin() + static_cast<std::ptrdiff_t>(place.first_row));
  }
  void take(std::span<const Api> batch, RowPlace place) override {
    std::ranges::copy(batch, rows.apis.begin() + static_cast<std::ptrdiff_t>(place.first_row));
  }
  void take(std::span<const RangeInstance> batch, RowPlace place) override {
    std::ranges::copy(batch,
                      rows.range_instances.begin() + static_cast<std::ptrdiff_t>(place.first_row));
  }
};

class TraceSink : public testing::Test {
 protected:
  void SetUp() override {
    trace_ = SyntheticTrace::make(130);  // 143,000 operations: several chunks.
    path_ = fs::temp_directory_path() / ("steplens-sink-" + std::to_string(::getpid()));
    file_ = encode_trace(trace_);
    write();
  }
  void TearDown() override { fs::remove(path_); }

  void write() { std::ofstream(path_, std::ios::binary | std::ios::trunc) << file_; }
  // Changes a byte in the middle of the first chunk of a table.
  void damage(TableId table) {
    const ChunkList list = list_chunks(std::as_bytes(std::span(file_)), "x");
    for (const ChunkPlace& chunk : list.chunks) {
      if (chunk.header.table != table) continue;
      const std::size_t at = chunk.offset + sizeof(ChunkHeader) + chunk.payload.size() / 2;
      file_[at] = static_cast<char>(file_[at] ^ 1);
      break;
    }
    write();
  }

  Trace trace_;
  fs::path path_;
  std::string file_;
};

TEST_F(TraceSink, GetsAllRowsAndTheTraceTheRest) {
  for (const int num_threads : {1, 3}) {
    Collector sink;
    const Trace rest = read_trace(path_, {.num_threads = num_threads}, &sink);
    EXPECT_TRUE(sink.rows.gpu_ops == trace_.gpu_ops);
    EXPECT_TRUE(sink.rows.apis == trace_.apis);
    EXPECT_TRUE(sink.rows.range_instances == trace_.range_instances);
    EXPECT_TRUE(rest.gpu_ops.empty() && rest.apis.empty() && rest.range_instances.empty());
    EXPECT_TRUE(rest.allocs == trace_.allocs);
    EXPECT_TRUE(rest.counter_samples == trace_.counter_samples);
    EXPECT_EQ(rest.strings, trace_.strings);
    EXPECT_EQ(sink.seen.strings, trace_.strings);
    EXPECT_EQ(rest.quality, trace_.quality);
  }
}

TEST_F(TraceSink, CountsRowsAsTheyAreDone) {
  ReadProgress progress;
  Collector sink;
  read_trace(path_, {.progress = &progress}, &sink);
  EXPECT_GE(progress.num_done_rows,
            trace_.gpu_ops.size() + trace_.apis.size() + trace_.range_instances.size());
}

TEST_F(TraceSink, StopsWhenCancelled) {
  ReadProgress progress;
  progress.is_cancelled = true;
  Collector sink;
  EXPECT_THROW(read_trace(path_, {.progress = &progress}, &sink), ConfigError);
}

TEST_F(TraceSink, DamageIsAnErrorUnlessTheReaderIsToGoOn) {
  damage(TableId::kGpuOp);
  Collector sink;
  EXPECT_THROW(read_trace(path_, {.num_threads = 2}, &sink), ConfigError);
  EXPECT_THROW(read_trace(path_), ConfigError);
}

TEST_F(TraceSink, PassesOverADamagedChunkOfOperations) {
  damage(TableId::kGpuOp);
  Collector sink;
  const Trace rest = read_trace(path_, {.keeps_going = true, .num_threads = 2}, &sink);
  EXPECT_EQ(rest.quality.at("damaged_chunks"), 1);
  EXPECT_TRUE(has_lost_data(rest.quality));
  EXPECT_EQ(sink.rows.gpu_ops.size(), trace_.gpu_ops.size());
  EXPECT_TRUE(sink.rows.gpu_ops.front() == GpuOp{});  // Of the lost chunk.
  EXPECT_TRUE(sink.rows.gpu_ops.back() == trace_.gpu_ops.back());
  EXPECT_TRUE(sink.rows.apis == trace_.apis);

  const Trace whole = read_trace(path_, {.keeps_going = true});
  EXPECT_EQ(whole.gpu_ops.size(), trace_.gpu_ops.size() - kMaxChunkRows);
  EXPECT_EQ(whole.quality.at("damaged_chunks"), 1);
}

TEST_F(TraceSink, LostStringsKeepTheirPlaces) {
  damage(TableId::kString);
  const Trace read = read_trace(path_, {.keeps_going = true});
  EXPECT_EQ(read.strings.size(), trace_.strings.size());
  EXPECT_EQ(read.strings.back(), "(lost)");
  EXPECT_TRUE(read.gpu_ops == trace_.gpu_ops);
}

TEST_F(TraceSink, ADamagedFrameEndsTheFileThere) {
  const ChunkList list = list_chunks(std::as_bytes(std::span(file_)), "x");
  const auto last = std::ranges::find_if(list.chunks.rbegin(), list.chunks.rend(), [](auto& chunk) {
    return chunk.header.table == TableId::kGpuOp;
  });
  const std::size_t offset = last->offset;
  const std::uint32_t num_rows = last->header.num_rows;
  file_[offset] = 'X';
  write();
  Collector sink;
  const Trace rest = read_trace(path_, {.keeps_going = true}, &sink);
  EXPECT_EQ(rest.quality.at("truncated"), 1);
  EXPECT_EQ(rest.quality.at("ignored_bytes"), static_cast<std::int64_t>(file_.size() - offset));
  ASSERT_EQ(sink.rows.gpu_ops.size(), trace_.gpu_ops.size() - num_rows);
  for (std::size_t i = 0; i < sink.rows.gpu_ops.size(); ++i) {
    ASSERT_EQ(sink.rows.gpu_ops[i].start_ns, trace_.gpu_ops[i].start_ns);
  }
}

}  // namespace
}  // namespace steplens
