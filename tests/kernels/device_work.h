#pragma once

// What benchmarks of kernels launch, and how long it takes on the GPU.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/cuda_check.h"
#include "kernels/vector.h"

namespace steplens {

// 20: a batch lasts a millisecond and more, so that the events' resolution of 0.5 us is nothing.
inline constexpr int kLaunchesPerBatch = 20;

class Memory {
 public:
  explicit Memory(std::int64_t num_bytes) {
    SL_CUDA(cudaMalloc(&data_, static_cast<std::size_t>(std::max<std::int64_t>(num_bytes, 1))));
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() { return data_; }

 private:
  void* data_ = nullptr;
};

// Buffers of one benchmark; freed together.
class Buffers {
 public:
  void* empty(std::int64_t num_bytes) {
    memory_.push_back(std::make_unique<Memory>(num_bytes));
    return memory_.back()->data();
  }

  // Normally distributed: zeros would draw less power and so run at higher clocks.
  void* random(ElementType type, std::int64_t count) {
    constexpr std::int64_t kBlock = 1 << 20;
    static const std::vector<float> singles = [] {
      std::mt19937 generator(1);
      std::normal_distribution<float> normal;
      std::vector<float> values(kBlock);
      for (float& value : values) value = normal(generator);
      return values;
    }();
    static const std::vector<__nv_bfloat16> halves = [] {
      std::vector<__nv_bfloat16> values(kBlock);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = __float2bfloat16_rn(singles[i]);
      return values;
    }();
    const void* source =
        type == ElementType::kFloat32 ? static_cast<const void*>(singles.data()) : halves.data();
    const std::int64_t size = element_bytes(type);
    auto* data = static_cast<char*>(empty(count * size));
    for (std::int64_t first = 0; first < count; first += kBlock) {
      SL_CUDA(cudaMemcpy(data + first * size, first == 0 ? source : data,
                         static_cast<std::size_t>(std::min(kBlock, count - first) * size),
                         first == 0 ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice));
    }
    return data;
  }

  void* copy(const void* source, std::size_t num_bytes) {
    void* data = empty(static_cast<std::int64_t>(num_bytes));
    SL_CUDA(cudaMemcpy(data, source, num_bytes, cudaMemcpyHostToDevice));
    return data;
  }

 private:
  std::vector<std::unique_ptr<Memory>> memory_;
};

using Launch = std::function<void(cudaStream_t)>;

// Launches captured once and replayed between two events.
class Batch {
 public:
  explicit Batch(const std::vector<Launch>& sets) {
    SL_CUDA(cudaStreamCreate(&stream_));
    SL_CUDA(cudaEventCreate(&start_));
    SL_CUDA(cudaEventCreate(&end_));
    for (const Launch& launch : sets) launch(stream_);  // Loads the modules.
    SL_CUDA(cudaStreamSynchronize(stream_));
    SL_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < kLaunchesPerBatch; ++i) {
      sets[static_cast<std::size_t>(i) % sets.size()](stream_);
    }
    cudaGraph_t graph = nullptr;
    SL_CUDA(cudaStreamEndCapture(stream_, &graph));
    SL_CUDA(cudaGraphInstantiate(&graph_, graph, 0));
    SL_CUDA(cudaGraphDestroy(graph));
    seconds_per_launch();
  }
  ~Batch() {
    cudaGraphExecDestroy(graph_);
    cudaEventDestroy(start_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  double seconds_per_launch() {
    SL_CUDA(cudaEventRecord(start_, stream_));
    SL_CUDA(cudaGraphLaunch(graph_, stream_));
    SL_CUDA(cudaEventRecord(end_, stream_));
    SL_CUDA(cudaEventSynchronize(end_));
    float ms = 0;
    SL_CUDA(cudaEventElapsedTime(&ms, start_, end_));
    return static_cast<double>(ms) * 1e-3 / kLaunchesPerBatch;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t end_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace steplens
