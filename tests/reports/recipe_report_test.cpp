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

}  // namespace
}  // namespace steplens
