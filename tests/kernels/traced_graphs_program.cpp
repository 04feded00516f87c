// Two graphs, captured under ranges of their own and replayed in turn: A B A B, one pair a step.
// Spins tell them apart: A's nodes take 200 us and 300 us, B's 400 us. With the argument "edited"
// a memset stands before each spin and is replaced by a kernel after the capture.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include "kernels/cuda_check.h"
#include "kernels/graph/memset_nodes.h"
#include "kernels/spin/spin.h"

namespace {

void spin(cudaStream_t stream, const char* range, void* memset_to, std::int64_t duration_ns) {
  nvtxRangePushA(range);
  if (memset_to != nullptr) SL_CUDA(cudaMemsetAsync(memset_to, 0, 4, stream));
  steplens::launch_spin({.duration_ns = duration_ns}, stream);
  nvtxRangePop();
}

cudaGraphExec_t captured(cudaStream_t stream, const char* phase, void* memset_to,
                         std::int64_t first_ns, std::int64_t second_ns) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  SL_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  nvtxRangePushA("step");
  nvtxRangePushA(phase);
  spin(stream, "first", memset_to, first_ns);
  if (second_ns > 0) spin(stream, "second", memset_to, second_ns);
  nvtxRangePop();
  SL_CUDA(cudaStreamEndCapture(stream, &graph));
  if (memset_to != nullptr) steplens::replace_memset_nodes(graph);
  SL_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  nvtxRangePop();
  SL_CUDA(cudaGraphDestroy(graph));
  return executable;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    void* memset_to = nullptr;
    if (argc > 1 && std::string_view(argv[1]) == "edited") SL_CUDA(cudaMalloc(&memset_to, 4));
    cudaStream_t stream = nullptr;
    SL_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const cudaGraphExec_t a = captured(stream, "forward", memset_to, 200'000, 300'000);
    const cudaGraphExec_t b = captured(stream, "backward", memset_to, 400'000, 0);
    for (int step = 0; step < 4; ++step) {
      nvtxRangePushA("step");
      SL_CUDA(cudaGraphLaunch(a, stream));
      SL_CUDA(cudaGraphLaunch(b, stream));
      nvtxRangePop();
    }
    SL_CUDA(cudaStreamSynchronize(stream));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
