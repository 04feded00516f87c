// Two graphs, captured under ranges of their own and replayed in turn: A B A B, one pair a step.
// Spins tell them apart: A's nodes take 200 us and 300 us, B's 400 us.

#include <cstdio>
#include <cstdlib>
#include <exception>

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include "kernels/cuda_check.h"
#include "kernels/spin/spin.h"

namespace {

using steplens::launch_spin;

cudaGraphExec_t captured(cudaStream_t stream, const char* phase, std::int64_t first_ns,
                         std::int64_t second_ns) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  SL_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  nvtxRangePushA("step");
  nvtxRangePushA(phase);
  nvtxRangePushA("first");
  launch_spin({.duration_ns = first_ns}, stream);
  nvtxRangePop();
  if (second_ns > 0) {
    nvtxRangePushA("second");
    launch_spin({.duration_ns = second_ns}, stream);
    nvtxRangePop();
  }
  nvtxRangePop();
  nvtxRangePop();
  SL_CUDA(cudaStreamEndCapture(stream, &graph));
  SL_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  SL_CUDA(cudaGraphDestroy(graph));
  return executable;
}

}  // namespace

int main() {
  try {
    cudaStream_t stream = nullptr;
    SL_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const cudaGraphExec_t a = captured(stream, "forward", 200'000, 300'000);
    const cudaGraphExec_t b = captured(stream, "backward", 400'000, 0);
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
