#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/reports/export_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/files.h"
#include "reports/export/chrome_json.h"
#include "reports/export/lanes.h"
#include "reports/export/utf8.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ExportChrome : public testing::Test {
 protected:
  // Writes and parses; `text_` is the file.
  std::vector<json> events_of(const Trace& trace) {
    const fs::path path = folder_.path() / "trace.json";
    write_chrome_json(path, trace);
    text_ = read_file(path);
    document_ = json::parse(text_);
    return document_["traceEvents"].get<std::vector<json>>();
  }

  static std::vector<json> of_category(const std::vector<json>& events, std::string_view category) {
    std::vector<json> found;
    for (const json& event : events) {
      if (event.value("cat", "") == category) found.push_back(event);
    }
    return found;
  }

  // "GPU 0: NVIDIA H200 / stream 7" of each event's process and track.
  static std::map<std::pair<int, int>, std::string> tracks_of(const std::vector<json>& events) {
    std::map<int, std::string> processes;
    std::map<std::pair<int, int>, std::string> tracks;
    for (const json& event : events) {
      const int pid = event["pid"];
      if (event["name"] == "process_name") processes[pid] = event["args"]["name"];
      if (event["name"] == "thread_name") {
        tracks[{pid, event["tid"]}] =
            processes[pid] + " / " + event["args"]["name"].get<std::string>();
      }
    }
    return tracks;
  }

  TemporaryFolder folder_;
  std::string text_;
  json document_;
};

TEST_F(ExportChrome, WritesTimesAsDecimalsOfIntegers) {
  TraceBuilder builder;
  builder.kernel("aten::mm", 1'234'567'890'123'456, 1'234'567'890'123'463, 0);
  const std::vector<json> kernels = of_category(events_of(builder.trace()), "kernel");
  ASSERT_THAT(kernels, SizeIs(1));
  // As a double 1234567890123.456 us would be 1234567890123.4561.
  EXPECT_THAT(text_, HasSubstr(R"("ts":1234567890123.456,"dur":0.007,)"));
  EXPECT_EQ(kernels[0]["args"]["start_ns"], 1'234'567'890'123'456);
  EXPECT_EQ(kernels[0]["args"]["duration_ns"], 7);
}

TEST_F(ExportChrome, ShiftsTimesBeforeTheStartAndSaysSo) {
  TraceBuilder builder;
  builder.trace().info["start_unix_ns"] = 5'000;
  builder.kernel("aten::mm", -1'500, -1'000, 0);
  builder.kernel("aten::mm", 100, 200, 0);
  const std::vector<json> kernels = of_category(events_of(builder.trace()), "kernel");
  EXPECT_EQ(kernels[0]["ts"], 0.0);
  EXPECT_EQ(kernels[0]["args"]["start_ns"], -1'500);
  EXPECT_EQ(kernels[1]["ts"], 1.6);
  EXPECT_EQ(document_["baseTimeNanoseconds"], 3'500);
}

TEST_F(ExportChrome, GivesEachStreamAndThreadATrackOfTheirProcess) {
  const std::vector<json> events = events_of(two_launches());
  const auto tracks = tracks_of(events);
  std::map<std::string, std::string> track_of_name;
  for (const json& event : events) {
    if (event["ph"] == "X") track_of_name[event["name"]] = tracks.at({event["pid"], event["tid"]});
  }
  EXPECT_EQ(track_of_name["mm_kernel"], "GPU 0: NVIDIA H200 / stream 7");
  EXPECT_EQ(track_of_name["Memcpy HtoD (Pinned -> Device)"], "GPU 0: NVIDIA H200 / stream 20");
  EXPECT_EQ(track_of_name["forward"], "host / main");
  EXPECT_EQ(track_of_name["cudaLaunchKernel"], "host / main");
  EXPECT_EQ(track_of_name["ProfilerStep#12"], "host / steps");
  EXPECT_EQ(track_of_name["stream"], "host / synchronization");
}

// Three branches of a graph, each with a stream of its own; one sends gradients.
TEST_F(ExportChrome, GivesAllBranchesOfAGraphTwoTracks) {
  TraceBuilder builder;
  builder.kernel("eager", 0, 100, 0);
  const auto node = [&](const char* name, std::int64_t start_ns, std::uint32_t stream) {
    GpuOp& op = builder.kernel(name, start_ns, start_ns + 100, 0);
    op.graph_node_id = 77;
    op.stream_id = stream;
  };
  node("gemm", 200, 7);
  node("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 250, 40);
  node("add", 260, 41);  // Overlaps the product.
  node("gelu", 400, 42);
  const std::vector<json> events = events_of(builder.trace());
  const auto tracks = tracks_of(events);
  std::map<std::string, std::string> track_of_name;
  std::map<std::string, int> stream_of_name;
  for (const json& event : of_category(events, "kernel")) {
    track_of_name[event["name"]] = tracks.at({event["pid"], event["tid"]});
    stream_of_name[event["name"]] = event["args"]["stream"];
  }
  const std::string device = "GPU 0: NVIDIA H200 / ";
  EXPECT_EQ(track_of_name["eager"], device + "stream 7");
  EXPECT_EQ(track_of_name["gemm"], device + "graph");
  EXPECT_EQ(track_of_name["add"], device + "graph (overlap 2)");
  EXPECT_EQ(track_of_name["gelu"], device + "graph");
  EXPECT_EQ(track_of_name["ncclDevKernel_AllReduce_Sum_f32_RING_LL"], device + "communication");
  EXPECT_EQ(stream_of_name["add"], 41);
  // Nothing else is on the device: host, its thread and steps aside.
  EXPECT_EQ(std::ranges::count_if(
                tracks, [&](const auto& track) { return track.second.starts_with(device); }),
            4);
}

TEST_F(ExportChrome, DrawsAnArrowFromLaunchToKernel) {
  const std::vector<json> events = events_of(two_launches());
  std::map<int, std::vector<json>> arrows;
  for (const json& event : of_category(events, "ac2g")) arrows[event["id"]].push_back(event);
  ASSERT_THAT(arrows, SizeIs(2));
  ASSERT_THAT(arrows[1], SizeIs(2));
  EXPECT_EQ(arrows[1][0]["ph"], "s");
  EXPECT_EQ(arrows[1][0]["ts"], 0.2);  // The call's start,
  EXPECT_EQ(arrows[1][1]["ph"], "f");
  EXPECT_EQ(arrows[1][1]["ts"], 1.0);  // the kernel's start.
  EXPECT_EQ(arrows[1][1]["bp"], "e");
}

TEST_F(ExportChrome, GivesEachKernelOfAGraphAnArrowOfItsOwn) {
  TraceBuilder builder;
  Api& launch = builder.api("cudaGraphLaunch", 10, 20);
  launch.correlation_id = 99;
  for (int i = 0; i < 3; ++i)
    builder.kernel("k", 100 + 10 * i, 110 + 10 * i, 0).correlation_id = 99;
  std::set<int> ids;
  for (const json& event : of_category(events_of(builder.trace()), "ac2g"))
    ids.insert(event["id"].get<int>());
  EXPECT_THAT(ids, ElementsAre(1, 2, 3));
}

TEST_F(ExportChrome, OverlapsGoToFurtherTracksAndNothingIsLost) {
  TraceBuilder builder;
  builder.kernel("a", 0, 100, 0);
  builder.kernel("b", 90, 150, 0);   // Launched early, by its predecessor: overlaps a,
  builder.kernel("c", 95, 97, 0);    // lies within both,
  builder.kernel("d", 150, 160, 0);  // follows.
  const std::vector<json> events = events_of(builder.trace());
  const auto tracks = tracks_of(events);
  std::map<std::string, std::string> track_of_name;
  for (const json& event : of_category(events, "kernel")) {
    track_of_name[event["name"]] = tracks.at({event["pid"], event["tid"]});
  }
  EXPECT_EQ(track_of_name["a"], "GPU 0: NVIDIA H200 / stream 7");
  EXPECT_EQ(track_of_name["b"], "GPU 0: NVIDIA H200 / stream 7 (overlap 2)");
  EXPECT_EQ(track_of_name["c"], "GPU 0: NVIDIA H200 / stream 7 (overlap 3)");
  EXPECT_EQ(track_of_name["d"], "GPU 0: NVIDIA H200 / stream 7");
}

// What viewers demand of complete events: those of one track nest or follow each other.
TEST_F(ExportChrome, SlicesOfATrackNeverCross) {
  std::mt19937 generator(3);
  const auto random = [&](std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(generator);
  };
  TraceBuilder builder;
  for (int i = 0; i < 300; ++i) {
    const auto start_ns = random(5'000);
    builder.kernel("k" + std::to_string(i), start_ns, start_ns + random(300), 0).stream_id =
        static_cast<std::uint32_t>(random(3));
    builder.api("cudaLaunchKernel", start_ns, start_ns + random(300));
    builder.open("r", start_ns, start_ns + random(300));
  }
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> open;
  int num_slices = 0;
  for (const json& event : events_of(builder.trace())) {
    if (event["ph"] != "X") continue;
    ++num_slices;
    const std::int64_t start_ns = event["args"]["start_ns"];
    const std::int64_t end_ns = start_ns + event["args"]["duration_ns"].get<std::int64_t>();
    auto& stack = open[{event["pid"], event["tid"]}];
    while (!stack.empty() && stack.back().second <= start_ns) stack.pop_back();
    if (!stack.empty()) {
      ASSERT_LE(end_ns, stack.back().second);
    }
    stack.emplace_back(start_ns, end_ns);
  }
  EXPECT_EQ(num_slices, 900);
}

TEST_F(ExportChrome, EscapesNamesThatAreNoText) {
  TraceBuilder builder;
  builder.kernel("a\"b\\c\n\x01", 0, 1, 0);
  builder.kernel("bad \xFF\xC3(", 2, 3, 0);
  builder.open("r\t\"", 0, 5);
  const std::vector<json> kernels = of_category(events_of(builder.trace()), "kernel");
  EXPECT_EQ(kernels[0]["name"], "a\"b\\c\n\x01");
  EXPECT_EQ(kernels[1]["name"], "bad \xEF\xBF\xBD\xEF\xBF\xBD(");
}

TEST_F(ExportChrome, HasTheCountersAndTheBytesOfTheAllocator) {
  TraceBuilder builder;
  Trace& trace = builder.trace();
  trace.counter_tracks.push_back({.name = builder.text("power"), .unit = builder.text("W")});
  trace.counter_samples.push_back({.time_ns = 1'000, .value = 431.25, .track = 0});
  trace.allocs = {{.time_ns = 10, .bytes = 300, .action = AllocAction::kFree},  // From before.
                  {.time_ns = 20, .bytes = 512, .action = AllocAction::kAlloc},
                  {.time_ns = 30, .bytes = 512, .action = AllocAction::kFree}};
  std::vector<json> counters;
  for (const json& event : events_of(trace)) {
    if (event["ph"] == "C") counters.push_back(event);
  }
  ASSERT_THAT(counters, SizeIs(4));
  EXPECT_EQ(counters[0]["name"], "power");
  EXPECT_EQ(counters[0]["args"]["W"], 431.25);
  EXPECT_EQ(counters[1]["name"], "allocated_bytes");
  EXPECT_EQ(counters[1]["args"]["B"], 0);
  EXPECT_EQ(counters[2]["args"]["B"], 512);
  EXPECT_EQ(counters[3]["args"]["B"], 0);
}

TEST_F(ExportChrome, OperatorsOfACpuAreOnTheirThread) {
  TraceBuilder builder;
  builder.cpu_operator("aten::mm", 10, 20, 0);
  const std::vector<json> events = events_of(builder.trace());
  const std::vector<json> operators = of_category(events, "cpu_op");
  ASSERT_THAT(operators, SizeIs(1));
  EXPECT_EQ(tracks_of(events).at({operators[0]["pid"], operators[0]["tid"]}), "host / main");
}

TEST_F(ExportChrome, AnEmptyTraceIsValid) { EXPECT_THAT(events_of(Trace()), SizeIs(2)); }

TEST_F(ExportChrome, AFailureLeavesNothing) {
  EXPECT_THROW(write_chrome_json(folder_.path() / "none" / "trace.json", Trace()), ConfigError);
  EXPECT_THROW(write_chrome_json(folder_.path(), Trace()), ConfigError);
  EXPECT_THAT(std::vector(fs::directory_iterator(folder_.path()), fs::directory_iterator()),
              IsEmpty());
}

TEST(AssignLanes, ANestedSliceSharesTheLaneOnlyWhereAsked) {
  std::vector<LaneSlice> slices = {{.start_ns = 2, .end_ns = 4}, {.start_ns = 0, .end_ns = 10}};
  EXPECT_THAT(assign_lanes(slices, Overlap::kNested), ElementsAre(0, 0));
  EXPECT_EQ(slices[0].end_ns, 10);
  EXPECT_THAT(assign_lanes(slices, Overlap::kNone), ElementsAre(0, 1));
}

TEST(ValidUtf8, ReplacesOnlyWhatIsNone) {
  EXPECT_EQ(valid_utf8("a\xC3\xA9\xF0\x9F\x98\x80"), "a\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(valid_utf8("\xC0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // Overlong.
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // Surrogate.
  EXPECT_EQ(valid_utf8("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // Cut.
}

}  // namespace
}  // namespace steplens
