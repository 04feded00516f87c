// The matrix products of a training step at the shapes of two models, bf16 with sums in fp32: by
// the algorithm that cuBLASLt's heuristic puts first, and by the one that gemm=tuned takes; those
// that end a branch also as residual=fused runs them (forward_added). A: 32768 rows, d 768, ffn
// 2048, V 50304 (124M parameters); B: 16384 rows, d 2048, ffn 5632, V 32000 (1B). The loss takes
// its rows in chunks of 8192. Operands are random: zeros draw less power, and a product of this
// size runs into the power limit. Times are those of the GPU, between events around 20 launches of
// one CUDA graph, as long without a pause as --benchmark_min_time says: give it 1 s to see what
// holds in a step. peak_share_ratio is against the fastest algorithm on 8192 x 8192 x 8192, timed
// in the same process.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/device_work.h"
#include <benchmark/benchmark.h>

#include "kernels/device.h"
#include "kernels/gemm/plan.h"
#include "kernels/gemm/tune.h"

namespace steplens {
namespace {

constexpr ElementType kB = ElementType::kBfloat16;
constexpr int kNumPeakBatches = 25;

cublasLtHandle_t handle() {
  static const cublasLtHandle_t result = [] {
    cublasLtHandle_t made = nullptr;
    if (cublasLtCreate(&made) != CUBLAS_STATUS_SUCCESS) std::abort();
    return made;
  }();
  return result;
}

// One product on operands of its own.
class Product {
 public:
  explicit Product(const GemmShape& shape) : plan_(handle(), shape) {
    args_ = {.shape = shape,
             .a = buffers_.random(shape.type, shape.M * shape.K),
             .b = buffers_.random(shape.type, shape.K * shape.N),
             .c = buffers_.empty(shape.M * shape.N * element_bytes(shape.output_type)),
             .workspace = buffers_.empty(kGemmWorkspaceBytes)};
    if (shape.is_added) args_.r = buffers_.random(shape.output_type, shape.M * shape.N);
  }
  cublasLtMatmulAlgo_t heuristic() const { return plan_.candidates().front(); }
  cublasLtMatmulAlgo_t tuned() const { return tune(plan_, args_, nullptr).value; }
  Launch launch(const cublasLtMatmulAlgo_t& algorithm) const {
    return [this, algorithm](cudaStream_t stream) {
      if (const auto status = plan_.run(args_, algorithm, kGemmWorkspaceBytes, stream);
          status != CUBLAS_STATUS_SUCCESS) {
        throw_gemm_error(args_.shape, "cublasLtMatmul", status);
      }
    };
  }

 private:
  Buffers buffers_;
  GemmPlan plan_;
  GemmArgs args_;
};

double peak_flops_per_s() {
  static const double result = [] {
    const GemmShape shape = {
        .M = 8192, .N = 8192, .K = 8192, .is_b_transposed = true, .type = kB, .output_type = kB};
    const Product product(shape);
    Batch batch({product.launch(product.tuned())});
    double best_s = batch.seconds_per_launch();
    for (int i = 0; i < kNumPeakBatches; ++i) {
      best_s = std::min(best_s, batch.seconds_per_launch());
    }
    return static_cast<double>(flops(shape)) / best_s;
  }();
  return result;
}

void gemm_bench(benchmark::State& state, const GemmShape& shape, bool is_tuned) {
  if (!has_gpu()) {
    state.SkipWithError("no GPU");
    return;
  }
  const double peak = peak_flops_per_s();
  const Product product(shape);
  Batch batch({product.launch(is_tuned ? product.tuned() : product.heuristic())});
  for (auto _ : state) state.SetIterationTime(batch.seconds_per_launch());
  using benchmark::Counter;
  const auto num_flops = static_cast<double>(flops(shape));
  state.counters["flops_per_s"] = Counter(num_flops, Counter::kIsIterationInvariantRate);
  state.counters["peak_share_ratio"] =
      Counter(num_flops / peak, Counter::kIsIterationInvariantRate);
  state.SetBytesProcessed(state.iterations() * minimum_bytes(shape));
}

void add(const std::string& name, const GemmShape& shape) {
  for (const bool is_tuned : {false, true}) {
    const std::string whole = name + (is_tuned ? "/tuned" : "/heuristic");
    benchmark::RegisterBenchmark(
        whole.c_str(), [=](benchmark::State& state) { gemm_bench(state, shape, is_tuned); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
}

// A linear layer of `num_in` to `num_out` channels on `num_rows` rows: its product forward and the
// two backward; where it ends a branch, forward with the residual add too.
void add_layer(const std::string& name, std::int64_t num_rows, std::int64_t num_in,
               std::int64_t num_out, bool ends_branch = false) {
  add(name + "/forward", {.M = num_rows,
                          .N = num_out,
                          .K = num_in,
                          .is_b_transposed = true,
                          .type = kB,
                          .output_type = kB});
  if (ends_branch) {
    add(name + "/forward_added", {.M = num_rows,
                                  .N = num_out,
                                  .K = num_in,
                                  .is_b_transposed = true,
                                  .type = kB,
                                  .output_type = kB,
                                  .is_added = true});
  }
  add(name + "/input_gradient",
      {.M = num_rows, .N = num_in, .K = num_out, .type = kB, .output_type = kB});
  add(name + "/weight_gradient", {.M = num_out,
                                  .N = num_in,
                                  .K = num_rows,
                                  .is_a_transposed = true,
                                  .type = kB,
                                  .output_type = kB});
}

const bool is_registered = [] {
  struct Model {
    const char* name;
    std::int64_t num_rows, d_model, ffn_width, vocab_size;
  };
  constexpr std::int64_t kChunkRows = 8192;
  for (const auto& [model, num_rows, d_model, ffn_width, vocab_size] :
       {Model{"A", 32768, 768, 2048, 50304}, Model{"B", 16384, 2048, 5632, 32000}}) {
    const std::string prefix = std::string("gemm/") + model;
    add_layer(prefix + "/wqkv", num_rows, d_model, 3 * d_model);
    add_layer(prefix + "/wo", num_rows, d_model, d_model, /*ends_branch=*/true);
    add_layer(prefix + "/w13", num_rows, d_model, 2 * ffn_width);
    add_layer(prefix + "/w2", num_rows, ffn_width, d_model, /*ends_branch=*/true);
    add_layer(prefix + "/head_chunk", kChunkRows, d_model, vocab_size);
  }
  return true;
}();

}  // namespace
}  // namespace steplens
