// Gradient of a table of embeddings, by a stable sort of the positions.
//
// N: positions, C: channels, V: vocabulary, n: a position, v: a token, c: a channel. A segment is
// the run of sorted positions that name one token; a chunk is kChunk sorted positions.

#include "kernels/embedding/embedding.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda_check.h"
#include "kernels/vector.cuh"

namespace steplens {
namespace {

constexpr std::string_view kOp = "embedding_backward";
constexpr int kBlockSize = 256;
constexpr int kChunk =
    32;  // The longest sum is N / 32 + 64 terms, also where all tokens are alike.

struct Workspace {
  std::uint32_t* tokens;         // (N): V for those that name no row.
  std::uint32_t* sorted_tokens;  // (N)
  std::int32_t* positions;       // (N): 0 .. N - 1.
  std::int32_t* sorted_positions;
  std::int32_t* offsets;  // (V + 1): where each segment begins.
  float* chunk_sums;      // (N / kChunk, C), for chunks that lie within one segment.
  void* sort;
  std::size_t sort_bytes;
  std::size_t num_bytes;  // Of all.
};

int num_key_bits(std::int64_t V) {
  return std::bit_width(static_cast<std::uint64_t>(V));  // V itself is a key.
}

Workspace lay_out(void* base, std::int64_t N, std::int64_t C, std::int64_t V) {
  constexpr std::size_t kAlignment = 256;
  Workspace workspace{};
  std::size_t offset = 0;
  const auto take = [&]<typename T>(T*& pointer, std::int64_t count) {
    pointer = reinterpret_cast<T*>(static_cast<char*>(base) + offset);
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    offset += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  take(workspace.tokens, N);
  take(workspace.sorted_tokens, N);
  take(workspace.positions, N);
  take(workspace.sorted_positions, N);
  take(workspace.offsets, V + 1);
  take(workspace.chunk_sums, N / kChunk * C);
  SL_CUDA(cub::DeviceRadixSort::SortPairs(
      nullptr, workspace.sort_bytes, workspace.tokens, workspace.sorted_tokens, workspace.positions,
      workspace.sorted_positions, static_cast<int>(N), 0, num_key_bits(V)));
  char* sort = nullptr;
  take(sort, static_cast<std::int64_t>(workspace.sort_bytes));
  workspace.sort = sort;
  workspace.num_bytes = offset;
  return workspace;
}

__global__ void __launch_bounds__(kBlockSize)
    embedding_backward_number(const std::int64_t* tokens, std::int64_t N, std::int64_t V,
                              Workspace workspace) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kBlockSize + threadIdx.x;
  if (n >= N) return;
  const std::int64_t token = tokens[n];
  workspace.tokens[n] = static_cast<std::uint32_t>(token >= 0 && token < V ? token : V);
  workspace.positions[n] = static_cast<std::int32_t>(n);
}

__global__ void __launch_bounds__(kBlockSize)
    embedding_backward_find_segments(std::int64_t N, std::int64_t V, Workspace workspace) {
  const std::int64_t v = static_cast<std::int64_t>(blockIdx.x) * kBlockSize + threadIdx.x;
  if (v > V) return;
  std::int64_t begin = 0;
  std::int64_t end = N;
  while (begin < end) {
    const std::int64_t middle = (begin + end) / 2;
    if (workspace.sorted_tokens[middle] < v) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  workspace.offsets[v] = static_cast<std::int32_t>(begin);
}

// Adds rows of dy to `sums`, in the order of `positions`; loads go ahead of the sums in batches.
template <typename T, int kWidth>
__device__ void add_rows(const T* dy, std::int64_t C, const std::int32_t* positions, int count,
                         float (&sums)[kWidth]) {
  constexpr int kBatch = 8;
  for (int i = 0; i < count; i += kBatch) {
    Packed<T, kWidth> rows[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (i + j < count) rows[j].load(dy + positions[i + j] * C);
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (i + j >= count) break;
      float values[kWidth];
      rows[j].unpack(values);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sums[k] += values[k];
    }
  }
}

template <int kWidth>
__device__ void store_sums(float* destination, const float (&sums)[kWidth]) {
  if constexpr (kWidth == 1) {
    *destination = sums[0];
  } else {
    Packed<float, kWidth> packed;
    packed.pack(sums);
    packed.store(destination);
  }
}

// A block sums one chunk, if one token fills it.
template <typename T, int kWidth>
__global__ void embedding_backward_sum_chunks(const EmbeddingBackwardArgs args,
                                              Workspace workspace) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kChunk;
  const std::uint32_t token = workspace.sorted_tokens[first];
  if (token != workspace.sorted_tokens[first + kChunk - 1] || token >= args.V) return;
  for (std::int64_t c = threadIdx.x * kWidth; c < args.C; c += blockDim.x * kWidth) {
    float sums[kWidth] = {};
    add_rows<T, kWidth>(static_cast<const T*>(args.dy) + c, args.C,
                        workspace.sorted_positions + first, kChunk, sums);
    store_sums(workspace.chunk_sums + blockIdx.x * args.C + c, sums);
  }
}

// A block writes one row of dtable: positions before the first whole chunk, the chunks, the rest.
template <typename T, int kWidth>
__global__ void embedding_backward_write_rows(const EmbeddingBackwardArgs args,
                                              Workspace workspace) {
  const std::int64_t v = blockIdx.x;
  const int begin = workspace.offsets[v];
  const int end = workspace.offsets[v + 1];
  const int first_chunk = (begin + kChunk - 1) / kChunk;
  const int last_chunk = max(first_chunk, end / kChunk);
  const int head_end = min(end, first_chunk * kChunk);
  const int tail_begin = max(head_end, last_chunk * kChunk);
  for (std::int64_t c = threadIdx.x * kWidth; c < args.C; c += blockDim.x * kWidth) {
    const T* dy = static_cast<const T*>(args.dy) + c;
    float sums[kWidth] = {};
    add_rows<T, kWidth>(dy, args.C, workspace.sorted_positions + begin, head_end - begin, sums);
    for (int chunk = first_chunk; chunk < last_chunk; ++chunk) {
      const float* chunk_sums = workspace.chunk_sums + chunk * args.C + c;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sums[k] += chunk_sums[k];
    }
    add_rows<T, kWidth>(dy, args.C, workspace.sorted_positions + tail_begin, end - tail_begin,
                        sums);
    store_sums(args.dtable + v * args.C + c, sums);
  }
}

unsigned num_blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kBlockSize - 1) / kBlockSize);
}

void check(std::int64_t N, std::int64_t C, std::int64_t V) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max() - kBlockSize;
  check_argument(N >= 0 && N <= kMax, kOp, "N", N, "0 to 2147483391");
  check_argument(C >= 1, kOp, "C", C, "1 and more");
  check_argument(V >= 1 && V <= kMax, kOp, "V", V, "1 to 2147483391");
}

}  // namespace

std::size_t embedding_backward_workspace_bytes(std::int64_t N, std::int64_t C, std::int64_t V) {
  check(N, C, V);
  return lay_out(nullptr, N, C, V).num_bytes;
}

void embedding_backward(const EmbeddingBackwardArgs& args, cudaStream_t stream) {
  check(args.N, args.C, args.V);
  if (args.N == 0) {
    SL_CUDA(cudaMemsetAsync(args.dtable, 0, static_cast<std::size_t>(args.V * args.C) * 4, stream));
    return;
  }
  Workspace workspace = lay_out(args.workspace, args.N, args.C, args.V);
  embedding_backward_number<<<num_blocks_for(args.N), kBlockSize, 0, stream>>>(args.tokens, args.N,
                                                                               args.V, workspace);
  SL_CUDA(cudaGetLastError());
  SL_CUDA(cub::DeviceRadixSort::SortPairs(workspace.sort, workspace.sort_bytes, workspace.tokens,
                                          workspace.sorted_tokens, workspace.positions,
                                          workspace.sorted_positions, static_cast<int>(args.N), 0,
                                          num_key_bits(args.V), stream));
  embedding_backward_find_segments<<<num_blocks_for(args.V + 1), kBlockSize, 0, stream>>>(
      args.N, args.V, workspace);
  SL_CUDA(cudaGetLastError());

  const auto sum = [&]<typename T, int kWidth>() {
    const std::int64_t num_warps = (args.C / kWidth + kWarpSize - 1) / kWarpSize;
    const auto block_size = static_cast<unsigned>(
        std::clamp<std::int64_t>(num_warps * kWarpSize, kWarpSize, kBlockSize));
    if (args.N >= kChunk) {
      embedding_backward_sum_chunks<T, kWidth>
          <<<static_cast<unsigned>(args.N / kChunk), block_size, 0, stream>>>(args, workspace);
      SL_CUDA(cudaGetLastError());
    }
    embedding_backward_write_rows<T, kWidth>
        <<<static_cast<unsigned>(args.V), block_size, 0, stream>>>(args, workspace);
    SL_CUDA(cudaGetLastError());
  };
  const auto sum_of_type = [&]<typename T>() {
    constexpr int kWidth = kVectorWidth<T>;
    if (args.C % kWidth == 0 && is_aligned(args.dy) && is_aligned(args.dtable)) {
      sum.template operator()<T, kWidth>();
    } else {
      sum.template operator()<T, 1>();
    }
  };
  if (args.dy_type == ElementType::kFloat32) {
    sum_of_type.template operator()<float>();
  } else {
    sum_of_type.template operator()<Bfloat16>();
  }
}

}  // namespace steplens
