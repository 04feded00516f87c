#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "kernels/cuda_check.h"
#include "kernels/device.h"
#include "kernels/vector.h"

namespace steplens {

/// What `value` is once stored as `type`.
inline double rounded(double value, ElementType type) {
  const auto single = static_cast<float>(value);
  return type == ElementType::kFloat32 ? single : __bfloat162float(__float2bfloat16_rn(single));
}

/// Normally distributed values that `type` holds exactly.
inline std::vector<double> random_values(std::int64_t count, ElementType type, unsigned seed,
                                         double scale = 1.0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = rounded(scale * normal(random), type);
  return values;
}

/// |actual - expected| / |scale|, 2-norms; NaN if anything is NaN. `scale` is the expected values,
/// or the terms before they cancel.
inline double relative_norm(std::span<const double> actual, std::span<const double> expected,
                            std::span<const double> scale) {
  EXPECT_EQ(actual.size(), expected.size());
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += scale[i] * scale[i];
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / norm);
}
inline double relative_norm(std::span<const double> actual, std::span<const double> expected) {
  return relative_norm(actual, expected, expected);
}

/// A tensor in device memory, between two guards that no kernel may touch. Without values it is
/// filled with NaN, so that an element which is not written shows.
class DeviceTensor {
 public:
  /// `misalignment`: elements between a 256-byte boundary and the first element.
  DeviceTensor(ElementType type, std::int64_t count, std::int64_t misalignment = 0)
      : type_(type),
        count_(static_cast<std::size_t>(count)),
        first_(kGuard + static_cast<std::size_t>(misalignment)) {
    void* base = nullptr;
    SL_CUDA(cudaMalloc(&base, (first_ + count_ + kGuard) * element_size()));
    base_ = static_cast<char*>(base);
    // All bits set are a NaN in both types.
    SL_CUDA(cudaMemset(base_, 0xff, (first_ + count_ + kGuard) * element_size()));
  }
  DeviceTensor(ElementType type, std::span<const double> values, std::int64_t misalignment = 0)
      : DeviceTensor(type, static_cast<std::int64_t>(values.size()), misalignment) {
    std::vector<char> bytes(count_ * element_size());
    for (std::size_t i = 0; i < count_; ++i) {
      const auto single = static_cast<float>(values[i]);
      const __nv_bfloat16 half = __float2bfloat16_rn(single);
      std::memcpy(bytes.data() + i * element_size(),
                  type == ElementType::kFloat32 ? static_cast<const void*>(&single) : &half,
                  element_size());
    }
    SL_CUDA(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  }
  ~DeviceTensor() { cudaFree(base_); }
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;

  void* data() { return base_ + first_ * element_size(); }
  float* floats() { return static_cast<float*>(data()); }

  /// The elements, after the device has finished; the test fails if a guard was written.
  std::vector<double> values() const {
    SL_CUDA(cudaDeviceSynchronize());
    std::vector<unsigned char> bytes((first_ + count_ + kGuard) * element_size());
    SL_CUDA(cudaMemcpy(bytes.data(), base_, bytes.size(), cudaMemcpyDeviceToHost));
    const std::size_t begin = first_ * element_size();
    const std::size_t end = begin + count_ * element_size();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (i >= begin && i < end) continue;
      if (bytes[i] != 0xff) {
        ADD_FAILURE() << "written " << (i < begin ? "before" : "behind") << " the tensor";
        break;
      }
    }
    std::vector<double> result(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      if (type_ == ElementType::kFloat32) {
        float single = 0;
        std::memcpy(&single, bytes.data() + begin + 4 * i, 4);
        result[i] = single;
      } else {
        __nv_bfloat16 half;
        std::memcpy(&half, bytes.data() + begin + 2 * i, 2);
        result[i] = __bfloat162float(half);
      }
    }
    return result;
  }

 private:
  static constexpr std::size_t kGuard = 128;  // Elements: 256 bytes of the narrower type.

  std::size_t element_size() const { return static_cast<std::size_t>(element_bytes(type_)); }

  ElementType type_;
  std::size_t count_;
  std::size_t first_;
  char* base_ = nullptr;
};

/// Uninitialized bytes for a kernel's workspace, filled with NaN.
class DeviceWorkspace {
 public:
  explicit DeviceWorkspace(std::size_t num_bytes) {
    SL_CUDA(cudaMalloc(&data_, num_bytes));
    SL_CUDA(cudaMemset(data_, 0xff, num_bytes));
  }
  ~DeviceWorkspace() { cudaFree(data_); }
  DeviceWorkspace(const DeviceWorkspace&) = delete;
  DeviceWorkspace& operator=(const DeviceWorkspace&) = delete;
  void* data() { return data_; }

 private:
  void* data_ = nullptr;
};

/// Bound on the relative norm of `count` results whose sums are exact but for rounding to `type`:
/// half a unit in the last place of a bfloat16 is at most 2^-8 of the value, and 0.4 of that in the
/// mean of many.
constexpr double tolerance(ElementType type, std::int64_t count = 1) {
  if (type == ElementType::kFloat32) return 2e-6;
  return count < 1000 ? 1.0 / 256 : 2e-3;
}

}  // namespace steplens
