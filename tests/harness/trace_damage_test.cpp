#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>

#include "tests/harness/synthetic_trace.h"
#include "tests/harness/trace_fixture.h"
#include <sys/wait.h>
#include <unistd.h>

#include "harness/trace/columns.h"
#include "harness/trace/crc32c.h"
#include "harness/trace/trace_format.h"
#include "harness/trace/trace_writer.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Some rows of each table, and every reference in use.
Trace small_trace() {
  Trace trace = extreme_trace();
  trace.strings.back() = "short";
  trace.devices.resize(2);
  for (GpuOp& op : trace.gpu_ops) op.device = 1;
  for (Alloc& alloc : trace.allocs) alloc.device = 1;
  trace.quality = {{"dropped", 0}};
  return trace;
}

template <class Part>
std::string sealed(Part part) {
  seal(part);
  return {reinterpret_cast<const char*>(&part), sizeof(part)};
}

// A whole file of one chunk that is not compressed, so that its payload can be anything.
std::string file_of(TableId table, std::uint32_t num_rows, const std::string& payload) {
  const auto chunk = [](TableId id, std::uint32_t rows, const std::string& bytes) {
    return sealed(ChunkHeader{.table = id,
                              .num_rows = rows,
                              .num_stored_bytes = static_cast<std::uint32_t>(bytes.size()),
                              .num_raw_bytes = static_cast<std::uint32_t>(bytes.size()),
                              .payload_crc = crc32c(bytes_of(bytes))}) +
           bytes;
  };
  std::string file = sealed(FileHeader{}) + chunk(table, num_rows, payload);
  std::string index;
  append_column(index, 1, std::vector<std::uint64_t>{sizeof(FileHeader)}, 0);
  append_column(index, 2, std::vector<std::uint64_t>{static_cast<std::uint64_t>(table)}, 0);
  append_column(index, 3, std::vector<std::uint64_t>{num_rows}, 0);
  const FileTrailer trailer{.index_offset = file.size()};
  file += chunk(TableId::kIndex, 1, index);
  return file + sealed(trailer);
}

std::string column_of(std::uint8_t id, const std::vector<std::uint64_t>& codes) {
  std::string payload;
  append_column(payload, id, codes, 0);
  return payload;
}

TEST(DamagedTrace, AnyChangedByteIsFound) {
  const std::string good = encode_trace(small_trace());
  ASSERT_EQ(fault_of(good), "");
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int change : {0x01, 0x80, 0xFF}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      EXPECT_THAT(fault_of(bad), HasSubstr("x.slt: ")) << "byte " << i << " ^ " << change;
    }
  }
}

TEST(DamagedTrace, CutAnywhereItGivesItsWholeChunks) {
  const Trace trace = small_trace();
  const std::string good = encode_trace(trace);
  const ChunkList list = list_chunks(bytes_of(good), "x.slt");
  for (std::size_t length = 0; length < good.size(); ++length) {
    const std::string_view cut = std::string_view(good).substr(0, length);
    if (length < sizeof(FileHeader)) {
      EXPECT_THAT(fault_of(cut), HasSubstr("x.slt: ")) << length;
      continue;
    }
    std::size_t end = sizeof(FileHeader);
    std::size_t num_rows = 0;
    for (const ChunkPlace& chunk : list.chunks) {
      const std::size_t chunk_end = chunk.offset + sizeof(ChunkHeader) + chunk.payload.size();
      if (chunk_end > length) break;
      end = chunk_end;
      if (chunk.header.table == TableId::kGpuOp) num_rows += chunk.header.num_rows;
    }
    if (length >= list.index->offset + sizeof(ChunkHeader) + list.index->payload.size()) {
      end = list.index->offset + sizeof(ChunkHeader) + list.index->payload.size();
    }
    const Trace read = read_bytes(cut);
    EXPECT_EQ(read.quality.at("truncated"), 1) << length;
    EXPECT_EQ(read.quality.at("ignored_bytes"), static_cast<std::int64_t>(length - end)) << length;
    EXPECT_TRUE(has_lost_data(read.quality));
    EXPECT_EQ(read.gpu_ops.size(), num_rows);
  }
}

TEST(DamagedTrace, ZerosBehindACutAreIgnored) {
  const std::string good = encode_trace(small_trace());
  const ChunkList list = list_chunks(bytes_of(good), "x.slt");
  const std::string cut = good.substr(0, list.chunks.back().offset) + std::string(5000, '\0');
  EXPECT_EQ(read_bytes(cut).quality.at("ignored_bytes"), 5000);
}

TEST(DamagedTrace, ReferencesToWhatWasCutOffAreLost) {
  const std::string path =
      fs::temp_directory_path() / ("steplens-lost-" + std::to_string(::getpid()));
  {
    TraceWriter writer(path, TraceWriter::Mode::kStream);
    writer.append(std::vector<GpuOp>{{.name = 3, .launch_shape = 0, .range = 1, .step_index = 4},
                                     {.stream_id = 5, .kind = GpuOpKind::kOperator}});
  }
  const Trace read = read_trace(path);
  fs::remove(path);
  EXPECT_EQ(read.quality.at("lost_references"), 5);
  EXPECT_TRUE(read.gpu_ops[0] == GpuOp{});
  EXPECT_TRUE(read.gpu_ops[1] == (GpuOp{.stream_id = kNoRow, .kind = GpuOpKind::kOperator}));
}

// A child writes chunk after chunk and is killed behind each of them in turn.
TEST(DamagedTrace, AWriterKilledBetweenChunksLosesNoneOfThem) {
  const Trace trace = SyntheticTrace::make(1);
  const std::string path =
      fs::temp_directory_path() / ("steplens-killed-" + std::to_string(::getpid()));
  const std::vector<std::function<void(TraceWriter&)>> appends = {
      [&](TraceWriter& writer) { writer.set_info(trace.info); },
      [&](TraceWriter& writer) { writer.append_strings(std::span(trace.strings).subspan(1)); },
      [&](TraceWriter& writer) { writer.append(std::span(trace.threads)); },
      [&](TraceWriter& writer) { writer.append(std::span(trace.ranges)); },
      [&](TraceWriter& writer) { writer.append(std::span(trace.gpu_ops)); },
      [&](TraceWriter& writer) { writer.append(std::span(trace.apis)); },
      [&](TraceWriter& writer) { writer.append(std::span(trace.gpu_ops)); },
      [&](TraceWriter& writer) { writer.set_quality(trace.quality); },
  };
  for (std::size_t num_chunks = 0; num_chunks <= appends.size(); ++num_chunks) {
    SCOPED_TRACE(num_chunks);
    const pid_t child = ::fork();
    if (child == 0) {
      TraceWriter writer(path, TraceWriter::Mode::kStream);
      for (std::size_t i = 0; i < num_chunks; ++i) appends[i](writer);
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const Trace read = read_trace(path);
    EXPECT_EQ(read.quality.at("truncated"), 1);
    EXPECT_EQ(read.quality.at("ignored_bytes"), 0);
    EXPECT_EQ(read.info.empty(), num_chunks < 1);
    EXPECT_EQ(read.strings.size(), num_chunks < 2 ? 1 : trace.strings.size());
    EXPECT_EQ(read.ranges.size(), num_chunks < 4 ? 0 : trace.ranges.size());
    const std::size_t num_ops = trace.gpu_ops.size();
    EXPECT_EQ(read.gpu_ops.size(), num_chunks < 5 ? 0 : num_chunks < 7 ? num_ops : 2 * num_ops);
    EXPECT_EQ(read.apis.size(), num_chunks < 6 ? 0 : trace.apis.size());
    EXPECT_EQ(read.quality.contains("unattributed"), num_chunks >= 8);
  }
  fs::remove(path);
}

TEST(DamagedTrace, ANewerVersionIsRefusedWithBothVersions) {
  std::string file = encode_trace(small_trace());
  FileHeader header{.version = 2};
  seal(header);
  std::memcpy(file.data(), &header, sizeof(header));
  EXPECT_THAT(fault_of(file), AllOf(HasSubstr("x.slt: trace version 2"), HasSubstr("reads 1 to 1"),
                                    HasSubstr("a newer one wrote it")));
  header.version = 0;
  seal(header);
  std::memcpy(file.data(), &header, sizeof(header));
  EXPECT_THAT(fault_of(file), HasSubstr("trace version 0"));
}

TEST(DamagedTrace, WhatIsNoTraceIsCalledSo) {
  EXPECT_THAT(fault_of(""), HasSubstr("x.slt: not a trace"));
  EXPECT_THAT(fault_of("SQLite format 3, and more"), HasSubstr("x.slt: not a trace"));
  EXPECT_THAT(fault_of(encode_trace(small_trace()) + "x"), HasSubstr("1 bytes behind its end"));
}

TEST(DamagedTrace, AChunkThatIsGoneOrInAnotherPlaceIsMissed) {
  const std::string good = encode_trace(small_trace());
  const ChunkList list = list_chunks(bytes_of(good), "x.slt");
  const auto& chunks = list.chunks;
  // Two chunks change places; the frame stays good.
  std::string swapped = good.substr(0, chunks[2].offset);
  swapped += good.substr(chunks[3].offset, chunks[4].offset - chunks[3].offset);
  swapped += good.substr(chunks[2].offset, chunks[3].offset - chunks[2].offset);
  swapped += good.substr(chunks[4].offset);
  EXPECT_THAT(fault_of(swapped), HasSubstr("x.slt: damaged: index: chunk 2 is another one"));

  std::string shorter = good.substr(0, chunks[2].offset) + good.substr(chunks[3].offset);
  EXPECT_THAT(fault_of(shorter), HasSubstr("x.slt: damaged: wrong trailer"));
  const FileTrailer trailer{.index_offset =
                                list.index->offset - (chunks[3].offset - chunks[2].offset)};
  shorter.replace(shorter.size() - sizeof(trailer), sizeof(trailer), sealed(trailer));
  EXPECT_THAT(fault_of(shorter), HasSubstr("x.slt: damaged: index: of 15 chunks; the file has 14"));
}

TEST(DamagedTrace, NamesChunkTableAndColumn) {
  const auto fault = [](TableId table, std::uint32_t num_rows, const std::string& payload) {
    return fault_of(file_of(table, num_rows, payload));
  };
  EXPECT_EQ(fault(TableId::kThread, 2, column_of(1, {1, 2})), "");
  EXPECT_THAT(fault(TableId::kThread, 3, column_of(1, {1, 2})),
              HasSubstr("x.slt: damaged: chunk 0 (thread): tid: 2 bytes for 3 rows, not 3"));
  EXPECT_THAT(fault(TableId::kThread, 2, column_of(3, {1, 2})), HasSubstr("unknown column 3"));
  EXPECT_THAT(fault(TableId::kThread, 2, column_of(99, {1, 2})), HasSubstr("unknown column 99"));
  EXPECT_THAT(fault(TableId::kThread, 2, "abc"), HasSubstr("ends inside a column header"));
  EXPECT_THAT(fault(TableId::kThread, 2, column_of(2, {1ULL << 32, 0})),
              HasSubstr("name: a value of 4294967296; takes up to 4294967295"));
  EXPECT_THAT(fault(TableId::kGpuOp, 2, column_of(13, {5, 0})),
              HasSubstr("(gpu_op): kind: a value of 5; takes up to 4"));
  EXPECT_THAT(fault(TableId::kGpuOp, 2, column_of(1, {5, 0})), HasSubstr("several origins"));
  EXPECT_THAT(fault(TableId::kInfo, 1, "{"), HasSubstr("x.slt: damaged: chunk 0 (info): "));
  EXPECT_THAT(fault(TableId::kInfo, 1, "[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(fault(TableId::kInfo, 1, "{\"a\":" + std::string(100000, '[')),
              HasSubstr("nested too deep"));
  EXPECT_THAT(fault(TableId::kString, 2, column_of(1, {1, 2})),
              HasSubstr("row 0: 1 bytes of text, of which 0 are there"));
  EXPECT_THAT(fault(TableId::kString, 2, column_of(3, {1, 2})), HasSubstr("strings with values"));
  std::string text;
  append_bytes_column(text, 2, "abcd");
  EXPECT_THAT(fault(TableId::kString, 2, column_of(1, {1, 2}) + text),
              HasSubstr("1 bytes of text of no row"));
  EXPECT_THAT(fault(TableId::kQuality, 2, column_of(1, {2, 2}) + text.substr(0, 4)),
              HasSubstr("(quality): "));
}

TEST(DamagedTrace, NamesTheRowThatRefersToNothing) {
  // Codes of rows are one more than the row.
  EXPECT_THAT(fault_of(file_of(TableId::kThread, 3, column_of(2, {0, 0, 1}))),
              HasSubstr("x.slt: damaged: thread row 2: name 1 of 1"));
  EXPECT_THAT(fault_of(file_of(TableId::kGpuOp, 2, column_of(10, {0, 8}))),
              HasSubstr("gpu_op row 1: range 7 of 0"));
  EXPECT_THAT(fault_of(file_of(TableId::kGpuOp, 2, column_of(11, {0, 1}))),
              HasSubstr("gpu_op row 1: step_index 0 of 0"));
  EXPECT_THAT(fault_of(file_of(TableId::kGpuOp, 2, column_of(19, {0, 1}))),
              HasSubstr("gpu_op row 1: device 1 of 0"));
  EXPECT_THAT(fault_of(file_of(TableId::kGpuOp, 2, column_of(13, {0, 4}))),
              HasSubstr("gpu_op row 1: stream_id 0 of 0"));
  EXPECT_THAT(fault_of(file_of(TableId::kRange, 3, column_of(3, {0, 1, 3}))),
              HasSubstr("range row 2: parent 2 is no earlier row"));
  EXPECT_THAT(fault_of(file_of(TableId::kRangeInstance, 3, column_of(6, {0, 3, 1}))),
              HasSubstr("range_instance row 1: parent 2 is no earlier row"));
}

}  // namespace
}  // namespace steplens
