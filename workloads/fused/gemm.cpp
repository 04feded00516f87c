#include "workloads/fused/gemm.h"

#include <atomic>
#include <map>
#include <mutex>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/autograd/custom_function.h>

#include "harness/cache_folder.h"
#include "kernels/gemm/gemm.h"
#include "kernels/graph/memset_nodes.h"
#include "workloads/evidence.h"
#include "workloads/fused/launch.h"

namespace steplens {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Products of a stream take counters in turn, so that those of a captured step have one each: a
// step of gpt2-124m has 147.
constexpr std::int64_t kNumCounters = 8192;
constexpr auto kCounterBytes = static_cast<std::int64_t>(kGemmCounterBytes);

struct StreamBuffers {
  at::Tensor workspace, counters;
  std::int64_t next_counter = 0;

  void* take_counter() {
    void* const counter = counters.data_ptr<std::uint8_t>() + next_counter * kCounterBytes;
    next_counter = (next_counter + 1) % kNumCounters;
    return counter;
  }
};

// The process's table and each stream's buffers. Never destroyed: at exit the driver may be gone
// before they are.
struct Products {
  GemmTable table{cache_folder_of("STEPLENS_GEMM_TABLES", "gemm")};
  std::map<cudaStream_t, StreamBuffers> streams;
  std::mutex mutex;

  struct Buffers {
    void* workspace;
    void* counter;
  };
  Buffers buffers(cudaStream_t stream, const at::TensorOptions& options) {
    const std::scoped_lock lock(mutex);
    StreamBuffers& own = streams[stream];
    if (!own.workspace.defined()) {
      const auto make = [&](std::int64_t num_bytes) {
        return at::empty({num_bytes}, options.dtype(at::kByte));
      };
      own.workspace = make(static_cast<std::int64_t>(kGemmWorkspaceBytes));
      own.counters = make(kNumCounters * kCounterBytes);
    }
    return {.workspace = own.workspace.data_ptr(), .counter = own.take_counter()};
  }
};

std::atomic<bool> has_products = false;

Products& own_products() {
  static auto* const products = new Products;
  has_products = true;
  return *products;
}

struct Operand {
  const void* data = nullptr;
  bool is_transposed = false;
};

Operand operand_of(const at::Tensor& matrix) {
  TORCH_CHECK(matrix.dim() == 2);
  const bool is_transposed = !matrix.is_contiguous();
  TORCH_CHECK(!is_transposed || matrix.t().is_contiguous(), "a product's operand has gaps");
  return {.data = matrix.data_ptr(), .is_transposed = is_transposed};
}

void count_product(const at::Tensor& a, bool is_tf32) {
  count_event(a.scalar_type() == at::kBFloat16 ? "matmuls_bf16"
              : is_tf32                        ? "matmuls_tf32"
                                               : "matmuls_fp32");
}

// By cuBLASLt. `residual` may be undefined: out = a b, or out += a b.
void own_mm_out(Gemm gemm, at::Tensor& out, const at::Tensor& residual, const at::Tensor& a,
                const at::Tensor& b, bool is_added) {
  TORCH_CHECK(out.is_contiguous() && a.size(1) == b.size(0) && out.size(0) == a.size(0) &&
              out.size(1) == b.size(1) && a.scalar_type() == b.scalar_type());
  TORCH_CHECK(!residual.defined() || (residual.is_contiguous() && residual.sizes() == out.sizes() &&
                                      residual.scalar_type() == out.scalar_type()));
  const Operand left = operand_of(a);
  const Operand right = operand_of(b);
  const bool is_tf32 = a.scalar_type() == at::kFloat && at::globalContext().allowTF32CuBLAS();
  const cudaStream_t stream = current_stream();
  Products& products = own_products();
  const Products::Buffers buffers = products.buffers(stream, out.options());
  products.table.run({.shape = {.M = a.size(0),
                                .N = b.size(1),
                                .K = a.size(1),
                                .is_a_transposed = left.is_transposed,
                                .is_b_transposed = right.is_transposed,
                                .type = element_type_of(a),
                                .output_type = element_type_of(out),
                                .is_added = is_added || residual.defined(),
                                .is_tf32 = is_tf32},
                      .a = left.data,
                      .b = right.data,
                      .r = pointer_of(residual),
                      .c = out.data_ptr(),
                      .workspace = buffers.workspace,
                      .counter = buffers.counter,
                      .is_tuned = gemm == Gemm::kTuned},
                     stream);
  if (gemm == Gemm::kTuned) count_event("tuned_gemms");
  count_product(a, is_tf32);
}

void tuned_mm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                  bool is_added = false) {
  own_mm_out(Gemm::kTuned, out, {}, a, b, is_added);
}

void aten_mm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool is_added) {
  const bool is_one_type = out.scalar_type() == a.scalar_type();
  if (is_added && is_one_type) {
    at::addmm_out(out, out, a, b);
  } else if (is_added) {
    at::addmm_out(out, out, a, b, out.scalar_type());
  } else if (is_one_type) {
    at::mm_out(out, a, b);
  } else {
    at::mm_out(out, a, b, out.scalar_type());
  }
}

struct TunedLinear : torch::autograd::Function<TunedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_K,
                            const at::Tensor& weight_in) {
    const at::Tensor x_MK = rows_of(x_K);
    const at::Tensor weight_NK = weight_in.contiguous();
    at::Tensor y_MN = at::empty({x_MK.size(0), weight_NK.size(0)}, x_MK.options());
    tuned_mm_out(y_MN, x_MK, weight_NK.t());
    context->save_for_backward({x_MK, weight_NK});
    std::vector<std::int64_t> sizes = x_K.sizes().vec();
    sizes.back() = weight_NK.size(0);
    return y_MN.view(sizes);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x_MK = saved[0];
    const at::Tensor& weight_NK = saved[1];
    const at::Tensor dy_MN = rows_of(gradients.front());
    variable_list result(2);
    if (context->needs_input_grad(0)) {
      at::Tensor dx_MK = at::empty_like(x_MK);
      tuned_mm_out(dx_MK, dy_MN, weight_NK);
      std::vector<std::int64_t> sizes = gradients.front().sizes().vec();
      sizes.back() = x_MK.size(1);
      result[0] = dx_MK.view(sizes);
    }
    if (context->needs_input_grad(1)) {
      result[1] = at::empty_like(weight_NK);
      tuned_mm_out(result[1], dy_MN.t(), x_MK);
    }
    return result;
  }
};

}  // namespace

void mm_out_by(Gemm gemm, at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
               bool is_added) {
  if (gemm == Gemm::kTuned) {
    tuned_mm_out(out, a, b, is_added);
  } else {
    aten_mm_out(out, a, b, is_added);
  }
}

void add_mm_out_by(Gemm gemm, at::Tensor& out, const at::Tensor& residual, const at::Tensor& a,
                   const at::Tensor& b) {
  own_mm_out(gemm, out, residual, a, b, /*is_added=*/true);
}

at::Tensor tuned_linear(const at::Tensor& x_K, const at::Tensor& weight_NK) {
  if (!at::autocast::is_autocast_enabled(at::kCUDA)) return TunedLinear::apply(x_K, weight_NK);
  const at::ScalarType type = at::autocast::get_autocast_dtype(at::kCUDA);
  return TunedLinear::apply(at::autocast::cached_cast(type, x_K, at::kCUDA),
                            at::autocast::cached_cast(type, weight_NK, at::kCUDA));
}

std::int64_t gather_counters(cudaGraph_t graph) {
  if (!has_products) return 0;
  Products& products = own_products();
  const std::scoped_lock lock(products.mutex);
  std::int64_t num_gathered = 0;
  for (const auto& [stream, buffers] : products.streams) {
    num_gathered += gather_memset_nodes(graph, buffers.counters.data_ptr(),
                                        static_cast<std::size_t>(buffers.counters.nbytes()));
  }
  return num_gathered;
}

nlohmann::json tuned_gemm_facts() { return own_products().table.facts(); }

}  // namespace steplens
