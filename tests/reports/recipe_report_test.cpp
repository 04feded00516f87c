#include "reports/recipe/recipe_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string text_with(const std::string& verdict, double effect_ratio, const std::string& reason) {
  RecipeResults results;
  results.recipe.leave_one_out = {{.toggle = "attention",
                                   .kept_level = "cudnn",
                                   .from_level = "math",
                                   .verdict = verdict,
                                   .effect_ratio = effect_ratio,
                                   .reason = reason}};
  return recipe_text(results);
}

TEST(RecipeText, SaysWhatEachVerdictOfUndoingMeans) {
  EXPECT_THAT(text_with("SLOWER", 0.4, ""), Not(HasSubstr("won when it was tried")));
  EXPECT_THAT(text_with("EQUIVALENT", 1.0, ""), HasSubstr("the others made it needless"));
  EXPECT_THAT(text_with("FASTER", 1.05, ""),
              HasSubstr("is in the way now: undoing it is FASTER, +5.0 %"));
  EXPECT_THAT(text_with("INCONCLUSIVE", 0.99, ""),
              HasSubstr("whether it still helps is not known: undoing it is INCONCLUSIVE."));
}

// A change without proof is not one that did nothing: it may have measured a lot.
TEST(RecipeText, UndoingWithoutProofIsNotCalledNeedless) {
  const std::string text = text_with("NO_EFFECT", 0.4, "claimed, but not so: x");
  EXPECT_THAT(text, Not(HasSubstr("needless")));
  EXPECT_THAT(text,
              HasSubstr("Nothing shows that undoing attention=cudnn changed what ran, though it "
                        "measured -60 %: claimed, but"));
}

// A part of a set that was kept in the place of what excluded it was never tried by itself.
TEST(RecipeText, APartOfAnAlternativeDidNotWinByItself) {
  RecipeResults results;
  results.steps.push_back({.step = {.toggle = "compile",
                                    .kept_level = "off",
                                    .changes = {{.toggle = "embedding", .level = "fused"},
                                                {.toggle = "gemm", .level = "tuned"}}}});
  results.recipe.leave_one_out = {{.toggle = "embedding",
                                   .kept_level = "fused",
                                   .from_level = "aten",
                                   .verdict = "EQUIVALENT",
                                   .effect_ratio = 1.0},
                                  {.toggle = "gemm",
                                   .kept_level = "tuned",
                                   .from_level = "heuristic",
                                   .verdict = "INCONCLUSIVE",
                                   .effect_ratio = 0.98}};
  const std::string text = recipe_text(results);
  EXPECT_THAT(text, HasSubstr("embedding=fused was kept with others, and undoing it now changes "
                              "nothing: it is needless beside them."));
  EXPECT_THAT(text, HasSubstr("gemm=tuned was kept with others; whether it helps is not known"));
}

ArmResult arm_of(const std::string& toggle, const std::string& level, double tokens_per_s) {
  ArmResult row;
  row.name = toggle + "=" + level;
  row.toggle = toggle;
  row.level = level;
  row.is_baseline = toggle.empty();
  row.valid_tokens_per_s = tokens_per_s;
  return row;
}

// compile=aoti, kept: twice the baseline's rate.
RecipeStepResults compile_step() {
  RecipeStepResults step{.step = {.toggle = "compile", .kept_level = "aoti"}, .results = Results{}};
  step.results->arms = {arm_of("", "", 100'000), arm_of("compile", "aoti", 200'000)};
  return step;
}

int count_of(const std::string& text, const std::string& word) {
  int count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

TEST(RecipePlot, PutsWhatWasSkippedIntoOneColumn) {
  RecipeResults results;
  results.steps.push_back(compile_step());
  const std::string without = recipe_svg(results);
  for (const char* toggle : {"norm", "rope", "gemm"}) {
    results.steps.push_back({.step = {.toggle = toggle}});
  }
  const std::string with_three = recipe_svg(results);
  EXPECT_THAT(with_three, HasSubstr(">norm to gemm<"));
  EXPECT_THAT(with_three, HasSubstr(">3 skipped<"));
  EXPECT_THAT(with_three, Not(HasSubstr("rope")));
  results.steps.resize(2);
  const std::string with_one = recipe_svg(results);
  EXPECT_THAT(with_one, HasSubstr(">norm<"));
  EXPECT_THAT(with_one, HasSubstr(">skipped<"));
  const auto width_of = [](const std::string& svg) {
    const std::string attribute = "width=\"";
    return std::stod(svg.substr(svg.find(attribute) + attribute.size()));
  };
  EXPECT_EQ(width_of(with_one), width_of(with_three));
  EXPECT_LT(width_of(without), width_of(with_one));
}

// What a kept level excludes is many steps with one reason.
TEST(RecipeTable, HasTheStepsThatRanAndASentenceForTheReasonsOfTheOthers) {
  RecipeResults results;
  results.steps.push_back(compile_step());
  const std::string refused = "nothing to compare; not applicable: ";
  results.steps.push_back(
      {.step = {.toggle = "norm", .reason = refused + "norm=fused: a package: is one"}});
  results.steps.push_back(
      {.step = {.toggle = "weights", .reason = refused + "weights=bf16_master: another"}});
  results.steps.push_back(
      {.step = {.toggle = "rope", .reason = refused + "rope=fused: a package: is one"}});
  results.steps.push_back({.step = {.toggle = "graph", .reason = "graph: stands there already"}});
  EXPECT_EQ(recipe_table(results).rows.size(), 1U);
  EXPECT_THAT(skipped_sentences(results),
              testing::ElementsAre("Not tried: norm=fused, rope=fused: a package: is one.",
                                   "Not tried: weights=bf16_master: another.",
                                   "Not tried: graph: graph: stands there already."));
}

TEST(RecipePlot, NamesEachLevelThatWasNotKeptOnce) {
  RecipeResults results;
  RecipeStepResults attention{.step = {.toggle = "attention", .kept_level = "cudnn"},
                              .results = Results{}};
  // All four within the height of a word.
  attention.results->arms = {arm_of("", "", 100'000), arm_of("attention", "flash", 249'000),
                             arm_of("attention", "mem_efficient", 248'000),
                             arm_of("attention", "cudnn", 250'000)};
  results.steps.push_back(attention);
  const std::string svg = recipe_svg(results);
  std::vector<double> heights;
  for (const char* word : {">cudnn: 250,000<", ">flash<", ">mem_efficient<"}) {
    ASSERT_EQ(count_of(svg, word), 1) << word;
    const std::string before = svg.substr(0, svg.find(word));
    const std::string attribute = " y=\"";
    heights.push_back(std::stod(before.substr(before.rfind(attribute) + attribute.size())));
  }
  EXPECT_GE(heights[1] - heights[0], 11) << "letters are 11 high";
  EXPECT_GE(heights[2] - heights[1], 11);
}

}  // namespace
}  // namespace steplens
