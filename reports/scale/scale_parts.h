#pragma once

#include <string>
#include <vector>

#include "reports/document.h"
#include "reports/scale/scale_model.h"

namespace steplens {

/// A prediction: how many GPUs would do what, without and with no_sync.
struct ScaleCurve {
  std::string arm;
  Links links;
  StepModel model;
  std::vector<ScalePoint> sync;
  std::vector<ScalePoint> no_sync;  // Empty with one micro-step: it would be the same.
};

ScaleCurve scale_curve(const RunConfig& config, const TracedArm& arm, const Links& links,
                       const std::vector<std::int64_t>& num_gpus);

/// One row a number of GPUs.
Table scale_table(const ScaleCurve& curve);

/// What the prediction rests on, in sentences.
std::string scale_assumptions(const ScaleCurve& curve);

/// Efficiency over the number of GPUs (logarithmic). An SVG file.
std::string scale_svg(const ScaleCurve& curve);

nlohmann::json to_json(const ScaleCurve& curve);

}  // namespace steplens
