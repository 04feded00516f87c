#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/plan.h"
#include "harness/recipe.h"

/// A level that a recipe keeps can exclude toggles that come later in the order (compile=aoti knows
/// no fused operator of ours). Each of them alone may gain less than what it would replace, so the
/// search tries all of them together in its place, once, behind the order.
namespace steplens {

/// Undoing one kept toggle, and setting what it excluded.
struct RecipeAlternative {
  RecipeChange undone;              // From the kept level back to where the toggle stood.
  std::vector<RecipeChange> taken;  // In the recipe's order; never empty.

  std::vector<RecipeChange> changes() const;
};

/// The next alternative that `recipe` has not tried. `now` is its configuration after the steps
/// done so far. Of a toggle with several levels the first that can run is taken; what cannot run
/// beside the others is left out. Absent where no kept toggle excludes a skipped one.
std::optional<RecipeAlternative> next_alternative(const Recipe& recipe,
                                                  const PlanVocabulary& vocabulary,
                                                  const RunConfig& now);

/// "without-compile": the arm of an alternative in its step's bundle.
std::string alternative_arm_name(std::string_view undone_toggle);

/// "norm=fused+rope=fused instead of compile=aoti". `changes` as of a step.
std::string alternative_text(std::span<const RecipeChange> changes);

}  // namespace steplens
