#include "reports/gemm/gemm_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace steplens {
namespace {

using nlohmann::json;

json product(const char* name, const char* algorithm, int heuristic_ns, int chosen_ns) {
  return {{"product", name},
          {"algorithm", algorithm},
          {"heuristic_ns", heuristic_ns},
          {"chosen_ns", chosen_ns},
          {"num_candidates", 8},
          {"tile_id", 20},
          {"stages_id", 35},
          {"split_k", 1}};
}

BlockRecord block(json products) {
  BlockRecord record;
  record.evidence = {{"gemm", {{"products", std::move(products)}}}};
  return record;
}

TEST(GemmChoices, AreOfTheFirstBlockThatHasAnyLongestFirst) {
  Bundle bundle;
  bundle.blocks.emplace_back();  // Of an arm with gemm=heuristic.
  bundle.blocks.push_back(block(json::array(
      {product("short", "aa", 100'000, 80'000), product("long", "bb", 400'000, 400'000)})));
  bundle.blocks.push_back(block(json::array(
      {product("short", "cc", 100'000, 80'000), product("long", "bb", 400'000, 400'000)})));
  const std::vector<GemmChoice> choices = gemm_choices(bundle);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].product, "long");
  EXPECT_TRUE(choices[0].is_same_everywhere);
  EXPECT_EQ(choices[1].product, "short");
  EXPECT_FALSE(choices[1].is_same_everywhere);
  const Table table = gemm_table(choices);
  EXPECT_THAT(table.rows[1], testing::ElementsAre("short", "100.0 us", "80.00 us", "25.0 %", "8",
                                                  "20", "35", "1", "another in some"));
}

TEST(GemmChoices, LeaveOutWhatIsDamagedOrFailed) {
  Bundle bundle;
  EXPECT_TRUE(gemm_choices(bundle).empty());
  bundle.blocks.push_back(block(json::array({product("long", "bb", 4, 4)})));
  bundle.blocks.back().status = BlockStatus::kCrash;
  bundle.blocks.push_back(block("none"));
  bundle.blocks.push_back(block(json::array({7, json::object(), product("one", "aa", 0, 0)})));
  const std::vector<GemmChoice> choices = gemm_choices(bundle);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(gemm_table(choices).rows[0][1], "not measured");
}

}  // namespace
}  // namespace steplens
