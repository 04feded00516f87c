#include "kernels/graph/memset_nodes.h"

#include <algorithm>
#include <vector>

#include "kernels/cuda_check.h"

namespace steplens {
namespace {

constexpr unsigned kBlockSize = 128;

// Elements of 1, 2 or 4 bytes, as cudaMemset takes them.
__global__ void __launch_bounds__(kBlockSize)
    memset_kernel(void* to, unsigned value, unsigned element_bytes, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += kBlockSize) {
    if (element_bytes == 4) static_cast<unsigned*>(to)[i] = value;
    if (element_bytes == 2)
      static_cast<unsigned short*>(to)[i] = static_cast<unsigned short>(value);
    if (element_bytes == 1) static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(value);
  }
}

struct Edges {
  std::vector<cudaGraphNode_t> nodes;
  bool are_plain = true;  // Whole nodes wait for whole nodes.
};

template <typename Get>
Edges edges_of(cudaGraphNode_t node, Get get) {
  std::size_t count = 0;
  SL_CUDA(get(node, nullptr, nullptr, &count));
  Edges edges{.nodes = std::vector<cudaGraphNode_t>(count)};
  std::vector<cudaGraphEdgeData> data(count);
  if (count > 0) SL_CUDA(get(node, edges.nodes.data(), data.data(), &count));
  edges.are_plain = std::ranges::all_of(data, [](const cudaGraphEdgeData& edge) {
    return edge.type == cudaGraphDependencyTypeDefault;
  });
  return edges;
}

bool replace(cudaGraph_t graph, cudaGraphNode_t node, std::int64_t max_bytes) {
  cudaGraphNodeType type{};
  SL_CUDA(cudaGraphNodeGetType(node, &type));
  if (type != cudaGraphNodeTypeMemset) return false;
  cudaMemsetParams memset{};
  SL_CUDA(cudaGraphMemsetNodeGetParams(node, &memset));
  if (memset.height != 1 ||
      memset.width > static_cast<std::size_t>(max_bytes) / memset.elementSize) {
    return false;
  }
  const Edges before = edges_of(node, &cudaGraphNodeGetDependencies);
  const Edges after = edges_of(node, &cudaGraphNodeGetDependentNodes);
  if (!before.are_plain || !after.are_plain) return false;

  auto count = static_cast<unsigned>(memset.width);
  void* arguments[] = {&memset.dst, &memset.value, &memset.elementSize, &count};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(&memset_kernel);
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(kBlockSize);
  kernel.kernelParams = arguments;
  cudaGraphNode_t added = nullptr;
  SL_CUDA(cudaGraphAddKernelNode(&added, graph, before.nodes.data(), before.nodes.size(), &kernel));
  const std::vector<cudaGraphNode_t> from(after.nodes.size(), added);
  if (!from.empty()) {
    SL_CUDA(cudaGraphAddDependencies(graph, from.data(), after.nodes.data(), nullptr, from.size()));
  }
  SL_CUDA(cudaGraphDestroyNode(node));
  return true;
}

}  // namespace

std::int64_t replace_memset_nodes(cudaGraph_t graph, std::int64_t max_bytes) {
  std::size_t count = 0;
  SL_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) SL_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  std::int64_t num_replaced = 0;
  for (const cudaGraphNode_t node : nodes) {
    num_replaced += replace(graph, node, max_bytes) ? 1 : 0;
  }
  return num_replaced;
}

}  // namespace steplens
