#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/bundle.h"
#include "reports/document.h"

namespace steplens {

/// One matrix product that gemm=tuned ran, as the blocks' evidence has it.
struct GemmChoice {
  std::string product;  // "32768x4096x768 nt bfloat16": M x N x K, A or B transposed, types.
  std::int64_t heuristic_ns = 0;  // Of the algorithm that cuBLASLt puts first; 0: not measured.
  std::int64_t chosen_ns = 0;     // Of the one that ran.
  std::int64_t num_candidates = 0;
  std::int64_t tile_id = -1, stages_id = -1, split_k = -1;  // Of cublasLt.h; -1: not told.
  bool is_same_everywhere = true;                           // Each block ran this algorithm.
};

/// Of the first good block that has any, longest first; rows that are damaged are left out.
std::vector<GemmChoice> gemm_choices(const Bundle& bundle);

Table gemm_table(const std::vector<GemmChoice>& choices);

}  // namespace steplens
