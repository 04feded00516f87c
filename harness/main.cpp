// steplens: the program that plans, schedules and reports. Composition root: the harness, the
// catalog, the profilers and the reports meet here. No CUDA, no LibTorch: it starts in
// milliseconds.

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/cli/context.h"
#include "harness/error.h"
#include "harness/flops.h"
#include "harness/models.h"
#include "harness/recipe.h"
#include "harness/sweep.h"
#include "profilers/doctor.h"
#include "profilers/system_machine.h"
#include "reports/document.h"
#include "reports/interactions/interactions.h"
#include "reports/matrix_table.h"
#include "reports/metrics.h"
#include "reports/recipe/recipe_report.h"
#include "reports/reproduction.h"
#include "reports/sweep/sweep_results.h"
#include "reports/verbs.h"
#include "workloads/catalog/package_info.h"
#include "workloads/catalog/prepare_data.h"
#include "workloads/catalog/toggles.h"

namespace {

using namespace steplens;

std::vector<ModelRow> model_rows() {
  std::vector<ModelRow> rows;
  for (const ModelPreset& model : all_models()) {
    rows.push_back({.name = model.name,
                    .summary = model.summary,
                    .num_parameters = num_parameters(model.shape),
                    .sequence_length = model.sequence_length,
                    .global_batch_size = model.global_batch_size,
                    .tokenizer = model.tokenizer,
                    .vocab_size = model.shape.vocab_size});
  }
  return rows;
}

std::vector<MetricRow> metric_rows() {
  std::vector<MetricRow> rows;
  for (const Metric& metric : all_metrics()) {
    rows.push_back({.name = metric.key,
                    .unit = metric.unit,
                    .title = metric.title,
                    .record = metric.record,
                    .meaning = metric.meaning,
                    .formula = metric.formula,
                    .source = metric.source});
  }
  return rows;
}

std::vector<KnownExternalArm> external_arms() {
  std::vector<KnownExternalArm> arms;
  for (const ExternalArm& arm : all_external_arms()) {
    arms.push_back({.name = arm.name,
                    .summary = arm.summary,
                    .script = std::string(arm.script),
                    .runs_on_ranks = arm.runs_on_ranks,
                    .contract = arm.contract});
  }
  return arms;
}

Printout prepare(const DataRequest& request) {
  PrepareOptions options =
      request.inputs.empty()
          ? torch_python_corpus(request.site_packages, request.output)
          : PrepareOptions{
                .inputs = request.inputs, .patterns = request.patterns, .output = request.output};
  options.name = request.name;
  options.tokenizer = request.tokenizer;
  options.vocab_size = request.vocab_size;
  options.python = request.python;
  options.bpe_script = request.scripts_folder / "prepare_bpe.py";
  const PreparedData data = prepare_data(options);
  nlohmann::json json = to_json(data.info);
  json["path"] = request.output.string();
  return {.text = fmt::format(
              "{}: {} tokens of {} documents ({} of {} files are binary, {} empty)\n",
              request.output.string(), data.info.num_tokens, data.info.num_documents,
              data.num_binary_files, data.num_files + data.num_binary_files + data.num_empty_files,
              data.num_empty_files),
          .json = std::move(json)};
}

Printout doctor(const DoctorRequest& request) {
  const std::vector<DoctorCheck> checks = run_doctor({.site_packages = request.site_packages,
                                                      .worker = request.worker,
                                                      .output_folder = request.output_folder});
  return {.text = format_doctor(checks), .json = to_json(checks)};
}

Printout finish(const std::filesystem::path& bundle) {
  if (is_recipe(bundle)) {
    const RecipeResults results = write_recipe_report(bundle);
    return {.text = recipe_text(results), .json = to_json(results)};
  }
  if (is_sweep(bundle)) {
    const SweepResults results = write_sweep_report(bundle);
    return {.text = sweep_text(results), .json = to_json(results)};
  }
  const Results results = write_report(bundle);
  std::string text = matrix_text(results);
  for (const std::string& warning : results.warnings) text += wrap("warning: " + warning, 2) + "\n";
  text += interaction_text(compute_interactions(open_bundle(bundle), results.rule));
  return {.text = text, .json = to_json(results)};
}

CliContext::Reproduced reproduced(const std::filesystem::path& original,
                                  const std::filesystem::path& copy) {
  const Reproduction outcome = compare_reproduction(open_bundle(original), open_bundle(copy));
  return {.printout = {.text = reproduction_text(outcome), .json = to_json(outcome)},
          .is_reproduced = outcome.is_reproduced()};
}

}  // namespace

int main(int argc, char** argv) {
  CliContext context{.models = model_rows(),
                     .metrics = metric_rows(),
                     .baseline_config = baseline_config,
                     .make_machine = make_system_machine,
                     .prepare_data = prepare,
                     .run_doctor = doctor,
                     .write_report = finish,
                     .compare_reproduction = reproduced,
                     .print_trace = print_trace,
                     .add_report_verbs = add_report_verbs};
  context.vocabulary = {.toggles = all_toggles(),
                        .why_not = why_not,
                        .external_arms = external_arms(),
                        .package_name = package_name};
  return run_cli(argc, argv, context);
}
