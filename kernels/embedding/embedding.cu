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
constexpr int kBlocksThatStay = 3;  // On each multiprocessor: 24 warps of 80 registers.
constexpr int kChunk = 32;  // The longest sum has N / 32 + 64 terms, even if all tokens are alike.

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

// Channels that a warp sums at a time: kVectors accesses of kWidth channels a lane.
template <int kWidth>
inline constexpr int kVectors = kWidth == 1 ? 8 : 4;

// Adds rows of dy to the lane's `sums`, in the order of `positions`; both rows of a pair are loaded
// before the first sum.
template <typename T, int kWidth>
__device__ void add_rows(const T* dy, std::int64_t C, std::int64_t c, const std::int32_t* positions,
                         int count, float (&sums)[kVectors<kWidth>][kWidth]) {
  constexpr int kPair = 2;
  for (int i = 0; i < count; i += kPair) {
    Packed<T, kWidth> rows[kPair][kVectors<kWidth>];
#pragma unroll
    for (int j = 0; j < kPair; ++j) {
      if (i + j >= count) break;
      const T* row = dy + positions[i + j] * C;
#pragma unroll
      for (int k = 0; k < kVectors<kWidth>; ++k) {
        const std::int64_t column = c + k * kWarpSize * kWidth;
        if (column < C) rows[j][k].load(row + column);
      }
    }
#pragma unroll
    for (int j = 0; j < kPair; ++j) {
      if (i + j >= count) break;
#pragma unroll
      for (int k = 0; k < kVectors<kWidth>; ++k) {
        if (c + k * kWarpSize * kWidth >= C) continue;
        float values[kWidth];
        rows[j][k].unpack(values);
#pragma unroll
        for (int l = 0; l < kWidth; ++l) sums[k][l] += values[l];
      }
    }
  }
}

// Adds sums of chunks, several loads ahead of the additions: the chunks of a token that fills much
// of a text are one warp's work, and would take longer than all other rows.
template <int kWidth>
__device__ void add_chunks(const float* chunk_sums, std::int64_t C, std::int64_t c, int first,
                           int last, float (&sums)[kVectors<kWidth>][kWidth]) {
  constexpr int kBatch = 4;
#pragma unroll
  for (int k = 0; k < kVectors<kWidth>; ++k) {
    const std::int64_t column = c + k * kWarpSize * kWidth;
    if (column >= C) continue;
    for (int chunk = first; chunk < last; chunk += kBatch) {
      Packed<float, kWidth> batch[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (chunk + j < last) batch[j].load(chunk_sums + (chunk + j) * C + column);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (chunk + j >= last) break;
        float values[kWidth];
        batch[j].unpack(values);
#pragma unroll
        for (int l = 0; l < kWidth; ++l) sums[k][l] += values[l];
      }
    }
  }
}

template <int kWidth>
__device__ void store_sums(float* row, std::int64_t C, std::int64_t c,
                           const float (&sums)[kVectors<kWidth>][kWidth]) {
#pragma unroll
  for (int k = 0; k < kVectors<kWidth>; ++k) {
    const std::int64_t column = c + k * kWarpSize * kWidth;
    if (column >= C) continue;
    Packed<float, kWidth> packed;
    packed.pack(sums[k]);
    packed.store(row + column);
  }
}

// A warp sums one chunk, if one token fills it.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kBlockSize)
    embedding_backward_sum_chunks(const EmbeddingBackwardArgs args, Workspace workspace) {
  const std::int64_t chunk =
      static_cast<std::int64_t>(blockIdx.x) * (kBlockSize / kWarpSize) + threadIdx.x / kWarpSize;
  const std::int64_t first = chunk * kChunk;
  if (first + kChunk > args.N) return;
  const std::uint32_t token = workspace.sorted_tokens[first];
  if (token != workspace.sorted_tokens[first + kChunk - 1] || token >= args.V) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  for (std::int64_t c = lane * kWidth; c < args.C; c += kVectors<kWidth> * kWarpSize * kWidth) {
    float sums[kVectors<kWidth>][kWidth] = {};
    add_rows<T, kWidth>(static_cast<const T*>(args.dy), args.C, c,
                        workspace.sorted_positions + first, kChunk, sums);
    store_sums<kWidth>(workspace.chunk_sums + chunk * args.C, args.C, c, sums);
  }
}

// Warps write rows of dtable in turn: positions before the first whole chunk, the chunks, the rest.
// Few blocks that stay: launching one a row takes as long as writing the row.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kBlockSize, kBlocksThatStay)
    embedding_backward_write_rows(const EmbeddingBackwardArgs args, Workspace workspace) {
  const T* dy = static_cast<const T*>(args.dy);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int64_t num_warps = static_cast<std::int64_t>(gridDim.x) * (kBlockSize / kWarpSize);
  std::int64_t v =
      static_cast<std::int64_t>(blockIdx.x) * (kBlockSize / kWarpSize) + threadIdx.x / kWarpSize;
  int begin = v < args.V ? workspace.offsets[v] : 0;
  int end = v < args.V ? workspace.offsets[v + 1] : 0;
  for (; v < args.V; v += num_warps) {
    const std::int64_t next = v + num_warps;  // Its place is fetched while this row is summed.
    const int next_begin = next < args.V ? workspace.offsets[next] : 0;
    const int next_end = next < args.V ? workspace.offsets[next + 1] : 0;
    const int first_chunk = (begin + kChunk - 1) / kChunk;
    const int last_chunk = max(first_chunk, end / kChunk);
    const int head_end = min(end, first_chunk * kChunk);
    const int tail_begin = max(head_end, last_chunk * kChunk);
    for (std::int64_t c = lane * kWidth; c < args.C; c += kVectors<kWidth> * kWarpSize * kWidth) {
      float sums[kVectors<kWidth>][kWidth] = {};
      add_rows<T, kWidth>(dy, args.C, c, workspace.sorted_positions + begin, head_end - begin,
                          sums);
      add_chunks<kWidth>(workspace.chunk_sums, args.C, c, first_chunk, last_chunk, sums);
      add_rows<T, kWidth>(dy, args.C, c, workspace.sorted_positions + tail_begin, end - tail_begin,
                          sums);
      store_sums<kWidth>(args.dtable + v * args.C, args.C, c, sums);
    }
    begin = next_begin;
    end = next_end;
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

  int device = 0;
  SL_CUDA(cudaGetDevice(&device));
  int num_multiprocessors = 0;
  SL_CUDA(cudaDeviceGetAttribute(&num_multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const auto sum = [&]<typename T, int kWidth>() {
    if (args.N >= kChunk) {
      embedding_backward_sum_chunks<T, kWidth>
          <<<num_blocks_for(args.N / kChunk * kWarpSize), kBlockSize, 0, stream>>>(args, workspace);
      SL_CUDA(cudaGetLastError());
    }
    const std::int64_t num_blocks = std::min<std::int64_t>(num_blocks_for(args.V * kWarpSize),
                                                           num_multiprocessors * kBlocksThatStay);
    embedding_backward_write_rows<T, kWidth>
        <<<static_cast<unsigned>(num_blocks), kBlockSize, 0, stream>>>(args, workspace);
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
