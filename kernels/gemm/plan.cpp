#include "kernels/gemm/plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/error.h"
#include "kernels/cuda_check.h"

namespace steplens {
namespace {

constexpr int kMaxCandidates = 200;  // cuBLASLt 13 offers about 8.
constexpr std::size_t kNumFinalists = 4;
constexpr int kNumFinalRounds = 3;
constexpr double kMinGain = 0.005;
// Of one timing. Large products run a GPU into its power limit within milliseconds; from then on
// what they take is the energy that they need, and the fastest at full clocks need not be best. A
// product of microseconds does not, and is repeated 1000 times at most.
constexpr double kMaxTimedUs = 100'000;
constexpr double kMaxRuns = 1000;

cudaDataType_t cuda_type(ElementType type) {
  return type == ElementType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF;
}

void check(const GemmShape& shape, const char* call, cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw_gemm_error(shape, call, status);
}

class Event {
 public:
  Event() { SL_CUDA(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Zeros for a product to be added to in place; null if there is no memory.
class ZeroBuffer {
 public:
  ZeroBuffer(std::size_t bytes, cudaStream_t stream) {
    if (cudaMalloc(&data_, bytes) != cudaSuccess) {
      cudaGetLastError();  // Not an error of what follows.
      data_ = nullptr;
      return;
    }
    SL_CUDA(cudaMemsetAsync(data_, 0, bytes, stream));
  }
  ~ZeroBuffer() { cudaFree(data_); }
  ZeroBuffer(const ZeroBuffer&) = delete;
  ZeroBuffer& operator=(const ZeroBuffer&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Candidate {
  cublasLtMatmulAlgo_t algorithm{};
  double first_us = 0;             // Of the screening.
  std::vector<double> final_us{};  // Of the rounds in turns.
};

class Stopwatch {
 public:
  Stopwatch(const GemmPlan& plan, const GemmArgs& args, cudaStream_t stream)
      : plan_(plan),
        args_(args),
        stream_(stream) {}

  // Mean time of one product; infinite if the algorithm fails.
  double time_us(const cublasLtMatmulAlgo_t& algorithm, int num_runs) const {
    SL_CUDA(cudaEventRecord(start_.get(), stream_));
    for (int i = 0; i < num_runs; ++i) {
      if (plan_.run(args_, algorithm, stream_) != CUBLAS_STATUS_SUCCESS) {
        cudaGetLastError();
        return HUGE_VAL;
      }
    }
    SL_CUDA(cudaEventRecord(end_.get(), stream_));
    SL_CUDA(cudaEventSynchronize(end_.get()));
    float elapsed_ms = 0;
    SL_CUDA(cudaEventElapsedTime(&elapsed_ms, start_.get(), end_.get()));
    return 1e3 * static_cast<double>(elapsed_ms) / num_runs;
  }

 private:
  const GemmPlan& plan_;
  const GemmArgs& args_;
  cudaStream_t stream_;
  Event start_, end_;
};

}  // namespace

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

bool GemmPlan::takes(const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  return cublasLtMatmulAlgoCheck(handle_, operation_, b_, a_, c_, c_, &algorithm, &result) ==
             CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= kGemmWorkspaceBytes;
}

cublasStatus_t GemmPlan::run(const GemmArgs& args, const cublasLtMatmulAlgo_t& algorithm,
                             cudaStream_t stream) const {
  const float one = 1;
  const float beta = shape_.is_added ? 1 : 0;
  const void* added = args.r != nullptr ? args.r : args.c;
  return cublasLtMatmul(handle_, operation_, &one, args.b, b_, args.a, a_, &beta, added, c_, args.c,
                        c_, &algorithm, args.workspace, kGemmWorkspaceBytes, stream);
}

GemmAlgorithm GemmPlan::measure(const GemmArgs& args, cudaStream_t stream) const {
  GemmArgs own = args;
  std::unique_ptr<ZeroBuffer> zeros;
  if (shape_.is_added && args.r == nullptr) {
    zeros = std::make_unique<ZeroBuffer>(
        static_cast<std::size_t>(shape_.M * shape_.N * element_bytes(shape_.output_type)), stream);
    own.c = zeros->data();
  }
  std::vector<Candidate> candidates;
  for (const cublasLtMatmulAlgo_t& algorithm : this->candidates()) {
    candidates.push_back({.algorithm = algorithm});
  }
  GemmAlgorithm result{.value = candidates.front().algorithm,
                       .num_candidates = static_cast<int>(candidates.size())};
  if (own.c == nullptr || candidates.size() == 1) return result;

  const Stopwatch stopwatch(*this, own, stream);
  for (Candidate& candidate : candidates) {
    // The first run loads the kernel.
    const double once_us = stopwatch.time_us(candidate.algorithm, 1);
    candidate.first_us = once_us == HUGE_VAL ? HUGE_VAL : stopwatch.time_us(candidate.algorithm, 3);
  }
  if (candidates.front().first_us == HUGE_VAL) {
    throw_gemm_error(shape_, "cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED);
  }
  const int num_runs = static_cast<int>(
      std::clamp(kMaxTimedUs / std::max(1.0, candidates.front().first_us), 3.0, kMaxRuns));
  // The heuristic's first choice stays first, whatever its time.
  std::ranges::sort(candidates.begin() + 1, candidates.end(), {}, &Candidate::first_us);
  candidates.resize(std::min(candidates.size(), 1 + kNumFinalists));
  std::erase_if(candidates, [](const Candidate& c) { return c.first_us == HUGE_VAL; });
  for (int round = 0; round < kNumFinalRounds; ++round) {
    for (Candidate& candidate : candidates) {
      candidate.final_us.push_back(stopwatch.time_us(candidate.algorithm, num_runs));
    }
  }
  const double heuristic_us = median(candidates.front().final_us);
  double chosen_us = heuristic_us;
  for (const Candidate& candidate : candidates) {
    const double time_us = median(candidate.final_us);
    if (time_us >= chosen_us || time_us > heuristic_us * (1 - kMinGain)) continue;
    chosen_us = time_us;
    result.value = candidate.algorithm;
  }
  result.heuristic_ns = std::llround(1e3 * heuristic_us);
  result.chosen_ns = std::llround(1e3 * chosen_us);
  return result;
}

}  // namespace steplens
