// The viewer's speed: opening a trace, and what a frame costs at any zoom.
//
// The targets: 10 M operations open in < 2 s from a warm cache and take at most 64 bytes each; our
// own part of a frame p99 < 4 ms; a whole frame, drawn in software at 1600 x 900 with 32 lanes,
// median < 33 ms; a frame of 10^7 operations < 1.5 times one of 10^5.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/viewer/bench_trace.h"
#include <benchmark/benchmark.h>

#include "viewer/data/row_view.h"
#include "viewer/data/trace_model.h"

namespace steplens {
namespace {

double p99_ms(std::vector<double>& samples_ms) {
  if (samples_ms.empty()) return 0;
  const auto nth = static_cast<std::ptrdiff_t>(0.99 * static_cast<double>(samples_ms.size() - 1));
  std::ranges::nth_element(samples_ms, samples_ms.begin() + nth);
  return samples_ms[static_cast<std::size_t>(nth)];
}

void open_trace(benchmark::State& state, BenchTrace kind) {
  const std::filesystem::path path = bench_trace_file(kind, state.range(0));
  std::shared_ptr<const TraceModel> model;
  std::size_t num_slices = 0;
  for (auto _ : state) {
    state.PauseTiming();
    model.reset();
    state.ResumeTiming();
    LoadProgress progress;
    model = load_trace_model(path, progress);
  }
  for (const Lane& lane : model->lanes) num_slices += lane.num_slices();
  state.counters["operations"] = static_cast<double>(num_slices);
  state.counters["bytes_per_operation"] =
      static_cast<double>(model->num_bytes()) / static_cast<double>(num_slices);
}

// All rows of all lanes, as if each frame had a new zoom: nothing is cached.
void row_views(benchmark::State& state) {
  const std::shared_ptr<const TraceModel> model = bench_model(BenchTrace::kLanes, state.range(0));
  std::vector<double> samples_ms;
  RowView view;
  double octaves = 0;
  for (auto _ : state) {
    // From everything down to a few microseconds, around a place that moves.
    octaves = std::fmod(octaves + 0.37, 24);
    const auto whole = static_cast<double>(model->end_ns - model->start_ns);
    const double width_ns = std::max(2000.0, whole * std::exp2(-octaves));
    const double centre =
        static_cast<double>(model->start_ns) + whole * (0.5 + 0.3 * std::sin(octaves));
    const TimeWindow window{.start_ns = static_cast<std::int64_t>(centre - width_ns / 2),
                            .end_ns = static_cast<std::int64_t>(centre + width_ns / 2),
                            .width_px = 1600};
    const auto start = std::chrono::steady_clock::now();
    std::size_t num_rows = 0;
    for (const Lane& lane : model->lanes) {
      for (const SliceRow& row : lane.rows) {
        if (++num_rows > 32) break;
        compute_row_view(row, window, {}, view);
        benchmark::DoNotOptimize(view.buckets.data());
      }
    }
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    samples_ms.push_back(elapsed.count());
  }
  state.counters["p99_ms"] = p99_ms(samples_ms);
}

BENCHMARK_CAPTURE(open_trace, gpu_ops_only, BenchTrace::kGpuOpsOnly)
    ->Arg(100'000)
    ->Arg(10'000'000)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(open_trace, with_calls_and_ranges, BenchTrace::kWhole)
    ->Arg(100'000)
    ->Arg(10'000'000)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(row_views)->Arg(100'000)->Arg(10'000'000)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace steplens
