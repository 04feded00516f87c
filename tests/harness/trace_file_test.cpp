#include <csignal>
#include <filesystem>

#include "tests/harness/synthetic_trace.h"
#include "tests/harness/trace_fixture.h"
#include <sys/resource.h>
#include <unistd.h>

#include "harness/files.h"
#include "harness/trace/trace_format.h"
#include "harness/trace/trace_writer.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TraceFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("steplens-trace-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path path() const { return folder_ / "trace.slt"; }
  fs::path folder_;
};

// Calls f and returns the message of its ConfigError.
template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST_F(TraceFile, GivesBackEveryFieldAtItsLimits) {
  const Trace trace = extreme_trace();
  write_trace(path(), trace);
  expect_same(read_trace(path()), trace);
}

TEST_F(TraceFile, GivesBackAnEmptyTrace) {
  write_trace(path(), Trace());
  expect_same(read_trace(path()), Trace());
}

TEST_F(TraceFile, KeepsTheOrderOfRowsOverManyChunks) {
  const Trace trace = SyntheticTrace::make(125);
  ASSERT_GT(trace.gpu_ops.size(), 2 * kMaxChunkRows);
  write_trace(path(), trace);
  expect_same(read_trace(path()), trace);
}

TEST_F(TraceFile, IsAsSmallAsDesigned) {
  const Trace trace = SyntheticTrace::make(40);
  const std::string file = encode_trace(trace);
  std::size_t num_gpu_op_bytes = 0;
  for (const ChunkPlace& chunk : list_chunks(bytes_of(file), "x.slt").chunks) {
    if (chunk.header.table == TableId::kGpuOp) {
      num_gpu_op_bytes += sizeof(ChunkHeader) + chunk.payload.size();
    }
  }
  EXPECT_LE(num_gpu_op_bytes, 16 * trace.gpu_ops.size());
  EXPECT_LE(file.size(), 40 * trace.gpu_ops.size());
}

TEST_F(TraceFile, RepeatsAnyStringsByteForByte) {
  Trace trace;
  for (int c = 0; c < 256; ++c) trace.strings.emplace_back(3, static_cast<char>(c));
  for (std::size_t i = 0; i < 40000; ++i) trace.strings.push_back(std::to_string(i));
  trace.strings.emplace_back(std::size_t{1} << 24, 'x');
  EXPECT_EQ(read_bytes(encode_trace(trace)).strings, trace.strings);
}

TEST_F(TraceFile, TextOfInfoThatIsNoUtf8IsReplaced) {
  Trace trace;
  trace.info = {{"name", "a\xff"}};
  EXPECT_EQ(read_bytes(encode_trace(trace)).info["name"], "a\xEF\xBF\xBD");
}

TEST_F(TraceFile, AStringThatIsTooLongIsRefusedByName) {
  Trace trace;
  trace.strings.emplace_back((std::size_t{1} << 24) + 1, 'x');
  EXPECT_THAT(message_of([&] { write_trace(path(), trace); }),
              testing::AllOf(HasSubstr(path().string()), HasSubstr("a string of 16777217 bytes")));
  EXPECT_TRUE(fs::is_empty(folder_));
}

// In parts, and in an order in which rows refer to later ones.
void append_in_parts(TraceWriter& writer, const Trace& trace) {
  writer.set_info({{"run_kind", "unknown yet"}});
  writer.set_quality({{"dropped", 1}});
  const std::span ops(trace.gpu_ops);
  writer.append(ops.first(1000));
  writer.append(std::span(trace.apis));
  writer.append_strings(std::span(trace.strings).subspan(1, 10));
  writer.append(ops.subspan(1000));
  writer.append_strings(std::span(trace.strings).subspan(11));
  writer.append(std::span(trace.launch_shapes));
  writer.append(std::span(trace.ranges));
  writer.append(std::span(trace.range_instances));
  writer.append(std::span(trace.syncs));
  writer.append(std::span(trace.allocs));
  writer.append(std::span(trace.counter_tracks));
  writer.append(std::span(trace.counter_samples));
  writer.append(std::span(trace.steps));
  writer.append(std::span(trace.threads));
  writer.append(std::span(trace.devices));
  writer.set_info(trace.info);
  writer.set_quality(trace.quality);
}

TEST_F(TraceFile, IsTheSameHoweverItWasAppended) {
  const Trace trace = SyntheticTrace::make(2);
  for (const auto mode : {TraceWriter::Mode::kWhole, TraceWriter::Mode::kStream}) {
    TraceWriter writer(path(), mode);
    append_in_parts(writer, trace);
    writer.finish();
    expect_same(read_trace(path()), trace);
    fs::remove(path());
  }
}

TEST_F(TraceFile, WholeAppearsOnlyAtFinish) {
  const Trace trace = SyntheticTrace::make(2);
  {
    TraceWriter writer(path());
    append_in_parts(writer, trace);
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(TraceFile, StreamedIsReadableWithoutFinish) {
  const Trace trace = SyntheticTrace::make(2);
  {
    TraceWriter writer(path(), TraceWriter::Mode::kStream);
    append_in_parts(writer, trace);
  }
  Trace expected = trace;
  expected.quality["truncated"] = 1;
  expected.quality["ignored_bytes"] = 0;
  expect_same(read_trace(path()), expected);
}

TEST_F(TraceFile, AFullDiskNamesThePathAndKeepsWhatWasWritten) {
  const Trace trace = SyntheticTrace::make(3);
  rlimit previous{};
  ::getrlimit(RLIMIT_FSIZE, &previous);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = previous;
  small.rlim_cur = 20000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = message_of([&] {
    TraceWriter writer(path(), TraceWriter::Mode::kStream);
    append_in_parts(writer, trace);
  });
  ::setrlimit(RLIMIT_FSIZE, &previous);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr(path().string() + ": cannot write"));
  const Trace read = read_trace(path());
  EXPECT_EQ(read.quality.at("truncated"), 1);
  EXPECT_EQ(read.gpu_ops.size(), 1000u);
}

TEST_F(TraceFile, WhatCannotBeOpenedIsNamed) {
  EXPECT_THAT(message_of([&] { read_trace(path()); }),
              HasSubstr(path().string() + ": cannot read: No such file"));
  EXPECT_THAT(message_of([&] { read_trace(folder_); }), HasSubstr("cannot read"));
  EXPECT_THAT(message_of([&] { write_trace(folder_ / "none" / "x.slt", Trace()); }),
              HasSubstr("cannot write"));
  EXPECT_THAT(message_of([&] {
                TraceWriter writer(folder_ / "none" / "x.slt", TraceWriter::Mode::kStream);
              }),
              HasSubstr("cannot write"));
}

using TraceWriterDeathTest = TraceFile;

TEST_F(TraceWriterDeathTest, RefusesRowsThatDoNotExist) {
  const auto abort_of = [&](auto change) {
    Trace trace = extreme_trace();
    change(trace);
    return [trace] { encode_trace(trace); };
  };
  EXPECT_DEATH(abort_of([](Trace& t) { t.gpu_ops[0].name = 6; })(), "gpu_op.name refers to");
  EXPECT_DEATH(abort_of([](Trace& t) { t.apis[0].range_instance = 3; })(), "api.range_instance");
  EXPECT_DEATH(abort_of([](Trace& t) { t.allocs[0].step_index = 2; })(), "alloc.step_index");
  EXPECT_DEATH(abort_of([](Trace& t) { t.devices.pop_back(); })(), "gpu_op.device");
  EXPECT_DEATH(abort_of([](Trace& t) { t.gpu_ops[3].stream_id = 2; })(), "gpu_op.stream_id");
  EXPECT_DEATH(abort_of([](Trace& t) { t.ranges[1].parent = 1; })(), "parent");
  EXPECT_DEATH(abort_of([](Trace& t) { t.range_instances[1].parent = 2; })(), "parent");
}

TEST(NameOf, HasAWordForEachValue) {
  EXPECT_EQ(name_of(GpuOpKind::kOperator), "operator");
  EXPECT_EQ(name_of(CopyKind::kNone), "");
  EXPECT_EQ(name_of(CopyKind::kOther), "other");
  EXPECT_EQ(name_of(MemoryKind::kArray), "array");
  EXPECT_EQ(name_of(Phase::kOther), "other");
  EXPECT_EQ(name_of(Attribution::kGraphNode), "graph_node");
  EXPECT_EQ(name_of(MemoryOwner::kData), "data");
  EXPECT_EQ(name_of(AllocAction::kOutOfMemory), "out_of_memory");
}

TEST(HasLostData, IsAboutRowsThatAreMissing) {
  EXPECT_FALSE(has_lost_data({}));
  EXPECT_FALSE(has_lost_data({{"dropped", 0}, {"unattributed", 7}, {"peak_slabs", 3}}));
  for (const char* loss : {"dropped", "null_requests", "unknown_kind", "truncated"}) {
    EXPECT_TRUE(has_lost_data({{loss, 1}})) << loss;
  }
}

}  // namespace
}  // namespace steplens
