#include "kernels/rope/rope.h"

#include <string>

#include "tests/kernels/device_tensor.h"
#include "tests/kernels/reference.h"
#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr ElementType kF = ElementType::kFloat32;
constexpr ElementType kB = ElementType::kBfloat16;

using reference::Values;

RopeShape shape_of(std::int64_t B, std::int64_t T, std::int64_t H, std::int64_t Hkv,
                   std::int64_t D) {
  return {.B = B, .T = T, .H = H, .Hkv = Hkv, .D = D};
}
// Model A's and B's heads, grouped queries, halves that no vector fits, one pair of channels.
const RopeShape kShapes[] = {shape_of(2, 33, 12, 12, 64), shape_of(1, 100, 16, 16, 128),
                             shape_of(3, 17, 8, 2, 32),   shape_of(2, 5, 3, 1, 6),
                             shape_of(1, 1, 1, 1, 2),     shape_of(1, 4096, 2, 1, 64),
                             shape_of(0, 7, 2, 2, 16)};

// Columns [first, first + heads) of a fused projection (rows, H + 2 Hkv, D).
Values part_of(const Values& qkv, const RopeShape& shape, QkvPart part) {
  const std::int64_t total = shape.H + 2 * shape.Hkv;
  const std::int64_t first = part == QkvPart::kQ   ? 0
                             : part == QkvPart::kK ? shape.H
                                                   : shape.H + shape.Hkv;
  const std::int64_t heads = part == QkvPart::kQ ? shape.H : shape.Hkv;
  Values values;
  for (std::int64_t n = 0; n < shape.B * shape.T; ++n) {
    for (std::int64_t i = 0; i < heads * shape.D; ++i) {
      values.push_back(qkv[reference::at((n * total + first) * shape.D + i)]);
    }
  }
  return values;
}

Values join(const RopeShape& shape, const Values& q, const Values& k, const Values& v) {
  Values qkv;
  const auto append = [&](const Values& values, std::int64_t n, std::int64_t heads) {
    const auto begin = values.begin() + n * heads * shape.D;
    qkv.insert(qkv.end(), begin, begin + heads * shape.D);
  };
  for (std::int64_t n = 0; n < shape.B * shape.T; ++n) {
    append(q, n, shape.H);
    append(k, n, shape.Hkv);
    append(v, n, shape.Hkv);
  }
  return qkv;
}

HeadsView contiguous(DeviceTensor& tensor, const RopeShape& shape, std::int64_t heads) {
  return {.data = tensor.data(),
          .batch_stride = shape.T * heads * shape.D,
          .token_stride = heads * shape.D,
          .head_stride = shape.D};
}
ConstHeadsView as_const(const HeadsView& view) {
  return {view.data, view.batch_stride, view.token_stride, view.head_stride, view.channel_stride};
}

// Tables in float32 with rows of twice D / 2, as the model keeps them.
struct Tables {
  explicit Tables(RopeShape& shape, std::int64_t misalignment)
      : cos(kF, table(shape, false), misalignment),
        sin(kF, table(shape, true), misalignment) {
    shape.cos = cos.floats();
    shape.sin = sin.floats();
    shape.table_stride = shape.D;
  }
  static Values table(const RopeShape& shape, bool is_sine) {
    Values values;
    for (std::int64_t t = 0; t < shape.T; ++t) {
      for (std::int64_t c = 0; c < shape.D; ++c) {
        const double angle = reference::rope_angle(t, c % (shape.D / 2), shape.D);
        values.push_back(is_sine ? std::sin(angle) : std::cos(angle));
      }
    }
    return values;
  }
  DeviceTensor cos;
  DeviceTensor sin;
};

void check_shape(RopeShape shape, ElementType type, std::int64_t misalignment) {
  shape.type = type;
  SCOPED_TRACE("B=" + std::to_string(shape.B) + " T=" + std::to_string(shape.T) +
               " H=" + std::to_string(shape.H) + " Hkv=" + std::to_string(shape.Hkv) +
               " D=" + std::to_string(shape.D) + " " + std::string(element_name(type)) +
               " misaligned by " + std::to_string(misalignment));
  const Tables tables(shape, misalignment);
  const std::int64_t num_rows = shape.B * shape.T;
  const Values values = random_values(num_rows * (shape.H + 2 * shape.Hkv) * shape.D, type, 1);
  const Values expected_q =
      reference::rope(part_of(values, shape, QkvPart::kQ), shape.T, shape.H, shape.D, 1.0);
  const Values expected_k =
      reference::rope(part_of(values, shape, QkvPart::kK), shape.T, shape.Hkv, shape.D, 1.0);
  const Values expected_v = part_of(values, shape, QkvPart::kV);

  // Into buffers of their own.
  DeviceTensor qkv(type, values, misalignment);
  DeviceTensor q(type, num_rows * shape.H * shape.D, misalignment);
  DeviceTensor k(type, num_rows * shape.Hkv * shape.D, misalignment);
  DeviceTensor v(type, num_rows * shape.Hkv * shape.D, misalignment);
  rope_qkv_forward({.shape = shape,
                    .qkv = qkv.data(),
                    .q = contiguous(q, shape, shape.H),
                    .k = contiguous(k, shape, shape.Hkv),
                    .v = contiguous(v, shape, shape.Hkv)},
                   nullptr);
  EXPECT_LE(relative_norm(q.values(), expected_q), tolerance(type, num_rows));
  EXPECT_LE(relative_norm(k.values(), expected_k), tolerance(type, num_rows));
  EXPECT_EQ(v.values(), expected_v);
  EXPECT_EQ(qkv.values(), values);

  // Where they lie, v untouched.
  rope_qkv_forward({.shape = shape,
                    .qkv = qkv.data(),
                    .q = qkv_heads(qkv.data(), QkvPart::kQ, shape),
                    .k = qkv_heads(qkv.data(), QkvPart::kK, shape)},
                   nullptr);
  EXPECT_EQ(qkv.values(), join(shape, q.values(), k.values(), expected_v));

  // Backward, from gradients (B, heads, T, D) in memory.
  const auto heads_first = [&](DeviceTensor& tensor, std::int64_t heads) {
    return ConstHeadsView{.data = tensor.data(),
                          .batch_stride = heads * shape.T * shape.D,
                          .token_stride = shape.D,
                          .head_stride = shape.T * shape.D};
  };
  const auto transposed = [&](const Values& gradient, std::int64_t heads) {
    Values result(gradient.size());
    for (std::int64_t b = 0; b < shape.B; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t t = 0; t < shape.T; ++t) {
          for (std::int64_t c = 0; c < shape.D; ++c) {
            result[reference::at(((b * shape.T + t) * heads + h) * shape.D + c)] =
                gradient[reference::at(((b * heads + h) * shape.T + t) * shape.D + c)];
          }
        }
      }
    }
    return result;
  };
  const Values dq = random_values(num_rows * shape.H * shape.D, type, 2);
  const Values dk = random_values(num_rows * shape.Hkv * shape.D, type, 3);
  const Values dv = random_values(num_rows * shape.Hkv * shape.D, type, 4);
  const Values expected =
      join(shape, reference::rope(transposed(dq, shape.H), shape.T, shape.H, shape.D, -1.0),
           reference::rope(transposed(dk, shape.Hkv), shape.T, shape.Hkv, shape.D, -1.0),
           transposed(dv, shape.Hkv));
  DeviceTensor device_dq(type, dq, misalignment);
  DeviceTensor device_dk(type, dk, misalignment);
  DeviceTensor device_dv(type, dv, misalignment);
  DeviceTensor dqkv(type, static_cast<std::int64_t>(values.size()), misalignment);
  rope_qkv_backward({.shape = shape,
                     .dq = heads_first(device_dq, shape.H),
                     .dk = heads_first(device_dk, shape.Hkv),
                     .dv = heads_first(device_dv, shape.Hkv),
                     .dqkv = dqkv.data()},
                    nullptr);
  EXPECT_LE(relative_norm(dqkv.values(), expected), tolerance(type, num_rows));
}

TEST(RopeQkv, ForwardAndBackwardMatchTheReference) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const ElementType type : {kF, kB}) {
    for (const RopeShape& shape : kShapes) {
      check_shape(shape, type, 0);
      if (shape.T < 200) check_shape(shape, type, 1);
    }
  }
}

TEST(RopeQkv, BackwardLeavesGradientsThatLieInPlace) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  RopeShape shape = shape_of(2, 9, 4, 2, 16);
  const Tables tables(shape, 0);
  const Values values = random_values(2 * 9 * 8 * 16, kF, 1);
  DeviceTensor dqkv(kF, values);
  const RopeQkvBackwardArgs args{.shape = shape,
                                 .dq = as_const(qkv_heads(dqkv.data(), QkvPart::kQ, shape)),
                                 .dk = as_const(qkv_heads(dqkv.data(), QkvPart::kK, shape)),
                                 .dv = as_const(qkv_heads(dqkv.data(), QkvPart::kV, shape)),
                                 .dqkv = dqkv.data()};
  rope_qkv_backward(args, nullptr);
  const Values expected =
      join(shape, reference::rope(part_of(values, shape, QkvPart::kQ), 9, 4, 16, -1.0),
           reference::rope(part_of(values, shape, QkvPart::kK), 9, 2, 16, -1.0),
           part_of(values, shape, QkvPart::kV));
  EXPECT_LE(relative_norm(dqkv.values(), expected), tolerance(kF));
  // v is not moved: 6 of 8 heads read and written, and the tables.
  EXPECT_EQ(minimum_bytes(args), 2 * (2 * 9 * 6 * 16 * 4) + 9 * 16 * 4);
}

TEST(RopeQkv, ReadsChannelsThatAreNotNeighbours) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  RopeShape shape = shape_of(1, 5, 2, 2, 16);
  const Tables tables(shape, 0);
  // One value for all heads and channels of a token: strides of 0.
  const Values values = random_values(5, kF, 1);
  DeviceTensor gradient(kF, values);
  DeviceTensor dqkv(kF, 5 * 6 * 16);
  const ConstHeadsView view{.data = gradient.data(), .token_stride = 1, .channel_stride = 0};
  rope_qkv_backward({.shape = shape, .dq = view, .dk = view, .dv = view, .dqkv = dqkv.data()},
                    nullptr);
  Values heads;
  for (const double value : values) heads.insert(heads.end(), 2 * 16, value);
  const Values rotated = reference::rope(heads, 5, 2, 16, -1.0);
  EXPECT_LE(relative_norm(dqkv.values(), join(shape, rotated, rotated, heads)), tolerance(kF));
}

TEST(RopeQkv, RefusesWhatItDoesNotCompute) {
  RopeShape shape = shape_of(1, 4, 2, 2, 7);
  shape.table_stride = 8;
  EXPECT_THROW(rope_qkv_forward({.shape = shape}, nullptr), ConfigError);
  shape.D = 8;
  shape.table_stride = 3;
  EXPECT_THROW(rope_qkv_backward({.shape = shape}, nullptr), ConfigError);
}

TEST(QkvHeads, FollowOneAnotherInARowOfTheProjection) {
  const RopeShape shape = shape_of(2, 10, 6, 3, 8);
  alignas(16) float qkv[1] = {};
  const HeadsView k = qkv_heads(static_cast<void*>(qkv), QkvPart::kK, shape);
  const HeadsView v = qkv_heads(static_cast<void*>(qkv), QkvPart::kV, shape);
  EXPECT_EQ(static_cast<char*>(k.data) - reinterpret_cast<char*>(qkv), 6 * 8 * 4);
  EXPECT_EQ(static_cast<char*>(v.data) - reinterpret_cast<char*>(qkv), 9 * 8 * 4);
  EXPECT_EQ(v.token_stride, 12 * 8);
  EXPECT_EQ(v.batch_stride, 10 * 12 * 8);
  EXPECT_EQ(v.head_stride, 8);
}

}  // namespace
}  // namespace steplens
