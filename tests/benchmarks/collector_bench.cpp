// What tracing costs: ranges and buffer callbacks on the application's threads, decoding on our
// own.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/profilers/cupti_replay.h"
#include <benchmark/benchmark.h>

#include "profilers/cupti/activity_decoder.h"
#include "profilers/cupti/cupti_collector.h"
#include "profilers/trace/build_trace.h"
#include "profilers/trace/range_recorder.h"

namespace steplens {
namespace {

// As counted in an eager step of a 124M model.
constexpr int kKernelsPerStep = 1'074;
constexpr int kCopiesPerStep = 12;
constexpr int kSetsPerStep = 30;
constexpr int kKernelNames = 60;

// Runtime and driver call of each launch, then what it launched.
ActivityRecords step_records(std::uint64_t start_ns) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> texts;
    for (int i = 0; i < kKernelNames; ++i) {
      texts.push_back("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE" +
                      std::to_string(i) + "EEviT0_T1_");
    }
    return texts;
  }();
  ActivityRecords records;
  std::uint32_t id = 0;
  std::uint64_t now_ns = start_ns;
  const auto launch = [&] {
    ++id;
    now_ns += 10'000;
    records.add(api_record(now_ns + 1'000, now_ns + 4'000, id, CUPTI_ACTIVITY_KIND_DRIVER, 307));
    records.add(api_record(now_ns, now_ns + 5'000, id));
  };
  for (int i = 0; i < kKernelsPerStep; ++i) {
    launch();
    CUpti_ActivityKernel10 kernel =
        kernel_record(now_ns + 20'000, now_ns + 29'000, id,
                      names[static_cast<std::size_t>(i % kKernelNames)].c_str());
    kernel.gridX = 1 + i % 40;
    kernel.blockX = 128;
    records.add(kernel);
  }
  for (int i = 0; i < kCopiesPerStep; ++i) {
    launch();
    CUpti_ActivityMemcpy6 copy{};
    copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    copy.start = now_ns + 20'000;
    copy.end = now_ns + 21'000;
    copy.correlationId = id;
    records.add(copy);
  }
  for (int i = 0; i < kSetsPerStep; ++i) {
    launch();
    CUpti_ActivityMemset4 set{};
    set.kind = CUPTI_ACTIVITY_KIND_MEMSET;
    set.start = now_ns + 20'000;
    set.end = now_ns + 21'000;
    set.correlationId = id;
    records.add(set);
  }
  return records;
}

constexpr int kRecordsPerStep = 3 * (kKernelsPerStep + kCopiesPerStep + kSetsPerStep);

// One buffer asked for and handed over, as CUPTI does on the thread of the program. The buffers
// hold one step: CUPTI's real calls are a dozen times rarer. Pauses let the decoder fall asleep, as
// it does then; without them it is busy and need not be woken.
void request_and_complete(benchmark::State& state, std::chrono::microseconds pause) {
  CuptiReplay replay;
  const CuptiApi cupti = CuptiReplay::api();
  StringTable names;
  RangeRecorder ranges(names);
  CuptiCollector collector(cupti, names, ranges, {});
  collector.start();  // No window: records are decoded and passed over.
  const ActivityRecords step = step_records(1);
  std::vector<std::int64_t> costs_ns;
  costs_ns.reserve(1 << 16);
  std::int64_t num_refused = 0;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  for (auto _ : state) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0;
    std::size_t max_num_records = 0;
    const auto request_start = now();
    collector.request_buffer(&buffer, &size, &max_num_records);
    const auto request_end = now();
    if (buffer == nullptr) {
      ++num_refused;
      state.SetIterationTime(0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    std::memcpy(buffer, step.bytes().data(), step.bytes().size());
    const auto complete_start = now();
    collector.complete_buffer(nullptr, 0, buffer, step.bytes().size());
    const auto complete_end = now();
    const auto cost = (request_end - request_start) + (complete_end - complete_start);
    costs_ns.push_back(std::chrono::nanoseconds(cost).count());
    state.SetIterationTime(std::chrono::duration<double>(cost).count());
  }
  collector.stop();
  std::ranges::sort(costs_ns);
  const auto quantile = [&](double part) {
    const auto index = static_cast<std::size_t>(part * static_cast<double>(costs_ns.size()));
    return static_cast<double>(costs_ns[std::min(index, costs_ns.size() - 1)]);
  };
  state.counters["p50_ns"] = quantile(0.5);
  state.counters["p99.9_ns"] = quantile(0.999);
  state.counters["max_ns"] = static_cast<double>(costs_ns.back());
  state.counters["num_refused"] = static_cast<double>(num_refused);
}
BENCHMARK_CAPTURE(request_and_complete, decoder_asleep, std::chrono::microseconds(200))
    ->UseManualTime()
    ->Iterations(20'000);
BENCHMARK_CAPTURE(request_and_complete, decoder_busy, std::chrono::microseconds(0))
    ->UseManualTime()
    ->Iterations(20'000);

// Records of a window to rows. `kept`: the window is open.
void decode(benchmark::State& state, bool is_kept) {
  CuptiReplay replay;
  const CuptiApi cupti = CuptiReplay::api();
  StringTable names;
  ActivityRecords step = step_records(1'000'000);
  constexpr int kStepsPerDecoder = 10;
  for (auto _ : state) {
    ActivityDecoder decoder(cupti, names);
    for (int i = 0; i < kStepsPerDecoder; ++i) {
      decoder.decode(step.bytes().data(), step.bytes().size(),
                     is_kept ? 0 : std::numeric_limits<std::int64_t>::max());
    }
    benchmark::DoNotOptimize(decoder.records().gpu_ops.data());
  }
  state.SetItemsProcessed(state.iterations() * kStepsPerDecoder * kRecordsPerStep);
  state.SetBytesProcessed(state.iterations() * kStepsPerDecoder *
                          static_cast<std::int64_t>(step.bytes().size()));
  state.counters["records_per_step"] = kRecordsPerStep;
}
BENCHMARK_CAPTURE(decode, kept, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, before_window, false)->Unit(benchmark::kMillisecond);

void push_and_pop(benchmark::State& state, bool is_recording) {
  StringTable names;
  RangeRecorder recorder(names);
  recorder.set_recording(is_recording);
  recorder.push(0, "step");
  recorder.push(0, "forward");
  for (auto _ : state) {
    recorder.push(0, "attention");
    recorder.pop(0);
  }
}
BENCHMARK_CAPTURE(push_and_pop, recording, true)->Iterations(1'000'000);
BENCHMARK_CAPTURE(push_and_pop, not_recording, false)->Iterations(1'000'000);

// The floor of a pair: it reads the clock twice.
void read_clock_twice(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(unix_now_ns());
    benchmark::DoNotOptimize(unix_now_ns());
  }
}
BENCHMARK(read_clock_twice);

// Attribution of a window of ten steps, after its end.
void attribute(benchmark::State& state) {
  constexpr int kNumSteps = 10;
  constexpr std::int64_t kStepNs = 20'000'000;
  CuptiReplay replay;
  const CuptiApi cupti = CuptiReplay::api();
  StringTable names;
  static std::int64_t clock_ns = 0;
  clock_ns = 1'000'000;
  RangeRecorder recorder(names, [] { return clock_ns += 100; });
  recorder.set_recording(true);
  ActivityDecoder decoder(cupti, names);
  std::uint32_t num_ids = 0;
  for (int step = 0; step < kNumSteps; ++step) {
    recorder.push(0, "step");
    recorder.push(0, "forward");
    const std::int64_t start_ns = clock_ns;
    for (int module = 0; module < 100; ++module) {
      recorder.push(0, "block " + std::to_string(module % 12));
      clock_ns += 120'000;
      recorder.pop(0);
    }
    recorder.pop(0);
    recorder.pop(0);
    ActivityRecords records = step_records(static_cast<std::uint64_t>(start_ns));
    decoder.decode(records.bytes().data(), records.bytes().size(), 0);
    clock_ns = start_ns + kStepNs;
  }
  RawRecords raw = decoder.records();
  const RangeRecorder::Snapshot snapshot = recorder.snapshot();
  // Ids go on from step to step, and the thread is the one that recorded.
  for (std::size_t i = 0; i < raw.apis.size(); ++i) {
    raw.apis[i].api.correlation_id = static_cast<std::uint32_t>(i / 2) + 1;
    raw.apis[i].tid = snapshot.threads.at(0).tid;
  }
  for (GpuOp& op : raw.gpu_ops) op.correlation_id = ++num_ids;
  const TraceWindow window{.start_ns = 1'000'000, .end_ns = clock_ns};
  for (auto _ : state) {
    const Trace trace = build_trace(raw, snapshot, {}, names.texts(), window);
    benchmark::DoNotOptimize(trace.gpu_ops.data());
    state.counters["unattributed"] = trace.quality.contains("unattributed")
                                         ? static_cast<double>(trace.quality.at("unattributed"))
                                         : 0;
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(raw.gpu_ops.size()));
}
BENCHMARK(attribute)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace steplens
