#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/format.h"
#include "reports/provenance.h"
#include "reports/section.h"

namespace steplens {
namespace {

using nlohmann::json;

std::string rule_text(const Manifest& manifest, const Results& results) {
  return fmt::format(
      "A block is a fresh process: {} warm-up steps thrown away, {} measured. A round runs every "
      "arm "
      "once, in an order drawn anew from seed {}. {} rounds were planned, {} are complete, {} were "
      "dropped; {}. One number a block enters the test, never its steps. p values: exact sign "
      "flips "
      "of whole rounds (sampled beyond 20 rounds), adjusted by step-down max-T; intervals: t on "
      "the "
      "log-ratios{}.",
      manifest.num_warmup_steps, manifest.num_measured_steps, manifest.seed,
      manifest.num_rounds_planned, results.num_rounds_complete, results.num_rounds_dropped,
      manifest.stop_reason.empty() ? "the run is unfinished"
                                   : "it stopped because: " + manifest.stop_reason,
      manifest.until_halfwidth_ratio
          ? fmt::format(". The run could stop on precision (half-width {}), so the verdicts use "
                        "p <= {} and {:.0f} % intervals",
                        format_percent(*manifest.until_halfwidth_ratio), results.rule.alpha,
                        100 * results.rule.confidence)
          : "");
}

std::string work_text(const Manifest& manifest, const Results& results) {
  return fmt::format(
      "{} blocks in {}; the measured steps are {}{}. {} rank{} on {}.", manifest.blocks.size(),
      format_long_duration_ns(results.wall_ns), format_long_duration_ns(results.measured_ns),
      results.measured_share_ratio
          ? fmt::format(", {} of the blocks' time", format_percent(*results.measured_share_ratio))
          : "",
      manifest.world_size, manifest.world_size == 1 ? "" : "s",
      manifest.gpu_name.empty() ? "the CPU" : manifest.gpu_name);
}

std::string config_text(const RunConfig& config) {
  std::string text;
  for (const ConfigField& field : config_fields()) {
    const json value = field.get(config);
    text += fmt::format("{}{}={}", text.empty() ? "" : "\n", field.name,
                        value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

}  // namespace

std::vector<Part> method_parts(const ReportInput& input) {
  const Manifest& manifest = input.bundle.manifest;
  Table table{.columns = {{"what"}, {"value"}}};
  for (auto& [name, value] : provenance_of(input.bundle)) {
    table.rows.push_back({std::move(name), std::move(value)});
  }
  return {Paragraph{rule_text(manifest, input.results)},
          Paragraph{work_text(manifest, input.results)}, std::move(table),
          Paragraph{fmt::format("The baseline's whole configuration ({}):",
                                batch_arithmetic(manifest.baseline))},
          CodeBlock{config_text(manifest.baseline)}};
}

}  // namespace steplens
