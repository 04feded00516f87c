// Reading a trace of torch.profiler: events and bytes per second, and the memory that the process
// had at most. STEPLENS_KINETO_TRACE names the file; scripts/make_kineto_trace.py writes one.

#include <cstdlib>
#include <filesystem>

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "reports/breakdown/breakdown.h"
#include "reports/import/chrome_import.h"

namespace steplens {
namespace {

double peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

const char* path_or_skip(benchmark::State& state) {
  const char* path = std::getenv("STEPLENS_KINETO_TRACE");
  if (path == nullptr || !std::filesystem::exists(path)) {
    state.SkipWithError("STEPLENS_KINETO_TRACE names no file");
    return nullptr;
  }
  return path;
}

void import_kineto(benchmark::State& state) {
  const char* path = path_or_skip(state);
  if (path == nullptr) return;
  std::size_t num_rows = 0;
  for (auto _ : state) {
    const Trace trace = import_chrome_json(path);
    num_rows = trace.gpu_ops.size() + trace.apis.size() + trace.range_instances.size();
  }
  const auto num_bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  state.SetBytesProcessed(state.iterations() * num_bytes);
  state.counters["rows"] = static_cast<double>(num_rows);
  state.counters["peak_resident_bytes"] = peak_resident_bytes();
}

// The same and what `steplens trace` prints of it.
void import_and_break_down_kineto(benchmark::State& state) {
  const char* path = path_or_skip(state);
  if (path == nullptr) return;
  for (auto _ : state) {
    benchmark::DoNotOptimize(compute_breakdown(import_chrome_json(path)).total.step_ns);
  }
}

BENCHMARK(import_kineto)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(import_and_break_down_kineto)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace steplens
