// Writing and reading trace.slt: operations per second of one core, and bytes per GPU operation.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "tests/harness/synthetic_trace.h"
#include <benchmark/benchmark.h>
#include <unistd.h>

#include "harness/trace/trace_format.h"
#include "harness/trace/trace_reader.h"
#include "harness/trace/trace_writer.h"

namespace steplens {
namespace {

// Half a million operations.
constexpr int kNumSteps = 460;

const Trace& whole_trace() {
  static const Trace trace = SyntheticTrace::make(kNumSteps);
  return trace;
}

// The gpu_op table and what it refers to.
const Trace& gpu_trace() {
  static const Trace trace = [] {
    Trace part = whole_trace();
    part.apis.clear();
    part.range_instances.clear();
    part.allocs.clear();
    part.counter_samples.clear();
    return part;
  }();
  return trace;
}

std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

void report(benchmark::State& state, const Trace& trace, const std::string& file) {
  const auto num_ops = static_cast<double>(trace.gpu_ops.size());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(trace.gpu_ops.size()));
  std::uint64_t num_gpu_op_bytes = 0;
  for (const ChunkPlace& chunk : list_chunks(bytes_of(file), "benchmark").chunks) {
    if (chunk.header.table != TableId::kGpuOp) continue;
    num_gpu_op_bytes += sizeof(ChunkHeader) + chunk.header.num_stored_bytes;
  }
  state.counters["gpu_op_bytes_per_row"] = static_cast<double>(num_gpu_op_bytes) / num_ops;
  state.counters["file_bytes_per_op"] = static_cast<double>(file.size()) / num_ops;
}

void encode(benchmark::State& state, const Trace& trace) {
  std::string file;
  for (auto _ : state) {
    file = encode_trace(trace);
    benchmark::DoNotOptimize(file.data());
  }
  report(state, trace, file);
}

void decode(benchmark::State& state, const Trace& trace) {
  const std::string file = encode_trace(trace);
  for (auto _ : state) {
    const Trace read = read_trace(bytes_of(file), "benchmark");
    benchmark::DoNotOptimize(read.gpu_ops.data());
  }
  report(state, trace, file);
}

void write_to_disk(benchmark::State& state, const Trace& trace) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("steplens-trace-bench-" + std::to_string(::getpid()) + ".slt");
  for (auto _ : state) write_trace(path, trace);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(trace.gpu_ops.size()));
  std::filesystem::remove(path);
}

void read_from_disk(benchmark::State& state, const Trace& trace) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("steplens-trace-bench-" + std::to_string(::getpid()) + ".slt");
  write_trace(path, trace);
  for (auto _ : state) benchmark::DoNotOptimize(read_trace(path).gpu_ops.data());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(trace.gpu_ops.size()));
  std::filesystem::remove(path);
}

BENCHMARK_CAPTURE(encode, gpu_op, gpu_trace())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, whole, whole_trace())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, gpu_op, gpu_trace())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, whole, whole_trace())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(write_to_disk, whole, whole_trace())
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(read_from_disk, whole, whole_trace())
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace steplens
