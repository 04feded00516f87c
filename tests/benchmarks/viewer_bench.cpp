// The viewer's speed: opening a trace, and what a frame costs at any zoom.
//
// The targets: 10 M operations open in < 2 s from a warm cache and take at most 64 bytes each; our
// own part of a frame p99 < 4 ms; a whole frame, drawn in software at 1600 x 900 with 32 lanes,
// median < 33 ms; a frame of 10^7 operations < 1.5 times one of 10^5.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/viewer/bench_trace.h"
#include <benchmark/benchmark.h>
#include <epoxy/gl.h>
#include <imgui.h>

#include "viewer/app/application.h"
#include "viewer/app/gui.h"
#include "viewer/app/offscreen.h"
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

// The whole viewer without a display, drawn in software, while somebody zooms in and out and pans.
class Frames {
 public:
  static constexpr int kWidth = 1600;
  static constexpr int kHeight = 900;

  explicit Frames(const std::vector<std::filesystem::path>& paths)
      : offscreen_(kWidth, kHeight),
        gui_({}),
        application_({.paths = paths, .panel = "timeline"}, Settings{}, [] {}) {
    ImGuiIO& io = ImGui::GetIO();
    io.DisplaySize = {kWidth, kHeight};
    io.DeltaTime = 1.0F / 60;
    while (num_settled_ < 10) {
      draw();
      num_settled_ = application_.is_busy() ? 0 : num_settled_ + 1;
    }
  }

  // Three sweeps over `num_notches` of the wheel, in and out, at another place each.
  void move(int frame) {
    constexpr int kNumNotches = 80;
    const int phase = frame % (2 * kNumNotches);
    const float place = static_cast<float>((frame / (2 * kNumNotches)) % 5) / 5;
    ImGuiIO& io = ImGui::GetIO();
    const float wheel = phase < kNumNotches ? 1.0F : -1.0F;
    const ImVec2 mouse = {330 + 1150 * place, 300 + static_cast<float>(frame % 3)};
#if IMGUI_VERSION_NUM >= 18700
    io.AddMousePosEvent(mouse.x, mouse.y);
    io.AddMouseWheelEvent(0, wheel);
#else
    io.MousePos = mouse;
    io.MouseWheel = wheel;
#endif
  }

  // Returns our own part, ms of this thread: all but ImGui's rendering and OpenGL.
  double draw() {
    gui_.begin_frame();
    const double start_ms = thread_ms();
    application_.draw(gui_.theme());
    const double own_ms = thread_ms() - start_ms;
    gui_.end_frame(kWidth, kHeight);
    glFinish();
    return own_ms;
  }

  nlohmann::json state() const { return application_.state(gui_.theme()); }

 private:
  static double thread_ms() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
  }

  Offscreen offscreen_;
  Gui gui_;
  Application application_;
  int num_settled_ = 0;
};

double process_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double quantile(std::vector<double> samples, double ratio) {
  std::ranges::sort(samples);
  return samples[static_cast<std::size_t>(ratio * static_cast<double>(samples.size() - 1))];
}

void measure_frames(benchmark::State& state, Frames& frames, bool moves) {
  std::vector<double> own_ms;
  std::vector<double> whole_ms;
  int frame = 0;
  const double start_cpu_ms = process_ms();
  for (auto _ : state) {
    if (moves) frames.move(frame++);
    const auto start = std::chrono::steady_clock::now();
    own_ms.push_back(frames.draw());
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    whole_ms.push_back(elapsed.count());
  }
  // Of all threads, those that stand in for a GPU among them: says more than the clock where other
  // programs run.
  state.counters["cpu_ms"] = (process_ms() - start_cpu_ms) / static_cast<double>(whole_ms.size());
  state.counters["own_p50_ms"] = quantile(own_ms, 0.5);
  state.counters["own_p99_ms"] = quantile(own_ms, 0.99);
  state.counters["whole_p50_ms"] = quantile(whole_ms, 0.5);
  state.counters["whole_p99_ms"] = quantile(whole_ms, 0.99);
}

void frames_while_zooming(benchmark::State& state) {
  Frames frames({bench_trace_file(BenchTrace::kLanes, state.range(0))});
  measure_frames(state, frames, true);
}

// What drawing costs at all: the page without a document.
void frames_of_nothing(benchmark::State& state) {
  Frames frames({});
  measure_frames(state, frames, false);
}

BENCHMARK(frames_of_nothing)->Iterations(200)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(frames_while_zooming)
    ->Arg(100'000)
    ->Arg(10'000'000)
    ->Iterations(800)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
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
