#include "kernels/gemm/plan.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr int kMaxCandidates = 200;  // cuBLASLt 13 offers about 8.
// Tiles this many times smaller than a good one are slower and many.
constexpr float kMaxWavesGrowth = 2;

cudaDataType_t cuda_type(ElementType type) {
  return type == ElementType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF;
}

void check(const GemmShape& shape, const char* call, cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw_gemm_error(shape, call, status);
}

std::size_t setting_bytes(cublasLtMatmulAlgoConfigAttributes_t attribute) {
  return attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID ||
                 attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID
             ? sizeof(std::uint16_t)
             : sizeof(std::uint32_t);
}

bool change_setting(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute,
                    std::uint32_t value) {
  return cublasLtMatmulAlgoConfigSetAttribute(&algorithm, attribute, &value,
                                              setting_bytes(attribute)) == CUBLAS_STATUS_SUCCESS;
}

std::vector<std::uint32_t> tiles_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::size_t num_bytes = 0;
  if (cublasLtMatmulAlgoCapGetAttribute(&algorithm, CUBLASLT_ALGO_CAP_TILE_IDS, nullptr, 0,
                                        &num_bytes) != CUBLAS_STATUS_SUCCESS) {
    return {};
  }
  std::vector<std::uint32_t> tiles(num_bytes / sizeof(std::uint32_t));
  if (cublasLtMatmulAlgoCapGetAttribute(&algorithm, CUBLASLT_ALGO_CAP_TILE_IDS, tiles.data(),
                                        num_bytes, &num_bytes) != CUBLAS_STATUS_SUCCESS) {
    return {};
  }
  return tiles;
}

std::vector<std::uint32_t> up_to(std::uint32_t last) {
  std::vector<std::uint32_t> values(last + 1);
  std::iota(values.begin(), values.end(), 0U);
  return values;
}

std::uint32_t last_custom_option(const cublasLtMatmulAlgo_t& algorithm) {
  constexpr std::int32_t kMostTried = 63;
  std::int32_t last = 0;
  std::size_t written = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoCapGetAttribute(
      &algorithm, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX, &last, sizeof last, &written);
  return status == CUBLAS_STATUS_SUCCESS
             ? static_cast<std::uint32_t>(std::clamp(last, 0, kMostTried))
             : 0;
}

}  // namespace

std::optional<std::uint32_t> gemm_setting(const cublasLtMatmulAlgo_t& algorithm,
                                          cublasLtMatmulAlgoConfigAttributes_t attribute) {
  std::uint32_t value = 0;  // Little-endian: narrower settings fill its first bytes.
  std::size_t written = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoConfigGetAttribute(
      &algorithm, attribute, &value, setting_bytes(attribute), &written);
  return status == CUBLAS_STATUS_SUCCESS ? std::optional(value) : std::nullopt;
}

void throw_gemm_error(const GemmShape& shape, const char* call, cublasStatus_t status) {
  throw DeviceError(fmt::format("gemm: product {}: {} returned {}", name_of(shape), call,
                                cublasLtGetStatusName(status)));
}

GemmPlan::GemmPlan(cublasLtHandle_t handle, const GemmShape& shape)
    : handle_(handle),
      shape_(shape) {
  const auto layout = [&](cublasLtMatrixLayout_t* result, ElementType type, std::int64_t rows,
                          std::int64_t columns) {
    // Row-major (rows, columns) is column-major (columns, rows).
    check(shape, "cublasLtMatrixLayoutCreate",
          cublasLtMatrixLayoutCreate(result, cuda_type(type), static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows), columns));
  };
  check(shape, "cublasLtMatmulDescCreate",
        cublasLtMatmulDescCreate(&operation_,
                                 shape.is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F));
  const cublasOperation_t first = shape.is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = shape.is_a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(shape, "cublasLtMatmulDescSetAttribute",
        cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                       sizeof first));
  check(shape, "cublasLtMatmulDescSetAttribute",
        cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                       sizeof second));
  layout(&a_, shape.type, shape.is_a_transposed ? shape.K : shape.M,
         shape.is_a_transposed ? shape.M : shape.K);
  layout(&b_, shape.type, shape.is_b_transposed ? shape.N : shape.K,
         shape.is_b_transposed ? shape.K : shape.N);
  layout(&c_, shape.output_type, shape.M, shape.N);
}

GemmPlan::~GemmPlan() {
  for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  }
  if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
}

std::vector<cublasLtMatmulAlgo_t> GemmPlan::candidates() const {
  cublasLtMatmulPreference_t preference = nullptr;
  check(shape_, "cublasLtMatmulPreferenceCreate", cublasLtMatmulPreferenceCreate(&preference));
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        decltype(&cublasLtMatmulPreferenceDestroy)>
      owner(preference, &cublasLtMatmulPreferenceDestroy);
  const std::size_t max_bytes = kGemmWorkspaceBytes;
  check(shape_, "cublasLtMatmulPreferenceSetAttribute",
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &max_bytes, sizeof max_bytes));
  const auto alignment = static_cast<std::uint32_t>(shape_.alignment_bytes);
  for (const cublasLtMatmulPreferenceAttributes_t attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    check(
        shape_, "cublasLtMatmulPreferenceSetAttribute",
        cublasLtMatmulPreferenceSetAttribute(preference, attribute, &alignment, sizeof alignment));
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(kMaxCandidates);
  int count = 0;
  check(shape_, "cublasLtMatmulAlgoGetHeuristic",
        cublasLtMatmulAlgoGetHeuristic(handle_, operation_, b_, a_, c_, c_, preference,
                                       kMaxCandidates, results.data(), &count));
  results.resize(static_cast<std::size_t>(count));
  std::vector<cublasLtMatmulAlgo_t> found;
  found.reserve(results.size());
  for (const cublasLtMatmulHeuristicResult_t& result : results) {
    if (result.state == CUBLAS_STATUS_SUCCESS) found.push_back(result.algo);
  }
  if (found.empty()) {
    throw_gemm_error(shape_, "cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED);
  }
  return found;
}

std::optional<GemmPlan::Needs> GemmPlan::needs(const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  if (cublasLtMatmulAlgoCheck(handle_, operation_, b_, a_, c_, c_, &algorithm, &result) !=
          CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > kGemmWorkspaceBytes) {
    return std::nullopt;
  }
  return Needs{.workspace_bytes = result.workspaceSize, .waves = result.wavesCount};
}

std::vector<cublasLtMatmulAlgo_t> GemmPlan::neighbours(
    const cublasLtMatmulAlgo_t& algorithm) const {
  struct Setting {
    cublasLtMatmulAlgoConfigAttributes_t attribute;
    std::vector<std::uint32_t> values;
  };
  constexpr std::uint32_t kMostSplits = 8;
  const Setting settings[] = {
      {CUBLASLT_ALGO_CONFIG_TILE_ID, tiles_of(algorithm)},
      {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, up_to(CUBLASLT_CLUSTER_SHAPE_END - 1)},
      {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, up_to(last_custom_option(algorithm))},
      {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, up_to(1)},
      {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, up_to(kMostSplits)}};
  const float own_waves = needs(algorithm).value_or(Needs{}).waves;
  std::vector<cublasLtMatmulAlgo_t> result;
  for (const Setting& setting : settings) {
    const std::uint32_t own = gemm_setting(algorithm, setting.attribute).value_or(0);
    for (const std::uint32_t value : setting.values) {
      cublasLtMatmulAlgo_t changed = algorithm;
      if (value == own || !change_setting(changed, setting.attribute, value)) continue;
      const std::optional<Needs> changed_needs = needs(changed);
      if (!changed_needs || (own_waves > 0 && changed_needs->waves > kMaxWavesGrowth * own_waves)) {
        continue;
      }
      result.push_back(changed);
    }
  }
  return result;
}

cublasStatus_t GemmPlan::run(const GemmArgs& args, const cublasLtMatmulAlgo_t& algorithm,
                             std::size_t workspace_bytes, cudaStream_t stream) const {
  const float one = 1;
  const float beta = shape_.is_added ? 1 : 0;
  const void* added = args.r != nullptr ? args.r : args.c;
  return cublasLtMatmul(handle_, operation_, &one, args.b, b_, args.a, a_, &beta, added, c_, args.c,
                        c_, &algorithm, args.workspace, workspace_bytes, stream);
}

}  // namespace steplens
