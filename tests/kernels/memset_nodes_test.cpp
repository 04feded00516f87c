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

// Pieces that are cleared, copied out and written to again, as a product does with its counter.
TEST(GatherMemsetNodes, ClearsOnceWhatEachPieceIsClearedFor) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  constexpr std::size_t kBytes = 4096, kPiece = 256;
  struct Step {
    std::size_t offset, num_bytes;
    int value = 0;
  };
  struct Case {
    const char* name;
    std::vector<Step> steps;
    std::int64_t num_gathered;
  };
  const Case cases[] = {
      {"each its own", {{0, 4}, {256, 4}, {2048, 12}}, 3},
      {"odd sizes", {{1, 3}, {261, 2}}, 2},
      {"one twice", {{0, 4}, {256, 4}, {0, 4}}, 1},
      {"overlapping", {{0, 8}, {4, 8}, {512, 4}}, 1},
      {"one inside another", {{0, 64}, {16, 4}, {32, 4}, {512, 4}}, 1},
      {"not zero", {{0, 4}, {256, 4, 7}}, 1},
      {"outside", {{0, 4}, {kBytes, 4}}, 1},
      {"across the end", {{kBytes - 2, 4}}, 0},
      {"none", {}, 0},
  };
  cudaStream_t stream = nullptr;
  SL_CUDA(cudaStreamCreate(&stream));
  for (const Case& c : cases) {
    const std::size_t num_steps = c.steps.size();
    unsigned char* place = nullptr;
    unsigned char* copies = nullptr;
    unsigned char* dirt = nullptr;
    SL_CUDA(cudaMalloc(reinterpret_cast<void**>(&place), kBytes + kPiece));
    SL_CUDA(cudaMalloc(reinterpret_cast<void**>(&copies), (num_steps + 1) * kPiece));
    SL_CUDA(cudaMalloc(reinterpret_cast<void**>(&dirt), kPiece));
    SL_CUDA(cudaMemset(place, 0x55, kBytes + kPiece));
    SL_CUDA(cudaMemset(dirt, 0x66, kPiece));
    SL_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (std::size_t i = 0; i < num_steps; ++i) {
      const Step& step = c.steps[i];
      SL_CUDA(cudaMemsetAsync(place + step.offset, step.value, step.num_bytes, stream));
      SL_CUDA(cudaMemcpyAsync(copies + i * kPiece, place + step.offset, step.num_bytes,
                              cudaMemcpyDeviceToDevice, stream));
      SL_CUDA(cudaMemcpyAsync(place + step.offset, dirt, step.num_bytes, cudaMemcpyDeviceToDevice,
                              stream));
    }
    cudaGraph_t graph = nullptr;
    SL_CUDA(cudaStreamEndCapture(stream, &graph));
    EXPECT_EQ(gather_memset_nodes(graph, place, kBytes), c.num_gathered) << c.name;
    EXPECT_EQ(num_nodes(graph, cudaGraphNodeTypeMemset),
              static_cast<int>(num_steps) - static_cast<int>(c.num_gathered))
        << c.name;
    EXPECT_EQ(num_nodes(graph, cudaGraphNodeTypeKernel), c.num_gathered > 0 ? 1 : 0) << c.name;
    cudaGraphExec_t executable = nullptr;
    SL_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    for (int replay = 0; replay < 2; ++replay) {
      SL_CUDA(cudaMemset(copies, 0x11, (num_steps + 1) * kPiece));
      SL_CUDA(cudaGraphLaunch(executable, stream));
      SL_CUDA(cudaStreamSynchronize(stream));
      std::vector<unsigned char> bytes((num_steps + 1) * kPiece);
      SL_CUDA(cudaMemcpy(bytes.data(), copies, bytes.size(), cudaMemcpyDeviceToHost));
      for (std::size_t i = 0; i < num_steps; ++i) {
        const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(i * kPiece);
        const auto num_bytes = static_cast<std::ptrdiff_t>(c.steps[i].num_bytes);
        EXPECT_EQ(std::vector<unsigned char>(first, first + num_bytes),
                  std::vector<unsigned char>(c.steps[i].num_bytes,
                                             static_cast<unsigned char>(c.steps[i].value)))
            << c.name << ", step " << i << ", replay " << replay;
      }
    }
    SL_CUDA(cudaGraphExecDestroy(executable));
    SL_CUDA(cudaGraphDestroy(graph));
    for (unsigned char* data : {place, copies, dirt}) SL_CUDA(cudaFree(data));
  }
  SL_CUDA(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace steplens
