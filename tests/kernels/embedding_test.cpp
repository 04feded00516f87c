#include "kernels/embedding/embedding.h"

#include <string>
#include <utility>

#include "tests/kernels/device_tensor.h"
#include "tests/kernels/reference.h"
#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr ElementType kF = ElementType::kFloat32;
constexpr ElementType kB = ElementType::kBfloat16;

class DeviceTokens {
 public:
  explicit DeviceTokens(const std::vector<std::int64_t>& tokens) {
    const std::size_t num_bytes = tokens.size() * sizeof(std::int64_t);
    void* data = nullptr;
    SL_CUDA(cudaMalloc(&data, num_bytes + 8));
    data_ = static_cast<std::int64_t*>(data);
    SL_CUDA(cudaMemcpy(data_, tokens.data(), num_bytes, cudaMemcpyHostToDevice));
  }
  ~DeviceTokens() { cudaFree(data_); }
  DeviceTokens(const DeviceTokens&) = delete;
  DeviceTokens& operator=(const DeviceTokens&) = delete;
  const std::int64_t* data() const { return data_; }

 private:
  std::int64_t* data_ = nullptr;
};

void check_tokens(const std::vector<std::int64_t>& tokens, std::int64_t C, std::int64_t V,
                  ElementType type, ElementType dtable_type, std::int64_t misalignment) {
  const auto N = static_cast<std::int64_t>(tokens.size());
  SCOPED_TRACE("N=" + std::to_string(N) + " C=" + std::to_string(C) + " V=" + std::to_string(V) +
               " " + std::string(element_name(type)) + " to " +
               std::string(element_name(dtable_type)) + " misaligned by " +
               std::to_string(misalignment));
  const auto dy = random_values(N * C, type, 1);
  DeviceTensor device_dy(type, dy, misalignment);
  const DeviceTokens device_tokens(tokens);
  DeviceWorkspace workspace(embedding_backward_workspace_bytes(N, C, V));
  const auto launch = [&] {
    DeviceTensor dtable(dtable_type, V * C, misalignment);
    embedding_backward({.dy = device_dy.data(),
                        .tokens = device_tokens.data(),
                        .dtable = dtable.data(),
                        .workspace = workspace.data(),
                        .N = N,
                        .C = C,
                        .V = V,
                        .dy_type = type,
                        .dtable_type = dtable_type},
                       nullptr);
    return dtable.values();
  };
  const auto first = launch();
  EXPECT_LE(relative_norm(first, reference::embedding_backward(dy, tokens, C, V)),
            tolerance(dtable_type, V * C));
  EXPECT_EQ(launch(), first) << "not deterministic";
}

// Low tokens often, high ones rarely, as in text.
std::vector<std::int64_t> skewed_tokens(std::int64_t N, std::int64_t V, double exponent) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform;
  std::vector<std::int64_t> tokens;
  for (std::int64_t n = 0; n < N; ++n) {
    const double place = std::pow(uniform(random), exponent);
    tokens.push_back(static_cast<std::int64_t>(place * static_cast<double>(V - 1)));
  }
  return tokens;
}

TEST(EmbeddingBackward, MatchesTheReferenceTwiceAlike) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  constexpr std::pair<ElementType, ElementType> kTypes[] = {{kF, kF}, {kB, kF}, {kB, kB}};
  for (const auto& [type, dtable_type] : kTypes) {
    check_tokens(skewed_tokens(5000, 1000, 4.0), 96, 1000, type, dtable_type, 0);
    check_tokens(skewed_tokens(4099, 70000, 2.0), 7, 70000, type, dtable_type, 1);
    check_tokens(skewed_tokens(31, 50, 1.0), 768, 50, type, dtable_type, 0);
    check_tokens(skewed_tokens(513, 3, 1.0), 2056, 3, type, dtable_type, 0);
    check_tokens({2}, 1, 4, type, dtable_type, 0);
    check_tokens(std::vector<std::int64_t>(1000, 1), 64, 2, type, dtable_type, 0);  // All alike.
    check_tokens(std::vector<std::int64_t>(64, 0), 64, 1, type, dtable_type, 1);
  }
}

TEST(EmbeddingBackward, LeavesOutTokensThatNameNoRow) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  std::vector<std::int64_t> tokens(100, 4);  // Three chunks of the first token past the table.
  tokens.insert(tokens.end(), {3, -1, -100, 1'000'000'000'000, 0});
  check_tokens(tokens, 16, 4, kF, kF, 0);
}

TEST(EmbeddingBackward, OfNoPositionsGivesZeros) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const ElementType type : {kF, kB}) {
    DeviceTensor dtable(type, 24);
    embedding_backward(
        {.dtable = dtable.data(), .N = 0, .C = 8, .V = 3, .dy_type = type, .dtable_type = type},
        nullptr);
    EXPECT_EQ(dtable.values(), std::vector<double>(24, 0.0));
  }
}

TEST(EmbeddingBackward, RefusesWhatItDoesNotCompute) {
  EXPECT_THROW(embedding_backward({.N = 1, .C = 8, .V = 0}, nullptr), ConfigError);
  EXPECT_THROW(embedding_backward({.N = 1, .C = 0, .V = 3}, nullptr), ConfigError);
  EXPECT_THROW(embedding_backward({.N = -1, .C = 8, .V = 3}, nullptr), ConfigError);
  EXPECT_THROW(embedding_backward({.N = 1, .C = 8, .V = 3, .dtable_type = kB}, nullptr),
               ConfigError);
}

}  // namespace
}  // namespace steplens
