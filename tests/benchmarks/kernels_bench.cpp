// The memory-bound operators at the shapes of two models, against the bandwidth of a device copy
// measured in the same process. A: 32768 rows of 768 channels (124M parameters); B: 16384 rows of
// 2048 (1B). copy_share_ratio is against a copy of as many bytes over as many sets of buffers,
// peak_copy_share_ratio against the best rate of larger copies. Times are those of the GPU, between
// events around many launches of one CUDA graph; the launches take turns over sets of buffers that
// together exceed the L2 cache several times.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/device_work.h"
#include <benchmark/benchmark.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/cuda_check.h"
#include "kernels/device.h"
#include "kernels/embedding/embedding.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/swiglu/swiglu.h"

namespace steplens {
namespace {

constexpr ElementType kF = ElementType::kFloat32;
constexpr ElementType kB = ElementType::kBfloat16;

constexpr int kBatches = 15;
constexpr std::int64_t kRotatedBytes = 512 << 20;  // Eight times the L2 cache of an H200.

Launch device_copy(Buffers& buffers, std::int64_t num_bytes) {
  const void* source = buffers.random(kF, num_bytes / 4);
  void* target = buffers.empty(num_bytes);
  return [=](cudaStream_t stream) {
    SL_CUDA(cudaMemcpyAsync(target, source, static_cast<std::size_t>(num_bytes),
                            cudaMemcpyDeviceToDevice, stream));
  };
}

// Bytes read and written per second by copies that move about `num_bytes`, by turns over `num_sets`
// pairs of buffers; median. Whole multiples of 2 MiB: cudaMemcpyAsync takes half as long again for
// sizes that are no multiple of 4 KiB, and a kernel should not be compared with that.
double copy_bytes_per_s(std::int64_t num_bytes, std::size_t num_sets) {
  constexpr std::int64_t kUnit = 2 << 20;
  const std::int64_t copied_bytes = std::max(num_bytes / 2 / kUnit, std::int64_t{1}) * kUnit;
  static std::map<std::pair<std::int64_t, std::size_t>, double> known;
  const auto [place, is_new] = known.try_emplace({copied_bytes, num_sets}, 0.0);
  if (is_new) {
    Buffers buffers;
    std::vector<Launch> sets;
    for (std::size_t i = 0; i < num_sets; ++i) sets.push_back(device_copy(buffers, copied_bytes));
    Batch batch(sets);
    std::vector<double> seconds(9);
    for (double& value : seconds) value = batch.seconds_per_launch();
    std::sort(seconds.begin(), seconds.end());
    place->second = 2.0 * static_cast<double>(copied_bytes) / seconds[seconds.size() / 2];
  }
  return place->second;
}

double peak_copy_bytes_per_s() {
  double best = 0.0;
  for (const std::int64_t num_mib : {100, 200, 300, 400}) {
    best = std::max(best, copy_bytes_per_s(num_mib << 21, 4));
  }
  return best;
}

// What one benchmark launches: `make` builds it over one set of buffers.
struct Work {
  std::int64_t minimum_bytes = 0;
  std::int64_t flops = 0;
  Launch launch;
};
using MakeWork = std::function<Work(Buffers&)>;

void measure(benchmark::State& state, const MakeWork& make) {
  if (!has_gpu()) {
    state.SkipWithError("no GPU");
    return;
  }
  Buffers buffers;
  std::vector<Launch> sets;
  Work work;
  do {
    work = make(buffers);
    sets.push_back(work.launch);
  } while (static_cast<std::int64_t>(sets.size()) * work.minimum_bytes < kRotatedBytes);
  Batch batch(sets);
  std::vector<double> seconds;
  for (auto _ : state) {
    seconds.push_back(batch.seconds_per_launch());
    state.SetIterationTime(seconds.back());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const auto num_bytes = static_cast<double>(work.minimum_bytes);
  state.counters["median_us"] = median * 1e6;
  state.counters["best_us"] = seconds.front() * 1e6;
  state.counters["bytes_per_s"] = num_bytes / median;
  state.counters["copy_share_ratio"] =
      num_bytes / median / copy_bytes_per_s(work.minimum_bytes, sets.size());
  state.counters["peak_copy_share_ratio"] = num_bytes / median / peak_copy_bytes_per_s();
  state.counters["flops_per_s"] = static_cast<double>(work.flops) / median;
}

// ---- The operators ----

struct ModelShape {
  const char* name;
  std::int64_t B, T, C, F, H, V;
  std::int64_t rows() const { return B * T; }
};
constexpr ModelShape kModels[] = {{"A", 32, 1024, 768, 2048, 12, 50304},
                                  {"B", 4, 4096, 2048, 5632, 16, 32000}};

Work rms_norm_forward_work(Buffers& buffers, const ModelShape& model, ElementType x_type,
                           ElementType stream_type, ElementType y_type, bool has_residual,
                           double dropout, const RmsNormForwardVariant& variant) {
  const std::int64_t count = model.rows() * model.C;
  const RmsNormForwardArgs args{
      .x = buffers.random(x_type, count),
      .residual = has_residual ? buffers.random(stream_type, count) : nullptr,
      .weight = buffers.random(kF, model.C),
      .r = has_residual ? buffers.empty(count * element_bytes(stream_type)) : nullptr,
      .y = buffers.empty(count * element_bytes(y_type)),
      .rstd = static_cast<float*>(buffers.empty(model.rows() * 4)),
      .N = model.rows(),
      .C = model.C,
      .x_type = x_type,
      .stream_type = stream_type,
      .y_type = y_type,
      .dropout = {.probability = dropout}};
  return {minimum_bytes(args), flops(args),
          [=](cudaStream_t stream) { variant.launch(args, stream); }};
}

Work rms_norm_backward_work(Buffers& buffers, const ModelShape& model, ElementType dy_type,
                            ElementType stream_type, double dropout,
                            const RmsNormBackwardVariant& variant) {
  const std::int64_t count = model.rows() * model.C;
  const RmsNormBackwardArgs args{
      .dy = buffers.random(dy_type, count),
      .r = buffers.random(stream_type, count),
      .rstd = static_cast<const float*>(buffers.random(kF, model.rows())),
      .weight = buffers.random(kF, model.C),
      .dr_in = buffers.random(stream_type, count),
      .dr = buffers.empty(count * element_bytes(stream_type)),
      .dx = dy_type != stream_type || dropout > 0 ? buffers.empty(count * element_bytes(dy_type))
                                                  : nullptr,
      .dweight = static_cast<float*>(buffers.empty(model.C * 4)),
      .workspace = buffers.empty(
          static_cast<std::int64_t>(rms_norm_backward_workspace_bytes(model.rows(), model.C))),
      .N = model.rows(),
      .C = model.C,
      .dy_type = dy_type,
      .stream_type = stream_type,
      .dropout = {.probability = dropout}};
  return {minimum_bytes(args), flops(args),
          [=](cudaStream_t stream) { variant.launch(args, stream); }};
}

Work swiglu_forward_work(Buffers& buffers, const ModelShape& model, ElementType type) {
  const std::int64_t count = model.rows() * model.F;
  const SwigluForwardArgs args{.gate_up = buffers.random(type, 2 * count),
                               .y = buffers.empty(count * element_bytes(type)),
                               .N = model.rows(),
                               .F = model.F,
                               .type = type};
  return {minimum_bytes(args), flops(args),
          [=](cudaStream_t stream) { swiglu_forward(args, stream); }};
}

Work swiglu_backward_work(Buffers& buffers, const ModelShape& model, ElementType type) {
  const std::int64_t count = model.rows() * model.F;
  const SwigluBackwardArgs args{.dy = buffers.random(type, count),
                                .gate_up = buffers.random(type, 2 * count),
                                .dgate_up = buffers.empty(2 * count * element_bytes(type)),
                                .N = model.rows(),
                                .F = model.F,
                                .type = type};
  return {minimum_bytes(args), flops(args),
          [=](cudaStream_t stream) { swiglu_backward(args, stream); }};
}

RopeShape rope_shape(Buffers& buffers, const ModelShape& model) {
  const std::int64_t D = model.C / model.H;
  std::vector<float> cos;
  std::vector<float> sin;
  for (std::int64_t t = 0; t < model.T; ++t) {
    for (std::int64_t j = 0; j < D / 2; ++j) {
      const double angle = static_cast<double>(t) *
                           std::pow(1e4, -2.0 * static_cast<double>(j) / static_cast<double>(D));
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return {.B = model.B,
          .T = model.T,
          .H = model.H,
          .Hkv = model.H,
          .D = D,
          .cos = static_cast<const float*>(buffers.copy(cos.data(), cos.size() * 4)),
          .sin = static_cast<const float*>(buffers.copy(sin.data(), sin.size() * 4)),
          .table_stride = D / 2,
          .type = kB};
}

HeadsView heads_buffer(void* data, const ModelShape& model) {
  return {.data = data,
          .batch_stride = model.T * model.C,
          .token_stride = model.C,
          .head_stride = model.C / model.H};
}

Work rope_forward_work(Buffers& buffers, const ModelShape& model, bool is_in_place) {
  RopeQkvForwardArgs args{.shape = rope_shape(buffers, model)};
  const std::int64_t count = model.rows() * model.C;
  void* qkv = buffers.random(kB, 3 * count);
  args.qkv = qkv;
  if (is_in_place) {
    args.q = qkv_heads(qkv, QkvPart::kQ, args.shape);
    args.k = qkv_heads(qkv, QkvPart::kK, args.shape);
  } else {
    for (HeadsView* view : {&args.q, &args.k, &args.v}) {
      *view = heads_buffer(buffers.empty(2 * count), model);
    }
  }
  return {minimum_bytes(args), flops(args.shape),
          [=](cudaStream_t stream) { rope_qkv_forward(args, stream); }};
}

Work rope_backward_work(Buffers& buffers, const ModelShape& model) {
  RopeQkvBackwardArgs args{.shape = rope_shape(buffers, model)};
  const std::int64_t count = model.rows() * model.C;
  for (ConstHeadsView* view : {&args.dq, &args.dk, &args.dv}) {
    const HeadsView heads = heads_buffer(buffers.random(kB, count), model);
    *view = {heads.data, heads.batch_stride, heads.token_stride, heads.head_stride};
  }
  args.dqkv = buffers.empty(3 * count * 2);
  return {minimum_bytes(args), flops(args.shape),
          [=](cudaStream_t stream) { rope_qkv_backward(args, stream); }};
}

// exponent 1: every token alike often; 4: a few tokens make most of the text.
Work embedding_backward_work(Buffers& buffers, const ModelShape& model, double exponent,
                             ElementType dtable_type) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<double> uniform;
  std::vector<std::int64_t> tokens;
  for (std::int64_t n = 0; n < model.rows(); ++n) {
    const double place = std::pow(uniform(generator), exponent);
    tokens.push_back(static_cast<std::int64_t>(place * static_cast<double>(model.V)));
  }
  const EmbeddingBackwardArgs args{
      .dy = buffers.random(kB, model.rows() * model.C),
      .tokens = static_cast<const std::int64_t*>(buffers.copy(tokens.data(), tokens.size() * 8)),
      .dtable = buffers.empty(model.V * model.C * element_bytes(dtable_type)),
      .workspace = buffers.empty(static_cast<std::int64_t>(
          embedding_backward_workspace_bytes(model.rows(), model.C, model.V))),
      .N = model.rows(),
      .C = model.C,
      .V = model.V,
      .dy_type = kB,
      .dtable_type = dtable_type};
  return {minimum_bytes(args), flops(args),
          [=](cudaStream_t stream) { embedding_backward(args, stream); }};
}

void add(const std::string& name, const MakeWork& make) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [make](benchmark::State& state) { measure(state, make); })
      ->UseManualTime()
      ->Iterations(kBatches)
      ->Unit(benchmark::kMicrosecond);
}

const bool kIsRegistered = [] {
  for (const std::int64_t num_mib : {64, 100, 200, 400}) {
    add("device_copy/" + std::to_string(num_mib) + "MiB", [=](Buffers& buffers) {
      return Work{2 * (num_mib << 20), 0, device_copy(buffers, num_mib << 20)};
    });
  }
  for (const ModelShape& model : kModels) {
    const std::string suffix = std::string("/") + model.name;
    for (const RmsNormForwardVariant& variant : rms_norm_forward_variants()) {
      const auto forward = [&](const std::string& types, ElementType x, ElementType stream,
                               ElementType y, bool has_residual, double dropout = 0) {
        add("rms_norm_forward/" + types + suffix + "/" + std::string(variant.name),
            [=, &model](Buffers& buffers) {
              return rms_norm_forward_work(buffers, model, x, stream, y, has_residual, dropout,
                                           variant);
            });
      };
      forward("bf16_residual", kB, kB, kB, true);
      forward("fp32_residual", kB, kF, kB, true);
      forward("bf16", kB, kB, kB, false);
      forward("bf16_residual_dropout", kB, kB, kB, true, 0.1);
    }
    for (const RmsNormBackwardVariant& variant : rms_norm_backward_variants()) {
      const auto backward = [&](const std::string& types, ElementType dy, ElementType stream,
                                double dropout = 0) {
        RmsNormBackwardArgs args{.C = model.C, .dy_type = dy, .stream_type = stream};
        alignas(16) char place = 0;
        if (dropout > 0) args.dx = &place;
        if (!variant.is_applicable(args)) return;
        add("rms_norm_backward/" + types + suffix + "/" + std::string(variant.name),
            [=, &model](Buffers& buffers) {
              return rms_norm_backward_work(buffers, model, dy, stream, dropout, variant);
            });
      };
      backward("bf16_residual", kB, kB);
      backward("fp32_residual", kB, kF);
      backward("bf16_residual_dropout", kB, kB, 0.1);
    }
    for (const ElementType type : {kB, kF}) {
      const std::string name = type == kB ? "bf16" : "fp32";
      add("swiglu_forward/" + name + suffix,
          [=, &model](Buffers& buffers) { return swiglu_forward_work(buffers, model, type); });
      add("swiglu_backward/" + name + suffix,
          [=, &model](Buffers& buffers) { return swiglu_backward_work(buffers, model, type); });
    }
    for (const bool is_in_place : {true, false}) {
      add(std::string("rope_qkv_forward/") + (is_in_place ? "in_place" : "copy") + suffix,
          [=, &model](Buffers& buffers) { return rope_forward_work(buffers, model, is_in_place); });
    }
    add("rope_qkv_backward/copy" + suffix,
        [&model](Buffers& buffers) { return rope_backward_work(buffers, model); });
    for (const double exponent : {1.0, 4.0}) {
      for (const ElementType type : {kF, kB}) {
        add(std::string("embedding_backward/") + (exponent == 1.0 ? "uniform" : "skewed") +
                (type == kF ? "_to_fp32" : "_to_bf16") + suffix,
            [=, &model](Buffers& buffers) {
              return embedding_backward_work(buffers, model, exponent, type);
            });
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace steplens
