// Loss and optimizer kernels at the shapes of models A (gpt2-124m, 32 x 1024 tokens) and B
// (llama-1b, 4 x 4096 tokens). GPU time by events; `copy_share_ratio` is the share of the device's
// own copy bandwidth, measured here first, that the op's minimum bytes reach. All buffers are far
// larger than the L2 cache. Skips without a GPU.

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/adamw/adamw.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cuda_check.h"
#include "kernels/device.h"

namespace steplens {
namespace {

class Buffer {
 public:
  explicit Buffer(std::size_t num_bytes) { SL_CUDA(cudaMalloc(&data_, num_bytes)); }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  template <typename T = void>
  T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

class Timer {
 public:
  Timer() {
    SL_CUDA(cudaEventCreate(&start_));
    SL_CUDA(cudaEventCreate(&end_));
  }
  ~Timer() {
    cudaEventDestroy(start_);
    cudaEventDestroy(end_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  template <typename Launch>
  double seconds(Launch launch) {
    SL_CUDA(cudaEventRecord(start_, nullptr));
    launch();
    SL_CUDA(cudaEventRecord(end_, nullptr));
    SL_CUDA(cudaEventSynchronize(end_));
    float ms = 0;
    SL_CUDA(cudaEventElapsedTime(&ms, start_, end_));
    return ms * 1e-3;
  }

 private:
  cudaEvent_t start_ = nullptr, end_ = nullptr;
};

// Bytes read and written a second by a device-to-device copy of 1 GiB: best of 10.
double copy_bytes_per_s() {
  static const double result = [] {
    constexpr std::size_t kBytes = std::size_t{1} << 30;
    const Buffer from(kBytes);
    const Buffer to(kBytes);
    Timer timer;
    double best_s = 1e9;
    for (int i = 0; i < 10; ++i) {
      best_s = std::min(best_s, timer.seconds([&] {
        SL_CUDA(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, nullptr));
      }));
    }
    return 2.0 * kBytes / best_s;
  }();
  return result;
}

template <typename Launch>
void measure(benchmark::State& state, std::int64_t num_bytes, Launch launch) {
  const double copy = copy_bytes_per_s();
  launch();  // Loads the module.
  Timer timer;
  for (auto _ : state) state.SetIterationTime(timer.seconds(launch));
  state.SetBytesProcessed(state.iterations() * num_bytes);
  using benchmark::Counter;
  state.counters["copy_share_ratio"] =
      Counter(static_cast<double>(num_bytes) / copy, Counter::kIsIterationInvariantRate);
  state.counters["copy_bytes_per_s"] = copy;
}

// ---- cross-entropy: rows x columns of bf16 logits. ----

void cross_entropy_bench(benchmark::State& state, const CrossEntropyVariant& variant,
                         std::int64_t num_rows, std::int64_t num_columns) {
  if (!has_gpu()) {
    state.SkipWithError("no GPU");
    return;
  }
  const Buffer logits(static_cast<std::size_t>(num_rows * num_columns) * 2);
  // All logits are 3.0 (bf16 0x4040), then what the call before left: time does not depend on them.
  SL_CUDA(cudaMemset(logits.data(), 0x40, static_cast<std::size_t>(num_rows * num_columns) * 2));
  std::vector<std::int64_t> targets(static_cast<std::size_t>(num_rows));
  std::mt19937 random(1);
  for (std::int64_t& target : targets) {
    target = std::uniform_int_distribution<std::int64_t>(0, num_columns - 1)(random);
  }
  const Buffer device_targets(targets.size() * 8);
  SL_CUDA(cudaMemcpy(device_targets.data(), targets.data(), targets.size() * 8,
                     cudaMemcpyHostToDevice));
  const Buffer losses(targets.size() * 4);
  const CrossEntropyArgs args = {.logits = logits.data(),
                                 .targets = device_targets.data<std::int64_t>(),
                                 .losses = losses.data<float>(),
                                 .N = num_rows,
                                 .V = num_columns,
                                 .type = ElementType::kBfloat16};
  measure(state, minimum_bytes(args), [&] { variant.launch(args, nullptr); });
}

// ---- optimizer: all tensors of a model. ----

struct Shape {
  std::int64_t vocab_size, num_layers, d_model, ffn_width;
};
constexpr Shape kModelA = {50304, 12, 768, 2048};
constexpr Shape kModelB = {32000, 24, 2048, 5632};

std::vector<std::int64_t> numels_of(const Shape& shape) {
  const std::int64_t c = shape.d_model;
  std::vector<std::int64_t> numels = {shape.vocab_size * c};
  for (std::int64_t i = 0; i < shape.num_layers; ++i) {
    for (const std::int64_t numel :
         {c, 3 * c * c, c * c, c, 2 * shape.ffn_width * c, shape.ffn_width * c}) {
      numels.push_back(numel);
    }
  }
  numels.push_back(c);
  numels.push_back(shape.vocab_size * c);
  return numels;
}

class Model {
 public:
  Model(const Shape& shape, bool has_bf16) : numels_(numels_of(shape)) {
    std::vector<AdamwTensor> rows;
    const auto make = [&](std::int64_t numel, std::size_t element_size) {
      const std::size_t num_bytes = static_cast<std::size_t>(numel) * element_size;
      buffers_.push_back(std::make_unique<Buffer>(num_bytes));
      SL_CUDA(cudaMemset(buffers_.back()->data(), 0, num_bytes));
      return buffers_.back()->data();
    };
    for (const std::int64_t numel : numels_) {
      rows.push_back({.parameter = static_cast<float*>(make(numel, 4)),
                      .exp_avg = static_cast<float*>(make(numel, 4)),
                      .exp_avg_sq = static_cast<float*>(make(numel, 4)),
                      .bf16_copy = has_bf16 ? make(numel, 2) : nullptr,
                      .weight_decay = 0.1f,
                      .gradient_type = has_bf16 ? ElementType::kBfloat16 : ElementType::kFloat32});
      gradients_.push_back(make(numel, has_bf16 ? 2 : 4));
    }
    const std::vector<TensorChunk> chunks = make_chunks(numels_);
    tensors_ = copied(rows);
    chunks_ = copied(chunks);
  }

  TensorTable table() const {
    return {.tensors = tensors_->data<AdamwTensor>(),
            .chunks = chunks_->data<TensorChunk>(),
            .numels = numels_,
            .gradients = gradients_};
  }

 private:
  template <typename T>
  static std::unique_ptr<Buffer> copied(const std::vector<T>& values) {
    auto buffer = std::make_unique<Buffer>(values.size() * sizeof(T));
    SL_CUDA(cudaMemcpy(buffer->data(), values.data(), values.size() * sizeof(T),
                       cudaMemcpyHostToDevice));
    return buffer;
  }

  std::vector<std::int64_t> numels_;
  std::vector<const void*> gradients_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::unique_ptr<Buffer> tensors_, chunks_;
};

void adamw_bench(benchmark::State& state, const Shape& shape, bool has_bf16) {
  if (!has_gpu()) {
    state.SkipWithError("no GPU");
    return;
  }
  const Model model(shape, has_bf16);
  const Buffer scalars(64 + kAdamwWorkspaceBytes);
  SL_CUDA(cudaMemset(scalars.data(), 0, 64));
  float* const values = scalars.data<float>();
  const AdamwArgs args = {.table = model.table(),
                          .learning_rate = values,
                          .grad_norm = values + 1,
                          .step_count = values + 2,
                          .workspace = values + 16};
  measure(state, minimum_bytes(args, has_bf16), [&] { adamw(args, nullptr); });
}

void gradient_norm_bench(benchmark::State& state, const Shape& shape, bool has_bf16) {
  if (!has_gpu()) {
    state.SkipWithError("no GPU");
    return;
  }
  const Model model(shape, has_bf16);
  const Buffer partials(gradient_norm_workspace_bytes(model.table().numels.size()));
  const Buffer norm(4);
  const GradientNormArgs args = {
      .table = model.table(), .partials = partials.data<float>(), .norm = norm.data<float>()};
  measure(state, minimum_bytes(args, has_bf16), [&] { gradient_norm(args, nullptr); });
}

void add(const std::string& name, auto run) {
  benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

const bool is_registered = [] {
  for (const CrossEntropyVariant& variant : cross_entropy_variants()) {
    const auto with = [&variant](std::int64_t num_rows, std::int64_t num_columns) {
      return [&variant, num_rows, num_columns](benchmark::State& state) {
        cross_entropy_bench(state, variant, num_rows, num_columns);
      };
    };
    const std::string name = "cross_entropy/" + std::string(variant.name);
    add(name + "/A/32768x50304", with(32768, 50304));
    add(name + "/A_chunk/8192x50304", with(8192, 50304));
    add(name + "/B/16384x32000", with(16384, 32000));
  }
  for (const bool has_bf16 : {false, true}) {
    const std::string type = has_bf16 ? "/bf16_master" : "/fp32";
    for (const auto& [model, shape] : {std::pair("/A", kModelA), std::pair("/B", kModelB)}) {
      add("adamw" + std::string(model) + type, [shape = shape, has_bf16](benchmark::State& state) {
        adamw_bench(state, shape, has_bf16);
      });
      add("gradient_norm" + std::string(model) + type,
          [shape = shape, has_bf16](benchmark::State& state) {
            gradient_norm_bench(state, shape, has_bf16);
          });
    }
  }
  return true;
}();

}  // namespace
}  // namespace steplens
