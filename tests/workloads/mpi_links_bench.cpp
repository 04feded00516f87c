// What an all-reduce over MPI costs between ranks of this machine, as the file of links that
// `steplens scale --links` takes:
//
//   mpirun -n 2 build/release/tests/bench_mpi_links > links.json
//
// Two sizes give the two terms: a small one the latency, a large one the bandwidth. Each is the
// fastest of many: whoever else uses the machine only makes it slower.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <vector>

#include <mpi.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSmallElements = 256;
constexpr int kLargeElements = 4 << 20;
constexpr int kNumRuns = 50;

// Fastest all-reduce of `count` fp32 elements, in nanoseconds, by rank 0's clock.
double fastest_ns(std::vector<float>& elements, int count) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kNumRuns; ++i) {
    std::fill_n(elements.begin(), count, 1.0F);
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = Clock::now();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, elements.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                   &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fastest =
        std::min(fastest, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return fastest;
}

// Bytes a second of reading and writing an array once.
double memory_bytes_per_s(std::vector<float>& elements) {
  double fastest_s = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kNumRuns; ++i) {
    const auto start = Clock::now();
    for (float& element : elements) element /= 2;
    fastest_s = std::min(fastest_s, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return 2.0 * sizeof(float) * static_cast<double>(elements.size()) / fastest_s;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<float> elements(kLargeElements);
  const double small_ns = fastest_ns(elements, kSmallElements);
  const double large_ns = fastest_ns(elements, kLargeElements);
  const double memory = memory_bytes_per_s(elements);
  if (rank == 0 && size > 1) {
    const double ring_bytes = 2.0 * (size - 1) / size * sizeof(float) * kLargeElements;
    // On a CPU the thread that communicates takes its core from the one that computes.
    std::printf(
        "{\"name\": \"mpi-here\", \"source\": \"mpirun -n %d bench_mpi_links on this machine\",\n"
        " \"base_ns\": %.0f, \"compute_slowdown_ratio\": 1, \"memory_bytes_per_s\": %.4g,\n"
        " \"levels\": [{\"max_gpus\": 0, \"hop_ns\": 0, \"bytes_per_s\": %.4g}]}\n",
        size, small_ns, memory, ring_bytes / (large_ns - small_ns) * 1e9);
  }
  if (rank == 0 && size == 1) std::fputs("start it by mpirun -n 2\n", stderr);
  MPI_Finalize();
  return size > 1 ? 0 : 2;
}
