#include "kernels/graph/memset_nodes.h"

#include <vector>

#include "tests/kernels/device_tensor.h"
#include <gtest/gtest.h>

namespace steplens {
namespace {

int num_nodes(cudaGraph_t graph, cudaGraphNodeType wanted) {
  std::size_t count = 0;
  SL_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  SL_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  int result = 0;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    SL_CUDA(cudaGraphNodeGetType(node, &type));
    result += type == wanted ? 1 : 0;
  }
  return result;
}

// Each memset stands between two copies that read what was there and what it wrote, so that one
// that ran too early or too late shows.
TEST(ReplaceMemsetNodes, WritesTheSameBytesInTheSamePlace) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  constexpr std::size_t kBytes = 8192;
  struct Case {
    std::size_t offset, num_bytes;
    int value;
  };
  constexpr Case kCases[] = {{0, 4, 0}, {5, 3, 0x7f}, {64, 2048, 0xab}, {1, 4096, 0}, {0, 8192, 1}};
  cudaStream_t stream = nullptr;
  SL_CUDA(cudaStreamCreate(&stream));
  for (const Case& c : kCases) {
    unsigned char* data = nullptr;
    SL_CUDA(cudaMalloc(reinterpret_cast<void**>(&data), 3 * kBytes));
    SL_CUDA(cudaMemset(data, 0x55, 3 * kBytes));
    SL_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    SL_CUDA(cudaMemcpyAsync(data + kBytes, data, kBytes, cudaMemcpyDeviceToDevice, stream));
    SL_CUDA(cudaMemsetAsync(data + c.offset, c.value, c.num_bytes, stream));
    SL_CUDA(cudaMemcpyAsync(data + 2 * kBytes, data, kBytes, cudaMemcpyDeviceToDevice, stream));
    cudaGraph_t graph = nullptr;
    SL_CUDA(cudaStreamEndCapture(stream, &graph));
    const bool is_small = c.num_bytes <= 4096;
    EXPECT_EQ(replace_memset_nodes(graph), is_small ? 1 : 0);
    EXPECT_EQ(num_nodes(graph, cudaGraphNodeTypeMemset), is_small ? 0 : 1);
    EXPECT_EQ(num_nodes(graph, cudaGraphNodeTypeKernel), is_small ? 1 : 0);
    cudaGraphExec_t executable = nullptr;
    SL_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    SL_CUDA(cudaGraphLaunch(executable, stream));
    SL_CUDA(cudaStreamSynchronize(stream));
    std::vector<unsigned char> bytes(3 * kBytes);
    SL_CUDA(cudaMemcpy(bytes.data(), data, bytes.size(), cudaMemcpyDeviceToHost));
    std::vector<unsigned char> written(kBytes, 0x55);
    std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(c.offset), c.num_bytes,
                static_cast<unsigned char>(c.value));
    const auto part = [&](std::size_t index) {
      const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(index * kBytes);
      return std::vector<unsigned char>(first, first + kBytes);
    };
    EXPECT_EQ(part(0), written);
    EXPECT_EQ(part(1), std::vector<unsigned char>(kBytes, 0x55)) << "before the memset";
    EXPECT_EQ(part(2), written) << "behind the memset";
    SL_CUDA(cudaGraphExecDestroy(executable));
    SL_CUDA(cudaGraphDestroy(graph));
    SL_CUDA(cudaFree(data));
  }
  SL_CUDA(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace steplens
