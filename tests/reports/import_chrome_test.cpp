#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/harness/synthetic_trace.h"
#include "tests/reports/export_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "harness/error.h"
#include "reports/export/chrome_json.h"
#include "reports/export/op_names.h"
#include "reports/export/utf8.h"
#include "reports/import/chrome_event.h"
#include "reports/import/chrome_import.h"
#include "reports/import/tolerant_json.h"
#include "reports/import/trace_assembler.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ImportChrome : public testing::Test {
 protected:
  fs::path write(std::string_view text) {
    const fs::path path = folder_.path() / "in.json";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  Trace import_text(std::string_view text) { return import_chrome_json(write(text)); }
  Trace import_events(std::string_view events) {
    return import_text("{\"traceEvents\":[" + std::string(events) + "]}");
  }
  Trace round_trip(const Trace& trace) {
    const fs::path path = folder_.path() / "trace.json.gz";
    write_chrome_json(path, trace);
    return import_chrome_json(path);
  }

  TemporaryFolder folder_;
};

std::string range_name(const Trace& trace, std::uint32_t range) {
  return range == kNoRow ? "" : range_paths(trace)[range];
}

// As torch.profiler writes it: absolute microseconds, floats, one step with a forward.
constexpr std::string_view kKineto = R"json({
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150000000000}],
  "baseTimeNanoseconds": 1700000000000000000,
  "displayTimeUnit": "ms",
  "traceEvents": [
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 900, "tid": 901,
   "ts": 5000.000, "dur": 100.500, "args": {"External id": 1, "Ev Idx": 0}},
  {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 900, "tid": 901,
   "ts": 5010, "dur": 40, "args": {"External id": 2, "Input Dims": [[4, 8], []], "Inputs": ["", "2"]}},
  {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 900, "tid": 901,
   "ts": 5011.25, "dur": 30.5, "args": {"External id": 3}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 900, "tid": 901,
   "ts": 5020.001, "dur": 4.999, "args": {"External id": 3, "cbid": 211, "correlation": 42}},
  {"ph": "s", "id": 42, "pid": 900, "tid": 901, "ts": 5020.001, "cat": "ac2g", "name": "ac2g"},
  {"ph": "X", "cat": "kernel", "name": "void gemm<float>(float*)", "pid": 0, "tid": 7,
   "ts": 5060.125, "dur": 12.375, "args": {"queued": 0, "device": 0, "context": 1, "stream": 7,
   "correlation": 42, "registers per thread": 90, "shared memory": 2048, "blocks per SM": 0.5,
   "grid": [2, 3, 1], "block": [256, 1, 1], "est. achieved occupancy %": 12}},
  {"ph": "f", "id": 42, "pid": 0, "tid": 7, "ts": 5060.125, "cat": "ac2g", "name": "ac2g", "bp": "e"},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7,
   "ts": 5080, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 50, "bytes": 4096}},
  {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7,
   "ts": 5090, "dur": 1, "args": {"device": 0, "stream": 7, "correlation": 51, "bytes": 512}},
  {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#3", "pid": 0, "tid": 7,
   "ts": 5060, "dur": 40},
  {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 900, "tid": 901,
   "ts": 5015, "args": {"Total Reserved": 0, "Total Allocated": 1024, "Bytes": -1024,
   "Addr": 139000000000000, "Device Id": 0, "Device Type": 1}},
  {"name": "thread_name", "ph": "M", "ts": 5000, "pid": 900, "tid": 901, "args": {"name": "python"}},
  {"ph": "C", "name": "queue", "pid": 900, "ts": 5001, "args": {"Queue Length": 3}}
  ]})json";

TEST_F(ImportChrome, ReadsKineto) {
  const Trace trace = import_text(kKineto);
  EXPECT_EQ(trace.info["start_unix_ns"], 1'700'000'000'005'000'000);
  ASSERT_THAT(trace.steps, ElementsAre(Step{0, 100'500, 3}));
  ASSERT_THAT(trace.gpu_ops, SizeIs(3));
  const GpuOp& kernel = trace.gpu_ops[0];
  EXPECT_EQ(kernel.start_ns, 60'125);
  EXPECT_EQ(kernel.end_ns, 72'500);
  EXPECT_EQ(trace.text(kernel.name), "void gemm<float>(float*)");
  EXPECT_EQ(kernel.stream_id, 7U);
  EXPECT_EQ(kernel.correlation_id, 42U);
  EXPECT_EQ(trace.launch_shapes[kernel.launch_shape],
            (LaunchShape{2, 3, 1, 256, 1, 1, 90, 2048, 0}));
  EXPECT_EQ(range_name(trace, kernel.range), "step/aten::linear/aten::addmm");
  EXPECT_EQ(kernel.step_index, 0);
  EXPECT_EQ(kernel.attribution, Attribution::kRange);
  EXPECT_EQ(trace.gpu_ops[1].kind, GpuOpKind::kCopy);
  EXPECT_EQ(trace.gpu_ops[1].copy_kind, CopyKind::kHostToDevice);
  EXPECT_EQ(trace.gpu_ops[1].source_memory, MemoryKind::kPageable);
  EXPECT_EQ(trace.gpu_ops[1].target_memory, MemoryKind::kDevice);
  EXPECT_EQ(trace.gpu_ops[1].bytes, 4096);
  EXPECT_EQ(trace.gpu_ops[2].kind, GpuOpKind::kSet);
  ASSERT_THAT(trace.apis, SizeIs(1));
  EXPECT_EQ(trace.apis[0].start_ns, 20'001);
  EXPECT_EQ(trace.apis[0].end_ns, 25'000);
  EXPECT_THAT(trace.range_instances, SizeIs(3));
  ASSERT_THAT(trace.threads, SizeIs(1));
  EXPECT_EQ(trace.threads[0].tid, 901U);
  EXPECT_EQ(trace.text(trace.threads[0].name), "python");
  EXPECT_EQ(trace.text(trace.devices.at(0).name), "NVIDIA H200");
  ASSERT_THAT(trace.allocs, SizeIs(1));
  EXPECT_EQ(trace.allocs[0].action, AllocAction::kFree);
  EXPECT_EQ(trace.allocs[0].bytes, 1024);
  EXPECT_EQ(trace.allocs[0].address, 139'000'000'000'000U);
  ASSERT_THAT(trace.counter_samples, SizeIs(1));
  EXPECT_EQ(trace.counter_samples[0].value, 3);
  EXPECT_EQ(trace.text(trace.counter_tracks[0].name), "queue Queue Length");
  EXPECT_EQ(trace.quality.at("without_launch"), 2);  // The copy and the set.
  EXPECT_FALSE(has_lost_data(trace.quality));
}

TEST_F(ImportChrome, ReadsGzip) {
  const fs::path path = folder_.path() / "kineto.json.gz";
  gzFile file = ::gzopen(path.c_str(), "wb");
  ASSERT_EQ(::gzwrite(file, kKineto.data(), kKineto.size()), std::ssize(kKineto));
  ::gzclose(file);
  EXPECT_THAT(import_chrome_json(path).gpu_ops, SizeIs(3));
}

TEST_F(ImportChrome, ReadsAbsoluteTimesExactly) {
  const Trace trace = import_text(
      R"([{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":1700000000000000.125,"dur":1},
          {"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":"1700000000000001.126","dur":"0.001"}])");
  EXPECT_EQ(trace.info["start_unix_ns"], 1'700'000'000'000'000'125);
  EXPECT_EQ(trace.gpu_ops[1].start_ns, 1'001);
  EXPECT_EQ(trace.gpu_ops[1].end_ns, 1'002);
}

TEST(ParseUs, RoundsDecimalsWithoutDouble) {
  const auto parsed = [](std::string_view text) {
    std::int64_t ns = -1;
    return parse_us(text, ns) ? ns : -1;
  };
  EXPECT_EQ(parsed("12"), 12'000);
  EXPECT_EQ(parsed("12.3"), 12'300);
  EXPECT_EQ(parsed("4.999999999999"), 5'000);
  EXPECT_EQ(parsed("1234567890123.456"), 1'234'567'890'123'456);
  EXPECT_EQ(parsed("1.5e3"), 1'500'000);
  EXPECT_EQ(parsed(""), -1);
  EXPECT_EQ(parsed("."), -1);
  EXPECT_EQ(parsed("1.2x"), -1);
  EXPECT_EQ(parsed("99999999999999999999"), -1);
  EXPECT_EQ(parsed("9300000000000000"), -1);  // Beyond 64 bits of nanoseconds.
  std::int64_t ns = 0;
  EXPECT_TRUE(parse_us("-0.5", ns));
  EXPECT_EQ(ns, -500);
}

TEST_F(ImportChrome, MendsWhatProfilersAreKnownFor) {
  const Trace trace = import_events(
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\nb\x01 \"quoted\" c:\\x \xFF\",\"pid\":0,"
      "\"tid\":7,\"ts\":1,\"dur\":2,\"args\":{\"memory bandwidth (GB/s)\":inf,\"x\":-nan,"
      "\"y\":NaN,\"stream\":7,},},");
  ASSERT_THAT(trace.gpu_ops, SizeIs(1));
  EXPECT_EQ(trace.text(trace.gpu_ops[0].name), "a\nb\x01 \"quoted\" c:\\x \xEF\xBF\xBD");
  EXPECT_EQ(trace.gpu_ops[0].stream_id, 7U);
  EXPECT_GE(trace.info["num_mended"], 10);
}

// "key:a string:b integer:3 {": every token with its text.
std::string tokens_of(TolerantJson& source) {
  using Token = TolerantJson::Token;
  std::string text;
  while (true) {
    const auto with_text = [&](std::string_view kind) {
      text += fmt::format("{}:{} ", kind, source.text());
    };
    switch (source.next()) {
      case Token::kBeginObject: text += "{ "; break;
      case Token::kEndObject: text += "} "; break;
      case Token::kBeginArray: text += "[ "; break;
      case Token::kEndArray: text += "] "; break;
      case Token::kKey: with_text("key"); break;
      case Token::kString: with_text("string"); break;
      case Token::kInteger: with_text("integer"); break;
      case Token::kDecimal: with_text("decimal"); break;
      case Token::kWord: with_text("word"); break;
      case Token::kEnd: return text + "end";
      case Token::kCut: return text + "cut";
      case Token::kError: return text + "error";
    }
  }
}

std::string tokens_of(std::string_view text) {
  TolerantJson source(text);
  return tokens_of(source);
}

TEST(TolerantJson, ReadsValidJson) {
  TolerantJson source(
      std::string_view(R"({"a\"b" : ["\\", "\ud83d\ude00\u00e9\n", "c, d: {e}", -1.5e-3, 1E5, 0, -7,
    true, null, []], "f":{}} what follows)"));
  EXPECT_EQ(tokens_of(source),
            "{ key:a\"b [ string:\\ string:\xF0\x9F\x98\x80\xC3\xA9\n string:c, d: {e} "
            "decimal:-1.5e-3 decimal:1E5 integer:0 integer:-7 word:true word:null [ ] ] key:f { } "
            "} end");
  EXPECT_EQ(source.num_mended(), 0);
}

TEST(TolerantJson, AgreesWithAStrictParserOnStringsAcrossItsWindow) {
  // Strings of every length around the size of a read, so that each kind of character lies once
  // across its end.
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "strings.json";
  nlohmann::json strings = nlohmann::json::array();
  std::string text(1'048'400, 'x');
  strings.push_back(text);
  for (int i = 0; i < 40; ++i) {
    strings.push_back("\xF0\x9F\x98\x80 \xC3\xA9\"\\\n\x01" + std::string(i % 7, 'y'));
  }
  std::ofstream(path) << strings.dump(1, ' ', /*ensure_ascii=*/true) << strings.dump();
  TolerantJson source(path);
  ASSERT_EQ(source.next(), TolerantJson::Token::kBeginArray);
  for (const nlohmann::json& string : strings) {
    ASSERT_EQ(source.next(), TolerantJson::Token::kString);
    ASSERT_EQ(source.text(), string.get<std::string>());
  }
  EXPECT_EQ(source.next(), TolerantJson::Token::kEndArray);
  EXPECT_EQ(source.next(), TolerantJson::Token::kEnd);
  EXPECT_EQ(source.num_mended(), 0);
}

TEST(TolerantJson, MendsCommasAndWordsAndRefusesTheRest) {
  EXPECT_EQ(tokens_of(R"({"a":[1,],"b":-Infinity,})"),
            "{ key:a [ integer:1 ] key:b word:null } end");
  EXPECT_EQ(tokens_of("[1 2]"), "[ integer:1 error");
  EXPECT_EQ(tokens_of("[01]"), "[ error");
  EXPECT_EQ(tokens_of("[1.]"), "[ error");
  EXPECT_EQ(tokens_of("{1:2}"), "{ error");
  EXPECT_EQ(tokens_of("[1}"), "[ integer:1 error");
  EXPECT_EQ(tokens_of("[,1]"), "[ error");
  EXPECT_EQ(tokens_of("[1,2"), "[ integer:1 integer:2 cut");
  EXPECT_EQ(tokens_of(R"({"a": "b)"), "{ key:a cut");
  EXPECT_EQ(tokens_of(""), "cut");
}

TEST_F(ImportChrome, ATraceThatEndsInTheMiddleGivesWhatItHas) {
  const std::string text(kKineto.substr(0, kKineto.find("\"gpu_memset\"")));
  const Trace trace = import_text(text);
  EXPECT_THAT(trace.gpu_ops, SizeIs(2));
  EXPECT_EQ(trace.quality.at("truncated"), 1);
  EXPECT_TRUE(has_lost_data(trace.quality));
  // The bracket at the end of a list is optional by the format.
  EXPECT_FALSE(has_lost_data(
      import_text(R"([{"ph":"X","cat":"kernel","name":"a","ts":1,"dur":1})").quality));
}

TEST_F(ImportChrome, RefusesWhatIsNoTrace) {
  EXPECT_THROW(import_text("{\"a\":1}"), ConfigError);
  EXPECT_THROW(import_text(""), ConfigError);
  EXPECT_THROW(import_text("no json"), ConfigError);
  EXPECT_THROW(import_events("{\"ph\":\"X\"} {\"ph\":\"X\"}, 7"), ConfigError);
  EXPECT_THROW(import_chrome_json(folder_.path() / "none.json"), ConfigError);
  EXPECT_THROW(import_chrome_json(folder_.path()), ConfigError);
}

TEST_F(ImportChrome, CountsEventsThatCannotBe) {
  const Trace trace = import_events(
      R"({"ph":"X","cat":"cuda_runtime","name":"r","ts":7200000000,"dur":1,"pid":1,"tid":1},
         {"ph":"X","cat":"kernel","name":"zero","ts":0,"dur":1,"pid":0,"tid":7},
         {"ph":"X","cat":"kernel","name":"negative","ts":7200000001,"dur":-0.5,"pid":0,"tid":7},
         {"ph":"X","cat":"kernel","name":"no time","pid":0,"tid":7},
         {"ph":"X","cat":"kernel","name":"good","ts":7200000002,"dur":1,"pid":0,"tid":7})");
  ASSERT_THAT(trace.gpu_ops, SizeIs(1));
  EXPECT_EQ(trace.text(trace.gpu_ops[0].name), "good");
  EXPECT_EQ(trace.quality.at("zero_timestamps"), 1);
  EXPECT_EQ(trace.quality.at("end_before_start"), 1);
  EXPECT_EQ(trace.quality.at("unknown_kind"), 1);
}

TEST_F(ImportChrome, PairsBeginAndEnd) {
  const Trace trace = import_events(
      R"({"ph":"B","name":"outer","ts":1,"pid":1,"tid":2},{"ph":"B","name":"inner","ts":2,"pid":1,"tid":2},
         {"ph":"E","ts":3,"pid":1,"tid":2},{"ph":"E","ts":4,"pid":1,"tid":2},
         {"ph":"B","name":"never closed","ts":5,"pid":1,"tid":2})");
  ASSERT_THAT(trace.range_instances, SizeIs(2));
  EXPECT_EQ(range_name(trace, trace.range_instances[1].range), "outer/inner");
  EXPECT_EQ(trace.range_instances[1].end_ns, 2'000);
  EXPECT_EQ(trace.quality.at("open_ranges"), 1);
}

TEST_F(ImportChrome, WithoutADeviceTheOutermostOperatorsAreTheOperations) {
  const Trace trace = import_events(
      R"({"ph":"X","cat":"user_annotation","name":"forward","ts":0,"dur":100,"pid":1,"tid":1},
         {"ph":"X","cat":"cpu_op","name":"aten::linear","ts":1,"dur":10,"pid":1,"tid":1},
         {"ph":"X","cat":"cpu_op","name":"aten::addmm","ts":2,"dur":5,"pid":1,"tid":1},
         {"ph":"X","cat":"cpu_op","name":"aten::relu","ts":11,"dur":3,"pid":1,"tid":1})");
  ASSERT_THAT(trace.gpu_ops, SizeIs(2));
  EXPECT_EQ(trace.text(trace.gpu_ops[0].name), "aten::linear");
  EXPECT_EQ(trace.gpu_ops[0].kind, GpuOpKind::kOperator);
  EXPECT_EQ(trace.gpu_ops[0].phase, Phase::kForward);
  EXPECT_EQ(trace.text(trace.gpu_ops[1].name), "aten::relu");
}

// ---- Round trips ----

void expect_equal_ops(const Trace& left, const Trace& right) {
  const auto sorted = [](const Trace& trace) {
    const std::vector<std::string> paths = range_paths(trace);
    std::vector<std::string> rows;
    for (const GpuOp& op : trace.gpu_ops) {
      const LaunchShape shape =
          op.launch_shape == kNoRow ? LaunchShape() : trace.launch_shapes[op.launch_shape];
      rows.push_back(fmt::format(
          "{} {} {} {} {} {} {} {} | {} {} {} {} {} | {} {} {} {} {} | {} {} {} {}", op.start_ns,
          op.end_ns, op.bytes, op.graph_node_id, valid_utf8(trace.text(op.name)), op.correlation_id,
          op.stream_id, op.range == kNoRow ? "" : paths[op.range], op.step_index,
          op.micro_step_index, name_of(op.kind), name_of(op.copy_kind), name_of(op.source_memory),
          name_of(op.target_memory), name_of(op.phase), name_of(op.attribution), op.device,
          op.launch_shape == kNoRow, shape.grid_x, shape.block_y, shape.static_shared_bytes,
          shape.dynamic_shared_bytes));
    }
    std::ranges::sort(rows);
    return rows;
  };
  EXPECT_EQ(sorted(left), sorted(right));
}

void expect_equal_apis(const Trace& left, const Trace& right) {
  const auto sorted = [](const Trace& trace) {
    std::vector<std::string> rows;
    for (const Api& api : trace.apis) {
      rows.push_back(fmt::format("{} {} {} {} {} {}", api.start_ns, api.end_ns,
                                 trace.text(api.name), api.correlation_id,
                                 trace.threads.at(api.thread).tid, api.return_value));
    }
    std::ranges::sort(rows);
    return rows;
  };
  EXPECT_EQ(sorted(left), sorted(right));
}

std::vector<std::string> sorted_ranges(const Trace& trace) {
  const std::vector<std::string> paths = range_paths(trace);
  std::vector<std::string> rows;
  for (const RangeInstance& instance : trace.range_instances) {
    rows.push_back(fmt::format(
        "{} {} {} {} {}", instance.start_ns, instance.end_ns, paths[instance.range],
        trace.text(trace.ranges[instance.range].domain), trace.threads.at(instance.thread).tid));
  }
  std::ranges::sort(rows);
  return rows;
}

TEST_F(ImportChrome, WhatWasExportedComesBack) {
  const Trace trace = SyntheticTrace::make(3);
  const Trace copy = round_trip(trace);
  expect_equal_ops(trace, copy);
  expect_equal_apis(trace, copy);
  EXPECT_EQ(sorted_ranges(trace), sorted_ranges(copy));
  EXPECT_EQ(trace.steps, copy.steps);
  EXPECT_EQ(trace.info, copy.info);
  EXPECT_EQ(trace.quality, copy.quality);
  ASSERT_EQ(trace.syncs.size(), copy.syncs.size());
  EXPECT_EQ(trace.syncs[1].end_ns, copy.syncs[1].end_ns);
  ASSERT_EQ(trace.threads.size(), copy.threads.size());
  EXPECT_EQ(trace.threads[1].tid, copy.threads[1].tid);
  EXPECT_EQ(trace.text(trace.threads[1].name), copy.text(copy.threads[1].name));
  EXPECT_EQ(copy.text(copy.devices.at(0).uuid), "GPU-0");
  // The allocator's bytes come back as counters.
  const std::size_t num_tracks = trace.counter_tracks.size();
  ASSERT_GE(copy.counter_tracks.size(), num_tracks);
  std::vector<CounterSample> samples = copy.counter_samples;
  std::erase_if(samples, [&](const CounterSample& sample) { return sample.track >= num_tracks; });
  EXPECT_EQ(trace.counter_samples, samples);
  EXPECT_EQ(copy.counter_samples.size() - samples.size(), trace.allocs.size());
}

TEST_F(ImportChrome, ASmallTraceComesBackAfterTimesBeforeTheStart) {
  Trace trace = two_launches();
  for (GpuOp& op : trace.gpu_ops) op.start_ns -= 10'000;
  const Trace copy = round_trip(trace);
  expect_equal_ops(trace, copy);
  EXPECT_EQ(copy.apis[1].range_instance, 0U);
  EXPECT_EQ(copy.range_instances[1].parent, 0U);
  EXPECT_EQ(trace.info, copy.info);
}

TEST_F(ImportChrome, StepsThatAreNotThereAreNone) {
  const Trace trace = import_text(
      R"json({"steplens":"{\"schema_version\":1,\"ts_offset_ns\":0,\"info\":{},\"quality\":{},
      \"threads\":[],\"devices\":[],\"counter_tracks\":[],\"op_names\":[]}","traceEvents":[
      {"ph":"X","cat":"kernel","name":"a","pid":2,"tid":7,"ts":1,"dur":1,"args":{"step_index":2}}]})json");
  ASSERT_THAT(trace.gpu_ops, SizeIs(1));
  EXPECT_EQ(trace.gpu_ops[0].step_index, -1);
}

TEST_F(ImportChrome, FuzzedNamesComeBack) {
  std::mt19937 random(11);
  const std::string_view pieces[] = {
      "a", "\"",  "\\", "\n", "\t",   "\x01", "\x7F", "é", "\\u0041", "\xF0\x9F\x98\x80",
      "{", "\",", ":",  "<",  "\xC3", "\xFF", "\r",   "]"};
  TraceBuilder builder;
  for (int i = 0; i < 500; ++i) {
    std::string name;
    for (std::size_t n = random() % 12; n > 0; --n) name += pieces[random() % std::size(pieces)];
    builder.kernel(name, i * 10, i * 10 + 5, -1);
    builder.api(name, i * 10, i * 10 + 5);
  }
  for (ThreadInfo& thread : builder.trace().threads) thread.name = builder.text("\"\xFF\n");
  const Trace copy = round_trip(builder.trace());
  ASSERT_THAT(copy.gpu_ops, SizeIs(500));
  ASSERT_THAT(copy.apis, SizeIs(500));
  for (std::size_t i = 0; i < 500; ++i) {
    const Trace& trace = builder.trace();
    EXPECT_EQ(copy.text(copy.gpu_ops[i].name), valid_utf8(trace.text(trace.gpu_ops[i].name)));
    EXPECT_EQ(copy.text(copy.apis[i].name), valid_utf8(trace.text(trace.apis[i].name)));
  }
}

TEST_F(ImportChrome, BytesAtRandomNeverCrash) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::string text(kKineto);
    for (std::size_t n = 1 + random() % 20; n > 0; --n) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    try {
      import_text(text);
    } catch (const ConfigError&) {
    }
  }
}

TEST(StepNumberOf, KnowsNamesOfSteps) {
  EXPECT_EQ(step_number_of("ProfilerStep#12"), 12);
  EXPECT_EQ(step_number_of("step 7"), 7);
  EXPECT_EQ(step_number_of("Iteration_3"), 3);
  EXPECT_EQ(step_number_of("step"), -1);
  EXPECT_EQ(step_number_of("stepping 3"), -2);
  EXPECT_EQ(step_number_of("step 3 of 4"), -2);
  EXPECT_EQ(step_number_of(""), -2);
}

}  // namespace
}  // namespace steplens
