#pragma once

#include <imgui.h>

#include "reports/results.h"
#include "viewer/draw/theme.h"

namespace steplens {

/// Where a change of tokens a second stands on the bar: near 0 linear, beyond 2 % logarithmic, so
/// that +0.3 % and -60 % are both to be seen.
class EffectScale {
 public:
  /// Wide enough for all intervals, and for -2 % to +2 %.
  explicit EffectScale(const Results& results);

  /// `ratio`: candidate / reference.
  float x_of(double ratio, float left, float right) const;
  bool contains(double ratio) const;

 private:
  double low_;
  double high_;
};

/// Numbers of the axis in a line.
void paint_effect_ticks(const Theme& theme, const EffectScale& scale, ImVec2 low, ImVec2 high);

/// Effect and interval of one arm over the band of what counts as equivalent; the band alone if
/// `arm` is null or has no effect.
void paint_effect_bar(const Theme& theme, const VerdictRule& rule, const EffectScale& scale,
                      const ArmResult* arm, ImVec2 low, ImVec2 high);

}  // namespace steplens
