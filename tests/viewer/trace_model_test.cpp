#include "viewer/data/trace_model.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/synthetic_trace.h"
#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/error.h"
#include "harness/trace/merge_ranks.h"
#include "harness/trace/trace_format.h"
#include "harness/trace/trace_writer.h"
#include "reports/export/chrome_json.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const Lane* find_lane(const TraceModel& model, LaneKind kind, std::uint32_t id = 0) {
  for (const Lane& lane : model.lanes) {
    if (lane.kind == kind && (id == 0 || lane.id == id)) return &lane;
  }
  return nullptr;
}

std::vector<std::string> names_of(const TraceModel& model, const SliceRow& row) {
  std::vector<std::string> names;
  for (const Slice& slice : row.slices()) names.push_back(model.names.display(slice.name));
  return names;
}

// Two steps; a kernel in each phase, a copy that overlaps the first kernel, and their calls.
TraceBuilder two_steps() {
  TraceBuilder builder;
  builder.trace().steps = {{.start_ns = 0, .end_ns = 1000}, {.start_ns = 1000, .end_ns = 2000}};
  builder.open("step", 0, 1000);
  builder.open("step/forward", 10, 400);
  builder.open("step", 1000, 2000);
  for (int step = 0; step < 2; ++step) {
    const std::int64_t t = step * 1000;
    builder.copy(CopyKind::kHostToDevice, t + 20, t + 200, step, "step/data").bytes = 4096;
    builder.kernel("ampere_sgemm_128x64_tn", t + 100, t + 300, step, "step/forward/block 0/mlp");
    builder.launched(t + 40, t + 50);
    builder.kernel("ampere_sgemm_128x64_tn", t + 310, t + 500, step, "step/forward/block 1/mlp");
    builder.kernel("multi_tensor_apply_kernel", t + 600, t + 700, step, "step/optimizer");
  }
  return builder;
}

TEST(TraceModel, NodesOfGraphsShareTwoLanesWhateverTheirStreams) {
  TraceBuilder builder;
  builder.trace().steps = {{.start_ns = 0, .end_ns = 1000}};
  const auto node = [&](std::string_view name, std::int64_t start_ns, std::int64_t end_ns,
                        std::uint32_t stream, std::uint64_t id) {
    GpuOp& op = builder.kernel(name, start_ns, end_ns, 0, "step/backward/block 0/mlp");
    op.stream_id = stream;
    op.graph_node_id = id;
  };
  node("ampere_sgemm_128x64_tn", 0, 100, 13, 1);
  node("vectorized_elementwise_kernel", 90, 200, 202, 2);  // A branch that overlaps the first,
  node("ampere_sgemm_128x64_tn", 200, 300, 216, 3);        // and one that follows both.
  node("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 50, 150, 257, 4);
  node("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 150, 250, 229, 5);
  builder.kernel("ampere_sgemm_128x64_tn", 400, 500, 0, "step/optimizer");  // No graph's.

  const auto model = make_trace_model(builder.trace());
  std::vector<std::string> titles;
  for (const Lane& lane : model->lanes) {
    if (has_operations(lane.kind)) titles.push_back(lane.title);
  }
  EXPECT_THAT(titles, ElementsAre("Graph", "Communication", "Stream 7"));
  const Lane* graph = find_lane(*model, LaneKind::kGraph, kGraphComputation);
  ASSERT_NE(graph, nullptr);
  ASSERT_EQ(graph->rows.size(), 2U);
  EXPECT_EQ(graph->rows[0].slices().size(), 2U);
  EXPECT_EQ(graph->rows[1].slices().size(), 1U);
  const Lane* communication = find_lane(*model, LaneKind::kGraph, kGraphCommunication);
  ASSERT_NE(communication, nullptr);
  ASSERT_EQ(communication->rows.size(), 1U);
  EXPECT_EQ(communication->num_slices(), 2U);
}

TEST(TraceModel, HasALaneForEachStreamThreadAndWhatFollows) {
  const auto model = make_trace_model(two_steps().trace());
  std::vector<LaneKind> kinds;
  for (const Lane& lane : model->lanes) kinds.push_back(lane.kind);
  EXPECT_THAT(
      kinds, ElementsAre(LaneKind::kSteps, LaneKind::kPhases, LaneKind::kModules, LaneKind::kStream,
                         LaneKind::kStream, LaneKind::kRanges, LaneKind::kCalls));
  // The busier stream first.
  EXPECT_EQ(model->lanes[3].id, 7U);
  EXPECT_EQ(model->lanes[4].id, 20U);
  EXPECT_THAT(names_of(*model, model->lanes[4].rows[0]),
              ElementsAre("Memcpy HtoD (Unknown -> Unknown)", "Memcpy HtoD (Unknown -> Unknown)"));
  EXPECT_EQ(model->num_operations, 8);
  EXPECT_TRUE(model->banners.empty());
}

TEST(TraceModel, GroupsTheLanesOfEachRankOfABlock) {
  std::vector<Trace> ranks;
  ranks.push_back(std::move(two_steps().trace()));
  ranks.push_back(std::move(two_steps().trace()));
  const auto model = make_trace_model(merge_ranks(std::move(ranks)));
  std::vector<std::string> titles;
  for (const Lane& lane : model->lanes) titles.push_back(lane.title);
  EXPECT_THAT(titles, ElementsAre("Steps", "Phases", "Modules", "Rank 0 stream 7",
                                  "Rank 0 stream 20", "Rank 1 stream 7", "Rank 1 stream 20",
                                  "Ranges", "CUDA calls", "Ranges", "CUDA calls"));
  EXPECT_EQ(model->lanes[9].note, "rank 1 main");
  EXPECT_EQ(model->num_operations, 16);
}

TEST(TraceModel, OpensTheTracesOfAllRanksOfABlock) {
  const fs::path folder =
      fs::temp_directory_path() / ("steplens-ranks-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  write_trace(folder / "trace.slt", two_steps().trace());
  write_trace(folder / "trace.rank1.slt", two_steps().trace());
  LoadProgress progress;
  EXPECT_EQ(load_trace_model(folder / "trace.slt", progress)->num_operations, 16);
  EXPECT_EQ(read_any_trace(folder / "trace.slt", progress).gpu_ops.size(), 16U);
  fs::remove_all(folder);
}

TEST(TraceModel, JoinsOperationsOfAPhaseAndOfAModule) {
  const auto model = make_trace_model(two_steps().trace());
  const Lane* phases = find_lane(*model, LaneKind::kPhases);
  ASSERT_NE(phases, nullptr);
  EXPECT_THAT(names_of(*model, phases->rows[0]),
              ElementsAre("forward", "optimizer", "forward", "optimizer"));
  EXPECT_EQ(phases->rows[0].slices()[0].start_ns, 100);
  EXPECT_EQ(phases->rows[0].slices()[0].end_ns, 500);
  const Lane* modules = find_lane(*model, LaneKind::kModules);
  ASSERT_NE(modules, nullptr);
  EXPECT_THAT(names_of(*model, modules->rows[0]),
              ElementsAre("block 0/mlp", "block 1/mlp", "block 0/mlp", "block 1/mlp"));
}

TEST(TraceModel, NestedRangesAreBelowEachOther) {
  const auto model = make_trace_model(two_steps().trace());
  const Lane* ranges = find_lane(*model, LaneKind::kRanges);
  ASSERT_EQ(ranges->rows.size(), 2U);
  EXPECT_THAT(names_of(*model, ranges->rows[0]), ElementsAre("step", "step"));
  EXPECT_THAT(names_of(*model, ranges->rows[1]), ElementsAre("forward"));
}

TEST(TraceModel, AStepBeginsWithItsFirstKernelOnTheDevice) {
  // The copies of the data phase, at 20 and 1020, do not open a step.
  const auto model = make_trace_model(two_steps().trace());
  EXPECT_THAT(model->step_bounds_ns, ElementsAre(100, 1100, 2000));
  EXPECT_EQ(model->origin_ns(1), 1100);
}

TEST(TraceModel, FindsOperationsTheirLaunchAndBack) {
  const auto model = make_trace_model(two_steps().trace());
  // Row 5 is the second step's first kernel.
  const auto ref = find_operation(*model, 5);
  ASSERT_TRUE(ref.has_value());
  EXPECT_EQ(model->slice(*ref).start_ns, 1100);
  const auto launch = find_launch(*model, 5);
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(model->slice(*launch).start_ns, 1040);
  EXPECT_EQ(find_launched(*model, model->slice(*launch).row), 5U);
  EXPECT_FALSE(find_launch(*model, 0).has_value());
  EXPECT_FALSE(find_operation(*model, 8).has_value());
  EXPECT_EQ(model->bytes_of(4), 4096);
  EXPECT_EQ(model->bytes_of(5), 0);
}

TEST(TraceModel, OfNothingIsEmpty) {
  const auto model = make_trace_model(Trace());
  EXPECT_TRUE(model->lanes.empty());
  EXPECT_EQ(model->num_steps(), 0);
  EXPECT_EQ(model->origin_ns(3), 0);
}

TEST(TraceModel, ReversedTimesAreMoments) {
  TraceBuilder builder;
  builder.kernel("k", 100, 50, -1);
  const auto model = make_trace_model(builder.trace());
  EXPECT_EQ(model->lanes[0].rows[0].slices()[0], (Slice{100, 100, 2, 0}));
}

class OpenTrace : public testing::Test {
 protected:
  fs::path path(const std::string& name) {
    return fs::temp_directory_path() / ("steplens-open-" + std::to_string(::getpid()) + name);
  }
  void TearDown() override {
    for (const char* name : {".slt", ".json", ".sqlite"}) fs::remove(path(name));
  }
  std::string error_of(const fs::path& file) {
    try {
      LoadProgress progress;
      load_trace_model(file, progress);
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  }
};

// All that the trace says of an operation, by correlation id.
std::map<std::uint32_t, std::string> facts_of(const TraceModel& model) {
  std::map<std::uint32_t, std::string> facts;
  for (const Lane& lane : model.lanes) {
    if (!has_operations(lane.kind)) continue;
    for (const SliceRow& row : lane.rows) {
      for (const Slice& slice : row.slices()) {
        const OpDetail& op = model.ops[slice.row];
        facts[op.correlation_id] = fmt::format("{} {} {} {} {} {} {}", slice.start_ns, slice.end_ns,
                                               model.names.display(slice.name), lane.id,
                                               op.step_index, op.range, model.bytes_of(slice.row));
      }
    }
  }
  return facts;
}

TEST_F(OpenTrace, IsTheSameFromTheFileAndFromMemory) {
  const Trace trace = SyntheticTrace::make(70);
  write_trace(path(".slt"), trace);
  LoadProgress progress;
  const auto from_file = load_trace_model(path(".slt"), progress);
  const auto from_memory = make_trace_model(trace, 2);
  EXPECT_EQ(progress.done_ratio(), 1.0F);
  ASSERT_EQ(from_file->lanes.size(), from_memory->lanes.size());
  for (std::size_t i = 0; i < from_file->lanes.size(); ++i) {
    EXPECT_EQ(from_file->lanes[i].title, from_memory->lanes[i].title);
    ASSERT_EQ(from_file->lanes[i].rows.size(), from_memory->lanes[i].rows.size());
    for (std::size_t row = 0; row < from_file->lanes[i].rows.size(); ++row) {
      EXPECT_TRUE(std::ranges::equal(from_file->lanes[i].rows[row].slices(),
                                     from_memory->lanes[i].rows[row].slices()));
    }
  }
  EXPECT_EQ(facts_of(*from_file), facts_of(*from_memory));
  EXPECT_EQ(from_file->step_bounds_ns, from_memory->step_bounds_ns);
  // Nothing is dropped: every operation of the trace is a slice.
  std::map<std::uint32_t, std::int64_t> expected;
  for (const GpuOp& op : trace.gpu_ops) expected[op.correlation_id] = op.start_ns;
  EXPECT_EQ(facts_of(*from_file).size(), expected.size());
}

TEST_F(OpenTrace, TakesAtMost64BytesAnOperation) {
  write_trace(path(".slt"), SyntheticTrace::make(200));
  LoadProgress progress;
  const auto model = load_trace_model(path(".slt"), progress);
  std::size_t num_slices = 0;
  for (const Lane& lane : model->lanes) num_slices += lane.num_slices();
  EXPECT_LE(static_cast<double>(model->num_bytes()) / static_cast<double>(num_slices), 64);
}

TEST_F(OpenTrace, ACutFileOpensAsFarAsItGoesAndSaysSo) {
  write_trace(path(".slt"), SyntheticTrace::make(140));
  fs::resize_file(path(".slt"), fs::file_size(path(".slt")) / 2);
  LoadProgress progress;
  const auto model = load_trace_model(path(".slt"), progress);
  EXPECT_GT(model->num_operations, 0);
  ASSERT_FALSE(model->banners.empty());
  EXPECT_THAT(model->banners[0], HasSubstr("breaks off"));
}

TEST_F(OpenTrace, ADamagedPartIsLeftOutAndSaid) {
  std::string file = encode_trace(SyntheticTrace::make(140));
  const ChunkList list = list_chunks(std::as_bytes(std::span(file)), "x");
  for (const ChunkPlace& chunk : list.chunks) {
    if (chunk.header.table != TableId::kGpuOp) continue;
    file[chunk.offset + sizeof(ChunkHeader) + 100] ^= 1;
    break;
  }
  std::ofstream(path(".slt"), std::ios::binary) << file;
  LoadProgress progress;
  const auto model = load_trace_model(path(".slt"), progress);
  ASSERT_EQ(model->banners.size(), 1U);
  EXPECT_EQ(model->banners[0], "1 part of the trace is damaged and left out.");
  std::size_t num_drawn = 0;
  for (const Lane& lane : model->lanes) {
    if (has_operations(lane.kind)) num_drawn += lane.num_slices();
  }
  EXPECT_EQ(num_drawn, 140U * 1100U - kMaxChunkRows);
}

TEST_F(OpenTrace, OpensChromeJsonToo) {
  write_chrome_json(path(".json"), two_steps().trace());
  LoadProgress progress;
  const auto model = load_trace_model(path(".json"), progress);
  const Lane* stream = find_lane(*model, LaneKind::kStream, 7);
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(stream->num_slices(), 6U);
  EXPECT_EQ(model->num_steps(), 2);
}

TEST_F(OpenTrace, SaysClearlyWhatItCannotOpen) {
  EXPECT_THAT(error_of(path(".slt")), HasSubstr("cannot read: No such file"));
  EXPECT_THAT(error_of(fs::temp_directory_path()), HasSubstr("a folder, and no trace"));
  std::ofstream(path(".slt")) << "hello";
  EXPECT_THAT(error_of(path(".slt")), HasSubstr("no trace: takes trace.slt, Chrome"));
  std::ofstream(path(".json")) << "{\"a\": ";
  EXPECT_THAT(error_of(path(".json")), HasSubstr(path(".json").string()));
}

TEST_F(OpenTrace, CanBeCancelled) {
  write_trace(path(".slt"), SyntheticTrace::make(5));
  LoadProgress progress;
  progress.cancel();
  EXPECT_THROW(load_trace_model(path(".slt"), progress), ConfigError);
  write_chrome_json(path(".json"), SyntheticTrace::make(10));
  EXPECT_THROW(load_trace_model(path(".json"), progress), ConfigError);
}

TEST_F(OpenTrace, TellsHowFarAnImportIs) {
  write_chrome_json(path(".json"), SyntheticTrace::make(10));
  LoadProgress progress;
  load_trace_model(path(".json"), progress);
  EXPECT_EQ(progress.num_total_rows, fs::file_size(path(".json")));
  EXPECT_GT(progress.done_ratio(), 0.5F);
}

}  // namespace
}  // namespace steplens
