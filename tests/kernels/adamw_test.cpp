#include "kernels/adamw/adamw.h"

#include <memory>
#include <numeric>

#include "tests/kernels/device_tensor.h"
#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr double kLearningRate = 1e-2;
constexpr double kMaxNorm = 1.5;

TEST(MakeChunks, CoversEachElementOnceAndCutsTheLast) {
  const std::vector<std::int64_t> numels = {1, 0, kChunkElements, 2 * kChunkElements + 3};
  const std::vector<TensorChunk> chunks = make_chunks(numels);
  ASSERT_EQ(chunks.size(), 5u);
  const auto expect = [&](std::size_t i, std::int32_t tensor, std::int64_t first,
                          std::int64_t count) {
    EXPECT_EQ(chunks[i].tensor_index, tensor) << i;
    EXPECT_EQ(chunks[i].first_element, first) << i;
    EXPECT_EQ(chunks[i].num_elements, count) << i;
  };
  expect(0, 0, 0, 1);
  expect(1, 2, 0, kChunkElements);
  expect(2, 3, 0, kChunkElements);
  expect(3, 3, kChunkElements, kChunkElements);
  expect(4, 3, 2 * kChunkElements, 3);
}

TEST(Adamw, SaysHowManyBytesItMoves) {
  const std::vector<std::int64_t> numels = {100, 50};
  const AdamwArgs update = {.table = {.numels = numels}};
  EXPECT_EQ(minimum_bytes(update, false), 150 * 28);
  EXPECT_EQ(minimum_bytes(update, true), 150 * 28);
  EXPECT_EQ(minimum_bytes(GradientNormArgs{.table = {.numels = numels}}, true), 150 * 2);
}

TEST(Adamw, RefusesATensorWithoutAGradient) {
  const std::vector<std::int64_t> numels = {100, 50};
  const std::vector<const void*> none = {nullptr, nullptr};
  EXPECT_THROW(adamw({.table = {.numels = numels}}, nullptr), ConfigError);
  EXPECT_THROW(adamw({.table = {.numels = numels, .gradients = none}}, nullptr), ConfigError);
  EXPECT_THROW(gradient_norm({.table = {.numels = numels, .gradients = none}}, nullptr),
               ConfigError);
}

// One tensor in device memory and the same in double.
struct Tensor {
  Tensor(std::int64_t numel, ElementType type, double decay, std::int64_t misalignment,
         unsigned seed)
      : weight_decay(decay),
        gradient_type(type),
        p(random_values(numel, ElementType::kFloat32, seed)),
        m(p.size(), 0.0),
        v(p.size(), 0.0),
        g(random_values(numel, type, seed + 1, 0.1)),
        parameter(ElementType::kFloat32, p),
        exp_avg(ElementType::kFloat32, m),
        exp_avg_sq(ElementType::kFloat32, v),
        gradient(type, g, misalignment) {
    if (type == ElementType::kBfloat16) {
      copy = std::make_unique<DeviceTensor>(ElementType::kBfloat16, numel);
    }
  }

  AdamwTensor row() {
    return {.parameter = parameter.floats(),
            .exp_avg = exp_avg.floats(),
            .exp_avg_sq = exp_avg_sq.floats(),
            .bf16_copy = copy ? copy->data() : nullptr,
            .weight_decay = static_cast<float>(weight_decay),
            .gradient_type = gradient_type};
  }

  void update(double clip, double step) {
    const AdamwArgs d;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double scaled = g[i] * clip;
      m[i] = d.beta1 * m[i] + (1 - d.beta1) * scaled;
      v[i] = d.beta2 * v[i] + (1 - d.beta2) * scaled * scaled;
      const double denominator = std::sqrt(v[i] / (1 - std::pow(d.beta2, step))) + d.epsilon;
      p[i] -= kLearningRate *
              (weight_decay * p[i] + m[i] / (1 - std::pow(d.beta1, step)) / denominator);
    }
  }

  double weight_decay;
  ElementType gradient_type;
  std::vector<double> p, m, v, g;
  DeviceTensor parameter, exp_avg, exp_avg_sq, gradient;
  std::unique_ptr<DeviceTensor> copy;
};

template <typename T>
class DeviceBytes {
 public:
  explicit DeviceBytes(const std::vector<T>& values) {
    SL_CUDA(cudaMalloc(&data_, values.size() * sizeof(T)));
    SL_CUDA(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

class World {
 public:
  explicit World(std::vector<std::unique_ptr<Tensor>> all) : tensors(std::move(all)) {
    std::vector<AdamwTensor> rows;
    for (const auto& tensor : tensors) {
      rows.push_back(tensor->row());
      numels.push_back(static_cast<std::int64_t>(tensor->p.size()));
      gradients.push_back(tensor->gradient.data());
    }
    table_ = std::make_unique<DeviceBytes<AdamwTensor>>(rows);
    chunks_ = std::make_unique<DeviceBytes<TensorChunk>>(make_chunks(numels));
    partials_ = std::make_unique<DeviceBytes<float>>(
        std::vector<float>(gradient_norm_workspace_bytes(numels.size()) / 4, NAN));
  }

  TensorTable table() const {
    return {.tensors = table_->data(),
            .chunks = chunks_->data(),
            .numels = numels,
            .gradients = gradients};
  }
  double norm() {
    gradient_norm({.table = table(), .partials = partials_->data(), .norm = norm_.floats()},
                  nullptr);
    return norm_.values()[0];
  }
  void update(bool is_clipped, float* found_inf = nullptr) {
    adamw({.table = table(),
           .learning_rate = learning_rate_.floats(),
           .grad_norm = is_clipped ? norm_.floats() : nullptr,
           .found_inf = found_inf,
           .step_count = step_count_.floats(),
           .workspace = workspace_.floats(),
           .max_grad_norm = kMaxNorm},
          nullptr);
  }
  double step_count() const { return step_count_.values()[0]; }
  double expected_norm() const {
    double square = 0;
    for (const auto& tensor : tensors) {
      for (const double g : tensor->g) square += g * g;
    }
    return std::sqrt(square);
  }

  std::vector<std::unique_ptr<Tensor>> tensors;
  std::vector<std::int64_t> numels;
  std::vector<const void*> gradients;

 private:
  std::unique_ptr<DeviceBytes<AdamwTensor>> table_;
  std::unique_ptr<DeviceBytes<TensorChunk>> chunks_;
  std::unique_ptr<DeviceBytes<float>> partials_;
  DeviceTensor norm_{ElementType::kFloat32, 1};
  DeviceTensor learning_rate_{ElementType::kFloat32, std::vector<double>{kLearningRate}};
  DeviceTensor step_count_{ElementType::kFloat32, std::vector<double>{0}};
  DeviceTensor workspace_{ElementType::kFloat32, kAdamwWorkspaceBytes / 4};
};

// Sizes around vector and chunk, both types, aligned gradients and not.
World odd_world() {
  std::vector<std::unique_ptr<Tensor>> tensors;
  unsigned seed = 0;
  for (const std::int64_t numel :
       {std::int64_t{1}, std::int64_t{5}, std::int64_t{1024}, kChunkElements - 1, kChunkElements,
        kChunkElements + 1, 3 * kChunkElements + 4097}) {
    for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
      for (const std::int64_t misalignment : {0, 1, 2}) {
        seed += 2;
        tensors.push_back(
            std::make_unique<Tensor>(numel, type, seed % 4 == 0 ? 0.1 : 0.0, misalignment, seed));
      }
    }
  }
  return World(std::move(tensors));
}

void expect_equal(const World& world, const std::string& when) {
  for (std::size_t i = 0; i < world.tensors.size(); ++i) {
    const Tensor& tensor = *world.tensors[i];
    const std::string name = when + ", tensor " + std::to_string(i);
    // Some ten roundings of 2^-24 an update; division and root are correctly rounded.
    EXPECT_LE(relative_norm(tensor.parameter.values(), tensor.p), 1e-6) << name;
    EXPECT_LE(relative_norm(tensor.exp_avg.values(), tensor.m), 2e-6) << name;
    EXPECT_LE(relative_norm(tensor.exp_avg_sq.values(), tensor.v), 2e-6) << name;
    if (!tensor.copy) continue;
    const std::vector<double> parameter = tensor.parameter.values();
    const std::vector<double> copy = tensor.copy->values();
    for (std::size_t j = 0; j < copy.size(); ++j) {
      ASSERT_EQ(copy[j], rounded(parameter[j], ElementType::kBfloat16)) << name << " " << j;
    }
  }
}

TEST(Adamw, FollowsTheReferenceWithItsClipForOddSizesAndTypes) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  World world = odd_world();
  const double expected = world.expected_norm();
  ASSERT_GT(expected, kMaxNorm) << "the clip must bite";
  for (int step = 1; step <= 3; ++step) {
    EXPECT_NEAR(world.norm() / expected, 1, 1e-6);
    world.update(/*is_clipped=*/true);
    for (const auto& tensor : world.tensors) {
      tensor->update(kMaxNorm / (expected + 1e-6), step);
    }
    expect_equal(world, "step " + std::to_string(step));
  }
  EXPECT_EQ(world.step_count(), 3);
}

TEST(Adamw, WithoutANormDoesNotClip) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  World world = odd_world();
  world.update(/*is_clipped=*/false);
  for (const auto& tensor : world.tensors) tensor->update(1, 1);
  expect_equal(world, "no clip");
}

TEST(Adamw, AnOverflowChangesAndCountsNothing) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  World world = odd_world();
  DeviceTensor found_inf(ElementType::kFloat32, std::vector<double>{1});
  world.norm();
  world.update(/*is_clipped=*/true, found_inf.floats());
  EXPECT_EQ(world.step_count(), 0);
  for (const auto& tensor : world.tensors) {
    EXPECT_EQ(tensor->parameter.values(), tensor->p);
    EXPECT_EQ(tensor->exp_avg.values(), tensor->m);
  }
}

TEST(Adamw, TakesMoreTensorsThanOneLaunchDoes) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  std::vector<std::unique_ptr<Tensor>> tensors;
  for (unsigned i = 0; i < 1001; ++i) {
    tensors.push_back(std::make_unique<Tensor>(1 + i % 9, ElementType::kFloat32, 0.1, 0, i));
  }
  World world(std::move(tensors));
  EXPECT_NEAR(world.norm() / world.expected_norm(), 1, 1e-6);
  world.update(/*is_clipped=*/false);
  for (const auto& tensor : world.tensors) tensor->update(1, 1);
  expect_equal(world, "1001 tensors");
}

TEST(GradientNorm, IsTheSameEachTime) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  std::vector<std::unique_ptr<Tensor>> tensors;
  tensors.push_back(std::make_unique<Tensor>(3'000'001, ElementType::kBfloat16, 0.0, 0, 5));
  World world(std::move(tensors));
  const double first = world.norm();
  EXPECT_NEAR(first / world.expected_norm(), 1, 1e-6);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(world.norm(), first);
}

}  // namespace
}  // namespace steplens
