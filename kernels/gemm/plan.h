#pragma once

#include <optional>
#include <vector>

#include <cublasLt.h>

#include "kernels/gemm/gemm.h"

namespace steplens {

/// One algorithm of cuBLASLt, usable with the version and device that it came from.
struct GemmAlgorithm {
  cublasLtMatmulAlgo_t value{};
  std::int64_t heuristic_ns = 0;  // Time of the heuristic's first choice; 0: not measured.
  std::int64_t chosen_ns = 0;     // Time of this one.
  int num_candidates = 0;

  bool is_measured() const { return chosen_ns > 0; }
};

/// A setting of an algorithm, such as its tile; nothing where it has none.
std::optional<std::uint32_t> gemm_setting(const cublasLtMatmulAlgo_t& algorithm,
                                          cublasLtMatmulAlgoConfigAttributes_t attribute);

/// cuBLASLt's descriptors of one shape. Row-major C = A B is column-major C^T = B^T A^T: B is the
/// library's first operand.
class GemmPlan {
 public:
  /// Throws DeviceError naming shape and status.
  GemmPlan(cublasLtHandle_t handle, const GemmShape& shape);
  ~GemmPlan();
  GemmPlan(const GemmPlan&) = delete;
  GemmPlan& operator=(const GemmPlan&) = delete;

  /// The heuristic's offers, best guess first; at least one.
  std::vector<cublasLtMatmulAlgo_t> candidates() const;

  struct Needs {
    std::size_t workspace_bytes = 0;
    float waves = 0;  // How often the algorithm fills the GPU.
  };
  /// Nothing if the algorithm does not take the product within kGemmWorkspaceBytes.
  std::optional<Needs> needs(const cublasLtMatmulAlgo_t& algorithm) const;

  /// `workspace_bytes`: of args.workspace.
  cublasStatus_t run(const GemmArgs& args, const cublasLtMatmulAlgo_t& algorithm,
                     std::size_t workspace_bytes, cudaStream_t stream) const;

  /// Algorithms that differ from this one in one setting (tile, cluster shape, custom option,
  /// swizzle or number of splits of K) and take the product. Tiles less than half as large are left
  /// out.
  std::vector<cublasLtMatmulAlgo_t> neighbours(const cublasLtMatmulAlgo_t& algorithm) const;

 private:
  cublasLtHandle_t handle_;
  GemmShape shape_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr;
  cublasLtMatrixLayout_t c_ = nullptr;
};

[[noreturn]] void throw_gemm_error(const GemmShape& shape, const char* call, cublasStatus_t status);

}  // namespace steplens
