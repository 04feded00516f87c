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
#include "kernels/device.h"
#include "kernels/vector.cuh"

namespace steplens {
namespace {

constexpr std::string_view kOp = "embedding_backward";
constexpr int kBlockSize = 256;
constexpr int kBlocksThatStay = 4;  // On each multiprocessor: 32 warps of 64 registers.
// The longest sum has N / 32 + 64 terms, even if all tokens are alike. A position for each lane.
constexpr int kChunk = kWarpSize;

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

// A warp's lanes hold kWidth channels each: a slab of a row.
template <int kWidth>
inline constexpr int kSlab = kWarpSize * kWidth;

template <int kWidth>
__host__ __device__ int slabs_of_row(std::int64_t C) {
  return static_cast<int>((C + kSlab<kWidth> - 1) / kSlab<kWidth>);
}

// Adds to `sums` kWidth channels, if `is_active`, of `count` rows of C, the first at `data`, number
// i at row_of(i); the loads of kBatch rows go ahead of their additions. All lanes take part.
template <typename T, int kWidth, int kBatch, typename RowOf>
__device__ void add_rows(const T* data, std::int64_t C, bool is_active, int count, RowOf row_of,
                         float (&sums)[kWidth]) {
#pragma unroll 1  // The batch is the unrolling: more spills registers.
  for (int i = 0; i < count; i += kBatch) {
    Packed<T, kWidth> rows[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (i + j >= count) continue;
      const std::int64_t row = row_of(i + j);
      if (is_active) rows[j].load(data + row * C);
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (i + j >= count || !is_active) continue;
      float values[kWidth];
      rows[j].unpack(values);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sums[k] += values[k];
    }
  }
}

// A warp sums a slab of one chunk, if one token fills it.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kBlockSize)
    embedding_backward_sum_chunks(const EmbeddingBackwardArgs args, Workspace workspace) {
  const int num_slabs = slabs_of_row<kWidth>(args.C);
  const int unit = static_cast<int>(blockIdx.x) * (kBlockSize / kWarpSize) +
                   static_cast<int>(threadIdx.x) / kWarpSize;
  const int chunk = unit / num_slabs;
  const std::int64_t first = static_cast<std::int64_t>(chunk) * kChunk;
  if (first + kChunk > args.N) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int32_t position = workspace.sorted_positions[first + lane];
  const std::uint32_t token = workspace.sorted_tokens[first];
  if (token != workspace.sorted_tokens[first + kChunk - 1] || token >= args.V) return;
  const int c = (unit - chunk * num_slabs) * kSlab<kWidth> + lane * kWidth;
  float sums[kWidth] = {};
  add_rows<T, kWidth, 8>(
      static_cast<const T*>(args.dy) + c, args.C, c < args.C, kChunk,
      [&](int i) { return __shfl_sync(0xffffffffu, position, i); }, sums);
  if (c >= args.C) return;
  Packed<float, kWidth> packed;
  packed.pack(sums);
  packed.store(workspace.chunk_sums + chunk * args.C + c);
}

// The sorted positions of one token.
struct Segment {
  int begin = 0;
  int end = 0;
};

// Warps write slabs of dtable in turn: the sum of the positions before the segment's first whole
// chunk, of the chunks, of the rest. Few blocks that stay: launching one a row takes as long as
// writing the row. Most segments are so short that a warp would do nothing but wait: for their
// ends, then their positions, then the rows of dy. So the ends are read two slabs ahead, positions
// one.
template <typename T, typename D, int kWidth>
__global__ void __launch_bounds__(kBlockSize, kBlocksThatStay)
    embedding_backward_write_rows(const EmbeddingBackwardArgs args, Workspace workspace) {
  constexpr int kWarpsPerBlock = kBlockSize / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int num_slabs = slabs_of_row<kWidth>(args.C);
  const int num_units = static_cast<int>(args.V) * num_slabs;
  const int num_warps = static_cast<int>(gridDim.x) * kWarpsPerBlock;
  const auto segment_of = [&](int unit) -> Segment {
    if (unit >= num_units) return {};
    const int v = unit / num_slabs;
    return {workspace.offsets[v], workspace.offsets[v + 1]};
  };
  // Of this lane's place among the 32 from `begin` on.
  const auto position_at = [&](int begin, int end) {
    return begin + lane < end ? workspace.sorted_positions[begin + lane] : 0;
  };

  int unit =
      static_cast<int>(blockIdx.x) * kWarpsPerBlock + static_cast<int>(threadIdx.x) / kWarpSize;
  Segment segment = segment_of(unit);
  Segment next = segment_of(unit + num_warps);
  std::int32_t position = position_at(segment.begin, segment.end);
  for (; unit < num_units; unit += num_warps) {
    const Segment after_next = segment_of(unit + 2 * num_warps);
    const std::int32_t next_position = position_at(next.begin, next.end);
    const int v = unit / num_slabs;
    const int c = (unit - v * num_slabs) * kSlab<kWidth> + lane * kWidth;
    const bool is_active = c < args.C;
    const auto [begin, end] = segment;
    const int first_chunk = (begin + kChunk - 1) / kChunk;
    const int last_chunk = max(first_chunk, end / kChunk);
    const int head_end = min(end, first_chunk * kChunk);
    const int tail_begin = max(head_end, last_chunk * kChunk);

    const T* dy = static_cast<const T*>(args.dy) + c;
    float sums[kWidth] = {};
    add_rows<T, kWidth, 4>(
        dy, args.C, is_active, head_end - begin,
        [&](int i) { return __shfl_sync(0xffffffffu, position, i); }, sums);
    add_rows<float, kWidth, 2>(
        workspace.chunk_sums + c, args.C, is_active, last_chunk - first_chunk,
        [&](int i) { return first_chunk + i; }, sums);
    if (tail_begin < end) {
      const std::int32_t tail_position = position_at(tail_begin, end);
      add_rows<T, kWidth, 4>(
          dy, args.C, is_active, end - tail_begin,
          [&](int i) { return __shfl_sync(0xffffffffu, tail_position, i); }, sums);
    }
    if (is_active) {
      Packed<D, kWidth> packed;
      packed.pack(sums);
      packed.store(static_cast<D*>(args.dtable) + v * args.C + c);
    }
    segment = next;
    next = after_next;
    position = next_position;
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
  // Slabs are counted in 32 bits, and a warp looks two of its turns ahead.
  constexpr std::int64_t kMaxSlabs = std::int64_t{1} << 30;
  const std::int64_t num_slabs = (C + kWarpSize - 1) / kWarpSize;
  check_argument(std::max(V, N / kChunk) <= kMaxSlabs / num_slabs, kOp, "C", C,
                 "2^30 pieces of 32 channels, in V rows and in N / 32");
}

}  // namespace

std::size_t embedding_backward_workspace_bytes(std::int64_t N, std::int64_t C, std::int64_t V) {
  check(N, C, V);
  return lay_out(nullptr, N, C, V).num_bytes;
}

void embedding_backward(const EmbeddingBackwardArgs& args, cudaStream_t stream) {
  check(args.N, args.C, args.V);
  check_argument(
      args.dy_type == ElementType::kBfloat16 || args.dtable_type == ElementType::kFloat32, kOp,
      "dtable_type", static_cast<int>(args.dtable_type), "float32 where dy is float32");
  if (args.N == 0) {
    const std::int64_t num_bytes = args.V * args.C * element_bytes(args.dtable_type);
    SL_CUDA(cudaMemsetAsync(args.dtable, 0, static_cast<std::size_t>(num_bytes), stream));
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

  const auto sum = [&]<typename T, typename D, int kWidth>() {
    if (args.N >= kChunk) {
      const std::int64_t num_warps = args.N / kChunk * slabs_of_row<kWidth>(args.C);
      embedding_backward_sum_chunks<T, kWidth>
          <<<num_blocks_for(num_warps * kWarpSize), kBlockSize, 0, stream>>>(args, workspace);
      SL_CUDA(cudaGetLastError());
    }
    const std::int64_t num_blocks = std::min<std::int64_t>(num_multiprocessors() * kBlocksThatStay,
                                                           num_blocks_for(args.V * kWarpSize));
    embedding_backward_write_rows<T, D, kWidth>
        <<<static_cast<unsigned>(num_blocks), kBlockSize, 0, stream>>>(args, workspace);
    SL_CUDA(cudaGetLastError());
  };
  const auto sum_of_types = [&]<typename T, typename D>() {
    constexpr int kWidth = kVectorWidth<T>;
    if (args.C % kWidth == 0 && is_aligned(args.dy) && is_aligned(args.dtable)) {
      sum.template operator()<T, D, kWidth>();
    } else {
      sum.template operator()<T, D, 1>();
    }
  };
  if (args.dy_type == ElementType::kFloat32) {
    sum_of_types.template operator()<float, float>();
  } else if (args.dtable_type == ElementType::kFloat32) {
    sum_of_types.template operator()<Bfloat16, float>();
  } else {
    sum_of_types.template operator()<Bfloat16, Bfloat16>();
  }
}

}  // namespace steplens
