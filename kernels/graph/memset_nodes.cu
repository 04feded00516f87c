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

std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  SL_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) SL_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

// A kernel that writes what `memset` would, in one row. It waits for `before`.
cudaGraphNode_t add_memset_kernel(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& before,
                                  cudaMemsetParams memset) {
  auto count = static_cast<unsigned>(memset.width);
  void* arguments[] = {&memset.dst, &memset.value, &memset.elementSize, &count};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(&memset_kernel);
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(kBlockSize);
  kernel.kernelParams = arguments;
  cudaGraphNode_t added = nullptr;
  SL_CUDA(cudaGraphAddKernelNode(&added, graph, before.data(), before.size(), &kernel));
  return added;
}

void add_edges(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& from,
               const std::vector<cudaGraphNode_t>& to) {
  if (from.empty()) return;
  SL_CUDA(cudaGraphAddDependencies(graph, from.data(), to.data(), nullptr, from.size()));
}

// A memset node that writes zeros to one row of a place.
struct Clearing {
  cudaGraphNode_t node = nullptr;
  std::size_t first = 0;  // Bytes from the start of the place.
  std::size_t last = 0;   // Not included.
  bool goes = false;
};

std::vector<Clearing> clearings_of(cudaGraph_t graph, const void* place, std::size_t num_bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(place);
  std::vector<Clearing> found;
  for (const cudaGraphNode_t node : nodes_of(graph)) {
    cudaGraphNodeType type{};
    SL_CUDA(cudaGraphNodeGetType(node, &type));
    if (type != cudaGraphNodeTypeMemset) continue;
    cudaMemsetParams memset{};
    SL_CUDA(cudaGraphMemsetNodeGetParams(node, &memset));
    const auto to = reinterpret_cast<std::uintptr_t>(memset.dst);
    const std::size_t row_bytes = memset.width * memset.elementSize;
    const std::size_t bytes =
        memset.height > 1 ? memset.pitch * (memset.height - 1) + row_bytes : row_bytes;
    if (to + bytes <= start || to >= start + num_bytes) continue;
    const bool is_inside = to >= start && to + bytes <= start + num_bytes;
    found.push_back({.node = node,
                     .first = to > start ? to - start : 0,
                     .last = to + bytes - start,
                     .goes = is_inside && memset.height == 1 && memset.value == 0});
  }
  std::ranges::sort(found, {}, &Clearing::first);
  // What two of them write stays as it is.
  std::size_t furthest = 0;
  Clearing* owner = nullptr;
  for (Clearing& clearing : found) {
    if (owner != nullptr && clearing.first < furthest) clearing.goes = owner->goes = false;
    if (owner == nullptr || clearing.last > furthest) {
      furthest = clearing.last;
      owner = &clearing;
    }
  }
  return found;
}

// Takes a node out of the chain that it stands in.
bool bypass(cudaGraph_t graph, cudaGraphNode_t node) {
  const Edges before = edges_of(node, &cudaGraphNodeGetDependencies);
  const Edges after = edges_of(node, &cudaGraphNodeGetDependentNodes);
  if (!before.are_plain || !after.are_plain) return false;
  std::vector<cudaGraphNode_t> from;
  std::vector<cudaGraphNode_t> to;
  for (const cudaGraphNode_t behind : after.nodes) {
    const Edges known = edges_of(behind, &cudaGraphNodeGetDependencies);
    for (const cudaGraphNode_t ahead : before.nodes) {
      if (std::ranges::find(known.nodes, ahead) != known.nodes.end()) continue;
      from.push_back(ahead);
      to.push_back(behind);
    }
  }
  add_edges(graph, from, to);
  SL_CUDA(cudaGraphDestroyNode(node));
  return true;
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

  const cudaGraphNode_t added = add_memset_kernel(graph, before.nodes, memset);
  add_edges(graph, std::vector<cudaGraphNode_t>(after.nodes.size(), added), after.nodes);
  SL_CUDA(cudaGraphDestroyNode(node));
  return true;
}

}  // namespace

std::int64_t replace_memset_nodes(cudaGraph_t graph, std::int64_t max_bytes) {
  std::int64_t num_replaced = 0;
  for (const cudaGraphNode_t node : nodes_of(graph)) {
    num_replaced += replace(graph, node, max_bytes) ? 1 : 0;
  }
  return num_replaced;
}

std::int64_t gather_memset_nodes(cudaGraph_t graph, void* place, std::size_t num_bytes) {
  std::int64_t num_gone = 0;
  std::size_t first = num_bytes;
  std::size_t last = 0;
  for (const Clearing& clearing : clearings_of(graph, place, num_bytes)) {
    if (!clearing.goes || !bypass(graph, clearing.node)) continue;
    ++num_gone;
    first = std::min(first, clearing.first);
    last = std::max(last, clearing.last);
  }
  if (num_gone == 0) return 0;
  std::size_t num_roots = 0;
  SL_CUDA(cudaGraphGetRootNodes(graph, nullptr, &num_roots));
  std::vector<cudaGraphNode_t> roots(num_roots);
  if (num_roots > 0) SL_CUDA(cudaGraphGetRootNodes(graph, roots.data(), &num_roots));
  cudaMemsetParams memset{};
  memset.dst = static_cast<char*>(place) + first;
  const bool are_words = first % 4 == 0 && last % 4 == 0;
  memset.elementSize = are_words ? 4 : 1;
  memset.width = (last - first) / memset.elementSize;
  memset.height = 1;
  const cudaGraphNode_t added = add_memset_kernel(graph, {}, memset);
  add_edges(graph, std::vector<cudaGraphNode_t>(roots.size(), added), roots);
  return num_gone;
}

}  // namespace steplens
