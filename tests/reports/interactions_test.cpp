#include "reports/interactions/interactions.h"

#include <cmath>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using ::testing::HasSubstr;

// Step of both switches where they do together what they do alone, in a round.
double product_ns(int round) {
  const double drift_ns = 5'000.0 * round;  // The machine slows down over the run.
  return (900'000 + drift_ns) * (900'000 + drift_ns) / (1'000'000 + drift_ns);
}
double both_ns(int round, double extra_ns) {
  return product_ns(round) + extra_ns + (round % 2 == 0 ? 300 : -300);
}

// Two switches, each of which makes steps 10 % shorter, and both together, whose steps are longer
// by `extra_ns` than the product of both effects.
BundleBuilder pair_of(double extra_ns, int num_rounds = 8) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_arm("checkpoint", "full");
  Arm& cell = builder.add_arm("checkpoint", "full");
  cell.name = "optimizer=fused+checkpoint=full";
  cell.reference = "checkpoint=full";
  set_config_field(cell.config, "optimizer", "fused");
  for (int round = 0; round < num_rounds; ++round) {
    const std::int64_t drift_ns = 5'000 * round;
    builder.add_round(
        {{"baseline", 1'000'000 + drift_ns},
         {"optimizer=fused", 900'000 + drift_ns},
         {"checkpoint=full", 900'000 + drift_ns},
         {"optimizer=fused+checkpoint=full", std::llround(both_ns(round, extra_ns))}});
  }
  return builder;
}

std::vector<Interaction> interactions_of(const BundleBuilder& builder) {
  return compute_interactions(builder.bundle(), {});
}

TEST(Interactions, AreTheRateOfBothOverTheProductOfTheEffects) {
  const std::vector<Interaction> pairs = interactions_of(pair_of(-110'000));
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].first, "optimizer=fused");
  EXPECT_EQ(pairs[0].second, "checkpoint=full");
  EXPECT_EQ(pairs[0].num_rounds, 8);
  // Per round the product's step over the step of both, by hand; geometric mean.
  double sum = 0;
  for (int round = 0; round < 8; ++round) {
    sum += std::log(product_ns(round) / both_ns(round, -110'000));
  }
  EXPECT_NEAR(pairs[0].ratio, std::exp(sum / 8), 1e-6);
  EXPECT_EQ(pairs[0].kind, InteractionKind::kSynergy);
  EXPECT_NEAR(*pairs[0].p_adjusted, 2.0 / 256, 1e-9) << "the smallest p of eight rounds";
}

TEST(Interactions, OfTheProductAreIndependent) {
  const std::vector<Interaction> pairs = interactions_of(pair_of(0));
  EXPECT_EQ(pairs[0].kind, InteractionKind::kIndependent);
  EXPECT_NEAR(pairs[0].ratio, 1, 0.001);
  EXPECT_GT(*pairs[0].p_adjusted, 0.05);
}

TEST(Interactions, OfWinsThatAreTheSameOverlap) {
  const std::vector<Interaction> pairs = interactions_of(pair_of(90'000));
  EXPECT_EQ(pairs[0].kind, InteractionKind::kOverlap);
  EXPECT_THAT(interaction_sentence(pairs[0]), HasSubstr("overlap, -"));
}

TEST(Interactions, OfFewRoundsHaveNoVerdict) {
  const std::vector<Interaction> pairs = interactions_of(pair_of(-110'000, 5));
  EXPECT_EQ(pairs[0].kind, InteractionKind::kNotEnoughRounds);
  EXPECT_FALSE(pairs[0].p_adjusted);
}

TEST(Interactions, NeedBothSingleArms) {
  EXPECT_TRUE(interactions_of(eight_rounds()).empty());
  EXPECT_EQ(interactions_svg({}), "");
}

TEST(InteractionsSvg, NamesEveryPairOnce) {
  const std::string svg = interactions_svg(interactions_of(pair_of(-110'000)));
  EXPECT_THAT(svg, HasSubstr("synergy"));
  EXPECT_THAT(svg, HasSubstr("<title>optimizer=fused and checkpoint=full"));
}

}  // namespace
}  // namespace steplens
