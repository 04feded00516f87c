#include "kernels/adamw/adamw.h"

#include <algorithm>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "harness/error.h"
#include "kernels/cuda_check.h"

namespace steplens {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 4;  // Elements of a 16-byte access in fp32.
// Vectors of each array that a thread has in flight. With plain accesses an H200 then moves fp32 at
// 94 % of a device copy's rate, bf16 gradients and copies at 95 % (reports/published/h200-kernels).
constexpr int kUnroll = 2;

// Blocks of the norm's first stage: 8 a multiprocessor of an H200. Fixed, so that the order of the
// sum does not depend on the device.
constexpr int kNormBlocks = 1056;

// Tensors of one launch: their addresses and the other parameters fit the 4 KiB that every driver
// takes.
constexpr std::size_t kTensorsPerLaunch = 480;

struct Gradients {
  const void* data[kTensorsPerLaunch];
};

// What the chunks of one launch have in common.
struct LaunchRange {
  const AdamwTensor* tensors;  // Of the whole table.
  const TensorChunk* chunks;   // The launch's first.
  std::int32_t first_tensor;
  std::int32_t num_chunks;
};

// Scalars of one update, made on the device by one thread.
struct UpdateScalars {
  float clip;
  float learning_rate;
  float step_size;            // lr / (1 - beta1^t)
  float inverse_correction2;  // 1 / sqrt(1 - beta2^t)
  float is_skipped;
};
static_assert(sizeof(UpdateScalars) <= kAdamwWorkspaceBytes);

struct Betas {
  float one_minus_beta1, beta2, one_minus_beta2, epsilon;
};

__device__ float4 load_gradient(const void* data, std::int64_t i, ElementType type,
                                bool is_aligned) {
  if (type == ElementType::kFloat32) {
    const auto* values = static_cast<const float*>(data) + i;
    if (is_aligned) return *reinterpret_cast<const float4*>(values);
    return {values[0], values[1], values[2], values[3]};
  }
  const auto* values = static_cast<const __nv_bfloat16*>(data) + i;
  if (is_aligned) {
    const uint2 bits = *reinterpret_cast<const uint2*>(values);
    return {__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000u),
            __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xffff0000u)};
  }
  return {__bfloat162float(values[0]), __bfloat162float(values[1]), __bfloat162float(values[2]),
          __bfloat162float(values[3])};
}

__device__ float load_one_gradient(const void* data, std::int64_t i, ElementType type) {
  return type == ElementType::kFloat32
             ? static_cast<const float*>(data)[i]
             : __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
}

__device__ bool is_vector_aligned(const void* data, ElementType type) {
  return reinterpret_cast<std::uintptr_t>(data) % (type == ElementType::kFloat32 ? 16 : 8) == 0;
}

// ---- gradient norm: stage 1, a fixed set of blocks walks the chunks; stage 2, one block adds.
// ----

__device__ float block_sum(float value) {
  __shared__ float warps[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, offset);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  if (threadIdx.x == 0) {
    for (const float warp : warps) sum += warp;
  }
  return sum;  // Of thread 0.
}

__global__ void __launch_bounds__(kThreads)
    gradient_norm_partial_kernel(const LaunchRange range,
                                 const __grid_constant__ Gradients gradients, float* partials) {
  float sums[kVector] = {};
  for (int c = static_cast<int>(blockIdx.x); c < range.num_chunks; c += kNormBlocks) {
    const TensorChunk chunk = range.chunks[c];
    const ElementType type = range.tensors[chunk.tensor_index].gradient_type;
    const void* data = gradients.data[chunk.tensor_index - range.first_tensor];
    const bool is_aligned = is_vector_aligned(data, type);
    const int num_vectors = chunk.num_elements / kVector;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < num_vectors; i += kThreads) {
      const float4 g = load_gradient(data, chunk.first_element + i * kVector, type, is_aligned);
      sums[0] += g.x * g.x;
      sums[1] += g.y * g.y;
      sums[2] += g.z * g.z;
      sums[3] += g.w * g.w;
    }
    const int rest = num_vectors * kVector + static_cast<int>(threadIdx.x);
    if (rest < chunk.num_elements) {
      const float g = load_one_gradient(data, chunk.first_element + rest, type);
      sums[0] += g * g;
    }
  }
  const float sum = block_sum(sums[0] + sums[1] + sums[2] + sums[3]);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    gradient_norm_finish_kernel(const float* partials, int num_partials, float* norm) {
  __shared__ double sums[kThreads];
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < num_partials; i += kThreads) sum += partials[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *norm = static_cast<float>(sqrt(sums[0]));
}

// ---- AdamW: one thread makes the step's scalars, then a block a chunk. ----

struct BeginArgs {
  const float* learning_rate;
  const float* grad_norm;
  const float* found_inf;
  float* step_count;
  double max_grad_norm, beta1, beta2;
};

__global__ void adamw_begin_kernel(const BeginArgs args, UpdateScalars* scalars) {
  const bool is_skipped = args.found_inf != nullptr && *args.found_inf != 0;
  const float step = *args.step_count + (is_skipped ? 0.0f : 1.0f);
  *args.step_count = step;
  const double learning_rate = *args.learning_rate;
  double clip = 1;
  if (args.grad_norm != nullptr) {
    // As a quotient and a minimum that pass a NaN on: a broken gradient must show in the loss.
    const double quotient = args.max_grad_norm / (static_cast<double>(*args.grad_norm) + 1e-6);
    clip = quotient > 1 ? 1 : quotient;
  }
  *scalars = {.clip = static_cast<float>(clip),
              .learning_rate = static_cast<float>(learning_rate),
              .step_size = static_cast<float>(learning_rate / (1 - pow(args.beta1, step))),
              .inverse_correction2 = static_cast<float>(1 / sqrt(1 - pow(args.beta2, step))),
              .is_skipped = is_skipped ? 1.0f : 0.0f};
}

__device__ void update(float& p, float& m, float& v, float gradient, const UpdateScalars& scalars,
                       const Betas& betas, float decay) {
  const float g = gradient * scalars.clip;
  m += betas.one_minus_beta1 * (g - m);
  v = betas.beta2 * v + betas.one_minus_beta2 * g * g;
  const float denominator = sqrtf(v) * scalars.inverse_correction2 + betas.epsilon;
  p = p * decay - scalars.step_size * m / denominator;
}

__device__ uint2 to_bf16(const float4& value) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(value.x, value.y);
  const __nv_bfloat162 high = __floats2bfloat162_rn(value.z, value.w);
  return {reinterpret_cast<const unsigned&>(low), reinterpret_cast<const unsigned&>(high)};
}

__global__ void __launch_bounds__(kThreads)
    adamw_update_kernel(const LaunchRange range, const __grid_constant__ Gradients gradients,
                        const UpdateScalars* scalars_in, const Betas betas) {
  const UpdateScalars scalars = *scalars_in;
  if (scalars.is_skipped != 0) return;
  const TensorChunk chunk = range.chunks[blockIdx.x];
  const AdamwTensor tensor = range.tensors[chunk.tensor_index];
  const void* gradient = gradients.data[chunk.tensor_index - range.first_tensor];
  const bool is_aligned = is_vector_aligned(gradient, tensor.gradient_type);
  const float decay = 1 - scalars.learning_rate * tensor.weight_decay;
  float* const p = tensor.parameter + chunk.first_element;
  float* const m = tensor.exp_avg + chunk.first_element;
  float* const v = tensor.exp_avg_sq + chunk.first_element;
  auto* const copy = static_cast<__nv_bfloat16*>(tensor.bf16_copy) + chunk.first_element;

  const int num_vectors = chunk.num_elements / kVector;
  for (int base = static_cast<int>(threadIdx.x); base < num_vectors; base += kThreads * kUnroll) {
    float4 g4[kUnroll], p4[kUnroll], m4[kUnroll], v4[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int i = base + u * kThreads;
      if (i >= num_vectors) continue;
      g4[u] = load_gradient(gradient, chunk.first_element + i * kVector, tensor.gradient_type,
                            is_aligned);
      p4[u] = reinterpret_cast<const float4*>(p)[i];
      m4[u] = reinterpret_cast<const float4*>(m)[i];
      v4[u] = reinterpret_cast<const float4*>(v)[i];
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int i = base + u * kThreads;
      if (i >= num_vectors) continue;
      update(p4[u].x, m4[u].x, v4[u].x, g4[u].x, scalars, betas, decay);
      update(p4[u].y, m4[u].y, v4[u].y, g4[u].y, scalars, betas, decay);
      update(p4[u].z, m4[u].z, v4[u].z, g4[u].z, scalars, betas, decay);
      update(p4[u].w, m4[u].w, v4[u].w, g4[u].w, scalars, betas, decay);
      reinterpret_cast<float4*>(p)[i] = p4[u];
      reinterpret_cast<float4*>(m)[i] = m4[u];
      reinterpret_cast<float4*>(v)[i] = v4[u];
      if (tensor.bf16_copy != nullptr) reinterpret_cast<uint2*>(copy)[i] = to_bf16(p4[u]);
    }
  }
  const int rest = num_vectors * kVector + static_cast<int>(threadIdx.x);
  if (rest < chunk.num_elements) {
    update(p[rest], m[rest], v[rest],
           load_one_gradient(gradient, chunk.first_element + rest, tensor.gradient_type), scalars,
           betas, decay);
    if (tensor.bf16_copy != nullptr) copy[rest] = __float2bfloat16_rn(p[rest]);
  }
}

// ---- launches ----

void check(const TensorTable& table, const char* op) {
  check_argument(table.gradients.size() == table.numels.size(), op, "gradients",
                 static_cast<std::int64_t>(table.gradients.size()), "one a tensor");
  for (std::size_t i = 0; i < table.numels.size(); ++i) {
    check_argument(table.numels[i] == 0 || table.gradients[i] != nullptr, op, "gradients of tensor",
                   static_cast<std::int64_t>(i), "every tensor has a gradient");
  }
}

std::int64_t num_chunks(std::int64_t numel) {
  return (numel + kChunkElements - 1) / kChunkElements;
}

// Calls launch(range, gradients, launch_index) for so many tensors at a time as one launch takes.
template <typename Launch>
void for_each_launch(const TensorTable& table, Launch launch) {
  const TensorChunk* chunks = table.chunks;
  for (std::size_t first = 0; first < table.numels.size(); first += kTensorsPerLaunch) {
    const std::size_t count = std::min(kTensorsPerLaunch, table.numels.size() - first);
    Gradients gradients = {};
    std::int64_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
      gradients.data[i] = table.gradients[first + i];
      total += num_chunks(table.numels[first + i]);
    }
    launch(LaunchRange{.tensors = table.tensors,
                       .chunks = chunks,
                       .first_tensor = static_cast<std::int32_t>(first),
                       .num_chunks = static_cast<std::int32_t>(total)},
           gradients, static_cast<int>(first / kTensorsPerLaunch));
    SL_CUDA(cudaGetLastError());
    chunks += total;
  }
}

std::size_t num_launches(std::size_t num_tensors) {
  return (num_tensors + kTensorsPerLaunch - 1) / kTensorsPerLaunch;
}

}  // namespace

std::size_t gradient_norm_workspace_bytes(std::size_t num_tensors) {
  return std::max<std::size_t>(1, num_launches(num_tensors)) * kNormBlocks * sizeof(float);
}

void gradient_norm(const GradientNormArgs& args, cudaStream_t stream) {
  check(args.table, "gradient_norm");
  for_each_launch(args.table, [&](const LaunchRange& range, const Gradients& gradients, int index) {
    gradient_norm_partial_kernel<<<kNormBlocks, kThreads, 0, stream>>>(
        range, gradients, args.partials + index * kNormBlocks);
  });
  gradient_norm_finish_kernel<<<1, kThreads, 0, stream>>>(
      args.partials, static_cast<int>(num_launches(args.table.numels.size())) * kNormBlocks,
      args.norm);
  SL_CUDA(cudaGetLastError());
}

void adamw(const AdamwArgs& args, cudaStream_t stream) {
  check(args.table, "adamw");
  auto* const scalars = reinterpret_cast<UpdateScalars*>(args.workspace);
  adamw_begin_kernel<<<1, 1, 0, stream>>>({.learning_rate = args.learning_rate,
                                           .grad_norm = args.grad_norm,
                                           .found_inf = args.found_inf,
                                           .step_count = args.step_count,
                                           .max_grad_norm = args.max_grad_norm,
                                           .beta1 = args.beta1,
                                           .beta2 = args.beta2},
                                          scalars);
  SL_CUDA(cudaGetLastError());
  const Betas betas = {.one_minus_beta1 = static_cast<float>(1 - args.beta1),
                       .beta2 = static_cast<float>(args.beta2),
                       .one_minus_beta2 = static_cast<float>(1 - args.beta2),
                       .epsilon = static_cast<float>(args.epsilon)};
  for_each_launch(args.table, [&](const LaunchRange& range, const Gradients& gradients, int) {
    if (range.num_chunks == 0) return;
    adamw_update_kernel<<<static_cast<unsigned>(range.num_chunks), kThreads, 0, stream>>>(
        range, gradients, scalars, betas);
  });
}

}  // namespace steplens
