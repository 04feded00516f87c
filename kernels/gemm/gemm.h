#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <cuda_runtime_api.h>
#include <nlohmann/json_fwd.hpp>

#include "kernels/vector.h"

namespace steplens {

/// cuBLASLt does not ask for more.
inline constexpr std::int64_t kMaxGemmAlignmentBytes = 256;

/// What decides which algorithm is fastest for a product C = A B or C = R + A B of row-major
/// matrices without gaps: A (M, K), B (K, N), R and C (M, N).
struct GemmShape {
  std::int64_t M = 0;
  std::int64_t N = 0;
  std::int64_t K = 0;
  bool is_a_transposed = false;                     // A lies as (K, M).
  bool is_b_transposed = false;                     // B lies as (N, K): a linear layer's weight.
  ElementType type = ElementType::kFloat32;         // Of A and B.
  ElementType output_type = ElementType::kFloat32;  // Of C; sums are fp32 whatever it is.
  bool is_added = false;                            // C = R + A B. The sum is rounded once.
  bool is_tf32 = false;  // fp32 operands may lose 13 bits of their mantissas.
  std::int64_t alignment_bytes = kMaxGemmAlignmentBytes;  // Of all pointers, at least.

  bool operator==(const GemmShape&) const = default;
};

/// "4096x768x32768 tn bfloat16": M x N x K, whether A and B are transposed, the types.
std::string name_of(const GemmShape& shape);

std::int64_t flops(const GemmShape& shape);          // 2 M N K.
std::int64_t minimum_bytes(const GemmShape& shape);  // A, B and R read once, C written once.

struct GemmArgs {
  GemmShape shape;  // Its alignment is found from the pointers.
  const void* a = nullptr;
  const void* b = nullptr;
  const void* r = nullptr;  // Of an added product, of C's type; null: C itself, C += A B.
  void* c = nullptr;
  void* workspace = nullptr;  // kGemmWorkspaceBytes; shared by products of one stream.
  void* counter = nullptr;    // kGemmCounterBytes, or null: see there.
  bool is_tuned = true;       // Else by the algorithm that cuBLASLt's heuristic puts first.
};

/// As much as cuBLAS takes on this generation of GPUs.
inline constexpr std::size_t kGemmWorkspaceBytes = std::size_t{32} << 20;

/// Most algorithms for compute capability 9.0 need 4 bytes: the tiles that blocks have taken, which
/// cuBLASLt clears before each product. With GemmArgs::counter such a product leaves the workspace
/// alone; and where products of one captured graph have counters of their own, one clearing is
/// enough for all (kernels/graph/memset_nodes.h).
inline constexpr std::size_t kGemmCounterBytes = 256;

/// Matrix products by the algorithm that was fastest on this device for their shape, instead of the
/// one that cuBLASLt's heuristic puts first.
///
/// A shape that is met for the first time is measured where it stands, on the very operands
/// (C += A B on buffers of its own): each algorithm that the heuristic offers; from 40 us on also
/// others that differ from the fastest in a tile, a cluster shape, an option, the order of tiles or
/// the splits of K, three times over (hundreds of them). The heuristic's first, its others and the
/// best 16 of those found, which must have its result, run 0.05 s each, and the first and the best
/// five again in turns of 0.1 s, so that the power limit, under which a training step runs, has its
/// say. The first stays unless another's median is 0.5 % faster. That takes seconds a large shape;
/// during the capture of a graph, or without memory for the buffers, the heuristic's first runs
/// unmeasured.
///
/// Choices are kept in a JSON file, one a device and cuBLASLt version, so that every block of an
/// experiment runs the same algorithms, and so the same sums. A file that is damaged, or was made
/// elsewhere, is made anew. One process may use several tables; one table is for one device.
class GemmTable {
 public:
  /// `folder`: where tables lie. Throws DeviceError if cuBLASLt does not start.
  explicit GemmTable(std::filesystem::path folder);
  ~GemmTable();
  GemmTable(const GemmTable&) = delete;
  GemmTable& operator=(const GemmTable&) = delete;

  /// Enqueues the product. Any thread. Throws ConfigError naming a size or type that cannot be, and
  /// DeviceError if no algorithm of cuBLASLt takes the product.
  void run(const GemmArgs& args, cudaStream_t stream);

  /// The tuned products that this process has run: table file, and per shape the algorithm's tile,
  /// stages and split, the times of the heuristic's choice and of the one taken, how many were
  /// tried, and whether it was measured at all.
  nlohmann::json facts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace steplens
