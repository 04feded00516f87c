#include "workloads/model.h"

#include <cmath>
#include <vector>

#include "tests/workloads/tiny_model.h"
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "workloads/attention.h"
#include "workloads/evidence.h"

namespace steplens {
namespace {

// ---- The model again, in plain loops and double precision, one row at a time. ----

using Matrix = std::vector<std::vector<double>>;  // [row][column]

Matrix to_matrix(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kDouble).contiguous();
  const std::int64_t columns = values.dim() == 2 ? values.size(1) : values.size(0);
  const std::int64_t rows = values.numel() / columns;
  const double* data = values.const_data_ptr<double>();
  Matrix result;
  for (std::int64_t r = 0; r < rows; ++r)
    result.emplace_back(data + r * columns, data + (r + 1) * columns);
  return result;
}

std::vector<double> times(const Matrix& weight, const std::vector<double>& x) {
  std::vector<double> y;
  for (const std::vector<double>& row : weight) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += row[i] * x[i];
    y.push_back(sum);
  }
  return y;
}

std::vector<double> rms_norm(const std::vector<double>& x, const std::vector<double>& weight,
                             double epsilon) {
  double square = 0;
  for (const double value : x) square += value * value;
  const double scale = 1 / std::sqrt(square / static_cast<double>(x.size()) + epsilon);
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(x[i] * scale * weight[i]);
  return y;
}

// Turns the pairs (i, i + D/2) of one head by position * base^(-2i/D).
void rotate(double* head, std::size_t head_dim, double position, double base) {
  const std::size_t half = head_dim / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double angle =
        position * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double a = head[i];
    const double b = head[i + half];
    head[i] = a * std::cos(angle) - b * std::sin(angle);
    head[i + half] = b * std::cos(angle) + a * std::sin(angle);
  }
}

double reference_loss_sum(const RunConfig& config, const std::vector<Matrix>& weights,
                          const std::vector<std::int64_t>& tokens,
                          const std::vector<std::int64_t>& targets) {
  const auto num_heads = static_cast<std::size_t>(config.shape.num_heads);
  const auto num_kv = static_cast<std::size_t>(config.shape.num_kv_heads);
  const auto head_dim = static_cast<std::size_t>(config.shape.head_dim);
  const auto ffn = static_cast<std::size_t>(config.shape.ffn_width);
  const std::size_t length = tokens.size();
  Matrix x;
  for (const std::int64_t token : tokens) x.push_back(weights[0][static_cast<std::size_t>(token)]);
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(config.shape.num_layers); ++layer) {
    const Matrix* w = &weights[1 + 6 * layer];  // norm1, wqkv, wo, norm2, w13, w2
    Matrix qkv;
    for (std::size_t t = 0; t < length; ++t) {
      qkv.push_back(times(w[1], rms_norm(x[t], w[0][0], config.norm_epsilon)));
      for (std::size_t h = 0; h < num_heads + num_kv; ++h) {
        rotate(&qkv[t][h * head_dim], head_dim, static_cast<double>(t), config.rope_base);
      }
    }
    for (std::size_t t = 0; t < length; ++t) {
      std::vector<double> y;
      for (std::size_t h = 0; h < num_heads; ++h) {
        const std::size_t kv = h / (num_heads / num_kv);
        const double* q = &qkv[t][h * head_dim];
        std::vector<double> score;
        double total = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          const double* k = &qkv[s][(num_heads + kv) * head_dim];
          double dot = 0;
          for (std::size_t i = 0; i < head_dim; ++i) dot += q[i] * k[i];
          score.push_back(std::exp(dot / std::sqrt(static_cast<double>(head_dim))));
          total += score.back();
        }
        for (std::size_t i = 0; i < head_dim; ++i) {
          double sum = 0;
          for (std::size_t s = 0; s <= t; ++s) {
            sum += score[s] / total * qkv[s][(num_heads + num_kv + kv) * head_dim + i];
          }
          y.push_back(sum);
        }
      }
      const std::vector<double> out = times(w[2], y);
      for (std::size_t i = 0; i < out.size(); ++i) x[t][i] += out[i];
      const std::vector<double> gate_up = times(w[4], rms_norm(x[t], w[3][0], config.norm_epsilon));
      std::vector<double> inner;
      for (std::size_t i = 0; i < ffn; ++i) {
        inner.push_back(gate_up[i] / (1 + std::exp(-gate_up[i])) * gate_up[ffn + i]);
      }
      const std::vector<double> mlp = times(w[5], inner);
      for (std::size_t i = 0; i < mlp.size(); ++i) x[t][i] += mlp[i];
    }
  }
  double loss = 0;
  for (std::size_t t = 0; t < length; ++t) {
    if (targets[t] == -100) continue;
    const std::vector<double> logits =
        times(weights.back(), rms_norm(x[t], weights[weights.size() - 2][0], config.norm_epsilon));
    double total = 0;
    for (const double logit : logits) total += std::exp(logit);
    loss += std::log(total) - logits[static_cast<std::size_t>(targets[t])];
  }
  return loss;
}

// Weights of 0.02 make every attention row flat and every gate linear: with larger ones a wrong
// head order, rotation or gate shows.
void enlarge_weights(const Model& model) {
  const c10::AutoGradMode no_grad(false);
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.value.dim() == 2) at::Tensor(parameter.value).mul_(25);
  }
}

std::vector<Matrix> weights_of(const Model& model) {
  std::vector<Matrix> weights;
  for (const Parameter& parameter : model.parameters())
    weights.push_back(to_matrix(parameter.value));
  return weights;
}

std::vector<std::int64_t> row(const at::Tensor& tensor_BT, std::int64_t index) {
  const std::int64_t* data = tensor_BT.const_data_ptr<std::int64_t>() + index * tensor_BT.size(1);
  return {data, data + tensor_BT.size(1)};
}

double reference_loss_sum(const RunConfig& config, const Model& model,
                          const DeviceMicroBatch& batch) {
  double sum = 0;
  for (std::int64_t r = 0; r < batch.tokens_BT.size(0); ++r) {
    sum += reference_loss_sum(config, weights_of(model), row(batch.tokens_BT, r),
                              row(batch.targets_BT, r));
  }
  return sum;
}

TEST(ModelLossSum, EqualsPlainLoopsInDoubleForBothAttentionLevels) {
  for (const Attention attention : {Attention::kMath, Attention::kFlash}) {
    force_attention(attention);
    const RunConfig config = tiny_config();
    const Model model(config);
    enlarge_weights(model);
    const DeviceMicroBatch batch = random_rows(config, {8, 5, 0, 1}, 7);
    const double expected = reference_loss_sum(config, model, batch);
    const double loss = model.loss_sum(batch.tokens_BT, batch.targets_BT).item<double>();
    EXPECT_NEAR(loss / expected, 1, 2e-6) << name_of(attention);
    EXPECT_GT(expected / 14, 4) << "14 targets: a loss far from ln 37 = 3.6, so weights matter";
  }
}

TEST(ModelLossSum, HasTheGradientOfFiniteDifferences) {
  force_attention(Attention::kMath);
  const RunConfig config = tiny_config();
  const Model model(config);
  enlarge_weights(model);
  const DeviceMicroBatch batch = random_rows(config, {8, 3}, 11);
  model.loss_sum(batch.tokens_BT, batch.targets_BT).backward();
  for (std::size_t p = 0; p < model.parameters().size(); ++p) {
    const Parameter& parameter = model.parameters()[p];
    // The entry with the largest gradient: small ones drown in rounding.
    const at::Tensor gradient = parameter.value.grad().reshape({-1});
    const auto index = gradient.abs().argmax().item<std::int64_t>();
    std::vector<Matrix> weights = weights_of(model);
    const auto columns = static_cast<std::int64_t>(weights[p][0].size());
    double& entry = weights[p][static_cast<std::size_t>(index / columns)]
                           [static_cast<std::size_t>(index % columns)];
    const double centre = entry;
    const auto loss_at = [&](double value) {
      entry = value;
      double sum = 0;
      for (std::int64_t r = 0; r < 2; ++r) {
        sum +=
            reference_loss_sum(config, weights, row(batch.tokens_BT, r), row(batch.targets_BT, r));
      }
      return sum;
    };
    const double step = 1e-5;
    const double expected = (loss_at(centre + step) - loss_at(centre - step)) / (2 * step);
    EXPECT_NEAR(gradient[index].item<double>() / expected, 1, 1e-3) << parameter.name;
  }
}

TEST(ModelCheckpoint, GivesTheSameGradientsAndRunsEachBlockTwice) {
  force_attention(Attention::kFlash);
  RunConfig config = tiny_config();
  const DeviceMicroBatch batch = random_rows(config, {8, 5}, 3);
  const Model plain(config);
  plain.loss_sum(batch.tokens_BT, batch.targets_BT).backward();
  config.checkpoint = Checkpoint::kFull;
  const Model checkpointed(config);
  const std::int64_t before = event_counts()["block_forwards"];
  checkpointed.loss_sum(batch.tokens_BT, batch.targets_BT).backward();
  EXPECT_EQ(event_counts()["block_forwards"] - before, 4) << "2 blocks, forward and recompute";
  for (std::size_t i = 0; i < plain.parameters().size(); ++i) {
    const at::Tensor expected = plain.parameters()[i].value.grad();
    const at::Tensor actual = checkpointed.parameters()[i].value.grad();
    ASSERT_TRUE(actual.defined()) << plain.parameters()[i].name;
    EXPECT_LE((actual - expected).norm().item<double>(), 1e-6 * expected.norm().item<double>())
        << plain.parameters()[i].name;
  }
}

TEST(ModelWeightsHash, DependsOnSeedAndOnEveryBit) {
  RunConfig config = tiny_config();
  const Model model(config);
  EXPECT_EQ(model.weights_hash(), Model(config).weights_hash());
  config.attention = Attention::kMath;
  EXPECT_EQ(model.weights_hash(), Model(config).weights_hash()) << "same for all arms";
  const std::string before = model.weights_hash();
  {
    const c10::AutoGradMode no_grad(false);
    // Two rows swapped: the plain sum of all bits stays the same.
    at::Tensor head = model.parameters().back().value;
    const at::Tensor first = head[0].clone();
    head[0].copy_(head[1]);
    head[1].copy_(first);
  }
  EXPECT_NE(model.weights_hash(), before);
  config.seed = 2;
  EXPECT_NE(Model(config).weights_hash(), before);
}

TEST(ModelInitialWeights, HaveTheStatedSpread) {
  RunConfig config = tiny_config();
  config.shape = {.num_layers = 8,
                  .d_model = 128,
                  .num_heads = 4,
                  .num_kv_heads = 4,
                  .head_dim = 32,
                  .ffn_width = 256,
                  .vocab_size = 512};
  const Model model(config);
  for (const Parameter& parameter : model.parameters()) {
    const double std = parameter.value.std().item<double>();
    if (parameter.value.dim() == 1) {
      EXPECT_EQ(parameter.value.min().item<double>(), 1) << parameter.name;
      EXPECT_EQ(parameter.value.max().item<double>(), 1) << parameter.name;
    } else {
      const bool is_residual = parameter.name.ends_with(".wo") || parameter.name.ends_with(".w2");
      // 0.02 / sqrt(2 * 8) = 0.005; 16,384 draws or more give the spread to 2 %.
      EXPECT_NEAR(std / (is_residual ? 0.005 : 0.02), 1, 0.03) << parameter.name;
    }
  }
}

}  // namespace
}  // namespace steplens
