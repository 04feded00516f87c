#include "reports/scale/scale_parts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/format.h"
#include "reports/palette.h"
#include "reports/plots/axis.h"
#include "reports/svg.h"

namespace steplens {
namespace {

double total_bytes(const StepModel& model) {
  double bytes = 0;
  for (const BucketPlan& bucket : model.buckets) bytes += static_cast<double>(bucket.bytes);
  return bytes;
}

std::string curve_svg(const Scale& x, const Scale& y, const std::vector<ScalePoint>& points,
                      std::size_t series, std::string_view label, std::string_view dashes) {
  std::vector<double> xs, ys;
  xs.reserve(points.size());
  ys.reserve(points.size());
  for (const ScalePoint& point : points) {
    xs.push_back(std::log2(static_cast<double>(point.num_gpus)));
    ys.push_back(100 * point.efficiency_ratio);
  }
  const std::string_view colour = series_swatch(series).colour;
  return svg_polyline(x, y, xs, ys, colour, 2, dashes) +
         svg_text(x.end + 8, y.at(ys.back()) + 4, "start", label, colour);
}

nlohmann::json to_json(const std::vector<ScalePoint>& points) {
  nlohmann::json rows = nlohmann::json::array();
  for (const ScalePoint& point : points) {
    rows.push_back({{"num_gpus", point.num_gpus},
                    {"step_ns", point.step_ns},
                    {"communication_ns", point.communication_ns},
                    {"communication_exposed_ns", point.exposed_ns},
                    {"tokens_per_s", point.tokens_per_s},
                    {"efficiency_ratio", point.efficiency_ratio}});
  }
  return rows;
}

}  // namespace

ScaleCurve scale_curve(const RunConfig& config, const TracedArm& arm, const Links& links,
                       const std::vector<std::int64_t>& num_gpus) {
  ScaleCurve curve{.arm = arm.arm, .links = links, .model = step_model_of(config, arm)};
  for (const std::int64_t count : num_gpus) {
    curve.sync.push_back(predict(curve.model, links, count, /*no_sync=*/false));
    if (config.num_accumulation == 1) continue;
    curve.no_sync.push_back(predict(curve.model, links, count, /*no_sync=*/true));
  }
  return curve;
}

Table scale_table(const ScaleCurve& curve) {
  Table table{.columns = {{"GPUs", Align::kRight},
                          {"tokens/s", Align::kRight},
                          {"efficiency", Align::kRight},
                          {"step", Align::kRight},
                          {"all-reduces", Align::kRight},
                          {"exposed", Align::kRight}}};
  if (!curve.no_sync.empty()) {
    table.columns.push_back({"no_sync tokens/s", Align::kRight});
    table.columns.push_back({"efficiency", Align::kRight});
    table.columns.push_back({"no_sync gains", Align::kRight});
  }
  for (std::size_t i = 0; i < curve.sync.size(); ++i) {
    const ScalePoint& point = curve.sync[i];
    std::vector<std::string> row = {format_count(point.num_gpus),
                                    format_rate(point.tokens_per_s),
                                    format_percent(point.efficiency_ratio),
                                    format_duration_ns(point.step_ns),
                                    format_duration_ns(point.communication_ns),
                                    format_duration_ns(point.exposed_ns)};
    if (!curve.no_sync.empty()) {
      const ScalePoint& other = curve.no_sync[i];
      row.push_back(format_rate(other.tokens_per_s));
      row.push_back(format_percent(other.efficiency_ratio));
      row.push_back(format_change(other.tokens_per_s / point.tokens_per_s));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string scale_assumptions(const ScaleCurve& curve) {
  const StepModel& model = curve.model;
  return fmt::format(
      "A prediction, not a measurement. From {}: forward {}, backward {} a micro-step, {} a step "
      "besides, {} micro-steps; {} of gradients in {} buckets, each sent when the part of the "
      "backward pass is over that fills it, one after the other. Each GPU keeps its micro-batch. "
      "Links: {} ({}); a collective slows the computation beside it by {}. Left out: ranks that "
      "wait because others are slower, a loader or network shared with others, failures.",
      curve.arm, format_duration_ns(model.forward_ns), format_duration_ns(model.backward_ns),
      format_duration_ns(model.other_ns), model.num_accumulation, format_bytes(total_bytes(model)),
      model.buckets.size(), curve.links.name, curve.links.source,
      format_percent(curve.links.compute_slowdown_ratio));
}

std::string scale_svg(const ScaleCurve& curve) {
  if (curve.sync.size() < 2) return "";
  constexpr double kLeft = 70, kRight = 560, kTop = 40, kBottom = 260;
  std::vector<double> values = {100};
  for (const auto* points : {&curve.sync, &curve.no_sync}) {
    for (const ScalePoint& point : *points) values.push_back(100 * point.efficiency_ratio);
  }
  const Scale x = {.low = 0,
                   .high = std::log2(static_cast<double>(curve.sync.back().num_gpus)),
                   .begin = kLeft,
                   .end = kRight};
  const Scale y = scale_around(values, 5, kBottom, kTop);
  std::string svg = svg_begin(720, kBottom + 50, "Efficiency over the number of GPUs, predicted",
                              scale_assumptions(curve));
  svg += svg_y_axis(y, kLeft, kRight, "tokens/s of N GPUs / N times that of one, in %");
  for (const ScalePoint& point : curve.sync) {
    const double at = x.at(std::log2(static_cast<double>(point.num_gpus)));
    svg += svg_line(at, kBottom, at, kBottom + 4, kAxisColour, 1) +
           svg_text(at, kBottom + 18, "middle", std::to_string(point.num_gpus), kMutedColour, 11);
  }
  svg += svg_text((kLeft + kRight) / 2, kBottom + 40, "middle", "GPUs");
  svg += curve_svg(x, y, curve.sync, 0, curve.no_sync.empty() ? "all-reduce" : "no_sync=off", "");
  if (!curve.no_sync.empty()) svg += curve_svg(x, y, curve.no_sync, 1, "no_sync=on", "6 3");
  return svg + "</svg>\n";
}

nlohmann::json to_json(const ScaleCurve& curve) {
  const StepModel& model = curve.model;
  nlohmann::json buckets = nlohmann::json::array();
  for (const BucketPlan& bucket : model.buckets) {
    buckets.push_back({{"bytes", bucket.bytes}, {"ready_ratio", bucket.ready_ratio}});
  }
  return {{"arm", curve.arm},
          {"links", curve.links.name},
          {"links_source", curve.links.source},
          {"forward_ns", model.forward_ns},
          {"backward_ns", model.backward_ns},
          {"other_ns", model.other_ns},
          {"accumulation", model.num_accumulation},
          {"tokens_per_step", model.tokens_per_step},
          {"buckets", buckets},
          {"sync", to_json(curve.sync)},
          {"no_sync", to_json(curve.no_sync)}};
}

}  // namespace steplens
