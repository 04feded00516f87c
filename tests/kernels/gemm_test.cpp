#include "kernels/gemm/gemm.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/kernels/device_tensor.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/temporary_folder.h"
#include "kernels/gemm/compare.h"

namespace steplens {
namespace {

constexpr ElementType kF = ElementType::kFloat32;
constexpr ElementType kB = ElementType::kBfloat16;

struct Way {
  bool is_separate = false;  // Of an added product: R is not C.
  bool is_tuned = true;
};

class Gemm : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU";
    SL_CUDA(cudaMalloc(&workspace_, kGemmWorkspaceBytes));
  }
  void TearDown() override { cudaFree(workspace_); }

  // C of A B, or C + A B, in double; A and B as they lie.
  static std::vector<double> expected(const GemmShape& s, const std::vector<double>& a,
                                      const std::vector<double>& b, std::vector<double> c) {
    for (std::int64_t i = 0; i < s.M; ++i) {
      for (std::int64_t j = 0; j < s.N; ++j) {
        double sum = s.is_added ? c[static_cast<std::size_t>(i * s.N + j)] : 0;
        for (std::int64_t k = 0; k < s.K; ++k) {
          sum += a[static_cast<std::size_t>(s.is_a_transposed ? k * s.M + i : i * s.K + k)] *
                 b[static_cast<std::size_t>(s.is_b_transposed ? j * s.K + k : k * s.N + j)];
        }
        c[static_cast<std::size_t>(i * s.N + j)] = sum;
      }
    }
    return c;
  }

  // Runs the product twice, the first time measured, and compares both.
  void check(GemmTable& table, const GemmShape& shape, std::int64_t misalignment = 0,
             Way way = {}) {
    SCOPED_TRACE(name_of(shape) + " misaligned by " + std::to_string(misalignment));
    const auto a = random_values(shape.M * shape.K, shape.type, 1);
    const auto b = random_values(shape.K * shape.N, shape.type, 2);
    const auto c = random_values(shape.M * shape.N, shape.output_type, 3);
    DeviceTensor device_a(shape.type, a, misalignment);
    DeviceTensor device_b(shape.type, b, misalignment);
    const std::vector<double> wanted = expected(shape, a, b, c);
    for (int i = 0; i < 2; ++i) {
      DeviceTensor nans(shape.output_type, shape.M * shape.N, misalignment);
      DeviceTensor values(shape.output_type, c, misalignment);
      const bool is_in_place = shape.is_added && !way.is_separate;
      DeviceTensor& device_c = is_in_place ? values : nans;
      table.run({.shape = shape,
                 .a = device_a.data(),
                 .b = device_b.data(),
                 .r = way.is_separate ? values.data() : nullptr,
                 .c = device_c.data(),
                 .workspace = workspace_,
                 .is_tuned = way.is_tuned},
                nullptr);
      if (way.is_separate) {
        EXPECT_EQ(relative_norm(values.values(), c), 0) << "R is only read";
      }
      // Products of bf16 are exact in fp32, and so are sums of few; TF32 has 10 bits of mantissa.
      const double limit = shape.output_type == kB ? std::ldexp(1.0, -8)
                           : shape.is_tf32         ? std::ldexp(1.0, -10)
                                                   : 1e-5;
      EXPECT_LE(relative_norm(device_c.values(), wanted), limit);
    }
  }

  TemporaryFolder folder_{"steplens-gemm"};
  void* workspace_ = nullptr;
};

TEST_F(Gemm, MatchesTheReferenceWhateverTheLayoutTypeAndSize) {
  GemmTable table(folder_.path());
  struct Size {
    std::int64_t M, N, K;
  };
  for (const Size& size :
       {Size{1, 1, 1}, Size{7, 5, 3}, Size{64, 96, 128}, Size{33, 257, 65}, Size{200, 320, 40}}) {
    for (const int layout : {0, 1, 2, 3}) {
      GemmShape shape{.M = size.M,
                      .N = size.N,
                      .K = size.K,
                      .is_a_transposed = (layout & 1) != 0,
                      .is_b_transposed = (layout & 2) != 0};
      check(table, shape);
      shape.is_tf32 = true;
      check(table, shape);
      shape.is_tf32 = false;
      shape.is_added = true;
      check(table, shape);
      check(table, shape, 0, {.is_separate = true});
      shape.type = kB;
      check(table, shape);
      check(table, shape, 0, {.is_separate = true});
      shape.output_type = kB;
      check(table, shape, 0, {.is_separate = true});
      check(table, shape, /*misalignment=*/1, {.is_separate = true, .is_tuned = false});
      shape.is_added = false;
      check(table, shape);
      check(table, shape, /*misalignment=*/1);
    }
  }
}

TEST_F(Gemm, TakesTheChoicesOfTheFileAndMakesADamagedOneAnew) {
  const GemmShape shape{.M = 512, .N = 384, .K = 256, .type = kB, .output_type = kB};
  {
    GemmTable table(folder_.path());
    check(table, shape);
    const nlohmann::json row = table.facts().at("products").at(0);
    EXPECT_EQ(row.at("product"), "512x384x256 nn bfloat16");
    EXPECT_TRUE(row.at("is_measured").get<bool>());
    EXPECT_GE(row.at("num_candidates"), 1);
    EXPECT_LE(row.at("chosen_ns"), row.at("heuristic_ns"));
  }
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) file = entry.path();
  nlohmann::json table_json = read_json(file);
  ASSERT_EQ(table_json.at("products").size(), 1U);
  table_json.at("products").at(0)["chosen_ns"] = 12345;
  write_json_atomically(file, table_json);
  {
    GemmTable table(folder_.path());
    check(table, shape);
    EXPECT_EQ(table.facts().at("products").at(0).at("chosen_ns"), 12345) << "measured again";
  }
  table_json.at("device") = "another";
  write_json_atomically(file, table_json);
  {
    GemmTable table(folder_.path());
    check(table, shape);
    EXPECT_NE(table.facts().at("products").at(0).at("chosen_ns"), 12345);
  }
  write_file_atomically(file, "{\"schema_version\": 1, \"device\": \"anoth");
  GemmTable table(folder_.path());
  check(table, shape);
  EXPECT_EQ(read_json(file).at("products").size(), 1U);
}

TEST_F(Gemm, TakesTheHeuristicsFirstUnmeasuredWhereNotTuned) {
  GemmTable table(folder_.path());
  const GemmShape shape{.M = 256, .N = 128, .K = 64, .type = kB, .output_type = kB};
  check(table, shape, 0, {.is_tuned = false});
  EXPECT_TRUE(table.facts().at("products").empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  check(table, shape);
  check(table, shape, 0, {.is_tuned = false});
  EXPECT_EQ(table.facts().at("products").size(), 1U);
}

TEST_F(Gemm, MeasuresNothingWhileAGraphIsCaptured) {
  const GemmShape shape{.M = 64, .N = 48, .K = 32};
  const auto a = random_values(shape.M * shape.K, kF, 1);
  const auto b = random_values(shape.K * shape.N, kF, 2);
  DeviceTensor device_a(kF, a);
  DeviceTensor device_b(kF, b);
  DeviceTensor c(kF, shape.M * shape.N);
  GemmTable table(folder_.path());
  cudaStream_t stream = nullptr;
  SL_CUDA(cudaStreamCreate(&stream));
  SL_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  table.run({.shape = shape,
             .a = device_a.data(),
             .b = device_b.data(),
             .c = c.data(),
             .workspace = workspace_},
            stream);
  cudaGraph_t graph = nullptr;
  SL_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT_FALSE(table.facts().at("products").at(0).at("is_measured").get<bool>());
  cudaGraphExec_t exec = nullptr;
  SL_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  SL_CUDA(cudaGraphLaunch(exec, stream));
  SL_CUDA(cudaStreamSynchronize(stream));
  EXPECT_LE(relative_norm(c.values(), expected(shape, a, b, {c.values()})), 1e-5);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_F(Gemm, LooksBeyondTheOffersOfALongProductAndKeepsItsResult) {
  // 58 GFLOP: above 40 us on any GPU so far. The heuristic offers about 8 algorithms.
  const GemmShape shape{
      .M = 16384, .N = 2304, .K = 768, .is_b_transposed = true, .type = kB, .output_type = kB};
  DeviceTensor a(kB, random_values(shape.M * shape.K, kB, 1));
  DeviceTensor b(kB, random_values(shape.K * shape.N, kB, 2));
  DeviceTensor tuned(kB, shape.M * shape.N);
  DeviceTensor untuned(kB, shape.M * shape.N);
  GemmTable table(folder_.path());
  GemmArgs args{.shape = shape, .a = a.data(), .b = b.data(), .workspace = workspace_};
  args.c = tuned.data();
  table.run(args, nullptr);
  args.is_tuned = false;
  args.c = untuned.data();
  table.run(args, nullptr);
  EXPECT_LE(relative_norm(tuned.values(), untuned.values()), std::ldexp(1.0, -8));
  const nlohmann::json row = table.facts().at("products").at(0);
  EXPECT_GT(row.at("num_candidates"), 50);
  EXPECT_LE(row.at("chosen_ns"), row.at("heuristic_ns"));
}

TEST_F(Gemm, DistancesAreRelativeAndSeeNaN) {
  for (const ElementType type : {kF, kB}) {
    std::vector<double> values(1000, 1.0), reference(1000, 1.0);
    DeviceTensor equal(type, values);
    values[0] = values[999] = 3;
    reference[0] = 0;
    // Differences 3 and 2; 999 ones.
    DeviceTensor device_values(type, values);
    DeviceTensor device_reference(type, reference);
    DeviceTensor nans(type, 1000);
    DeviceTensor sums(kF, std::vector<double>(4, 7.0));  // Two doubles.
    auto* two = static_cast<double*>(sums.data());
    EXPECT_NEAR(
        relative_distance(device_values.data(), device_reference.data(), 1000, type, two, nullptr),
        std::sqrt(13.0 / 999), 1e-12);
    EXPECT_EQ(relative_distance(equal.data(), equal.data(), 1000, type, two, nullptr), 0);
    EXPECT_TRUE(std::isnan(relative_distance(nans.data(), equal.data(), 1000, type, two, nullptr)));
  }
}

TEST_F(Gemm, NamesASizeOrTypeThatCannotBe) {
  GemmTable table(folder_.path());
  EXPECT_THROW(table.run({.shape = {.M = 0, .N = 4, .K = 4}}, nullptr), ConfigError);
  EXPECT_THROW(
      table.run({.shape = {.M = 4, .N = 4, .K = 4, .type = kF, .output_type = kB}}, nullptr),
      ConfigError);
}

TEST(GemmShapes, CountTheirWork) {
  const GemmShape shape{.M = 3, .N = 5, .K = 7, .type = kB, .output_type = kF, .is_added = true};
  EXPECT_EQ(flops(shape), 210);
  EXPECT_EQ(minimum_bytes(shape), (21 + 35) * 2 + 2 * 15 * 4);
  EXPECT_EQ(name_of(shape), "3x5x7 nn bfloat16 to float32 added");
}

}  // namespace
}  // namespace steplens
