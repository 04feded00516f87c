#include "harness/cli/list_verb.h"

#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/cli/text_table.h"

namespace steplens {
namespace {

using nlohmann::json;

constexpr MetricRow kMetrics[] = {
    {"effect_ratio", "candidate / reference of valid_tokens_per_s; above 1 is faster"},
    {"effect_low_ratio", "lower end of its 95 % interval"},
    {"effect_high_ratio", "upper end of its 95 % interval"},
    {"p_value", "sign-flip permutation p of this comparison alone"},
    {"p_adjusted", "step-down max-T p over all comparisons of the matrix"},
    {"min_detectable_ratio", "smallest effect that these rounds find with 80 % power"},
    {"num_rounds", "rounds that the estimate rests on"},
    {"valid_tokens_per_s", "tokens that are no padding: what effects are about"},
    {"positions_per_s", "all processed positions, padding included"},
    {"loss_tokens_per_s", "tokens that the loss counts"},
    {"step_wall_ns", "one optimizer step on the host's clock"},
    {"step_gpu_ns", "one optimizer step from event to event on the GPU"},
    {"data_wait_ratio", "share of the step spent waiting for the next batch"},
    {"compile_ns", "graph capture, compile and autotune; outside the steps"},
    {"block_sd_ratio", "noise of one block, slow drift taken out"},
    {"mfu_causal_ratio", "share of the GPU's peak, attention counted as the lower triangle"},
    {"mfu_full_ratio", "the same, attention counted as the whole square"},
    {"peak_flops_per_s", "the peak that the two rest on"},
    {"peak_allocated_bytes", "largest memory in tensors, graph pools included"},
    {"peak_reserved_bytes", "largest memory that the allocator held"},
    {"graph_pool_hidden_bytes", "memory of captured graphs' pools that the allocator's peak hides"},
    {"driver_used_bytes", "largest memory that the driver counted"},
    {"unaccounted_bytes", "driver's peak without the allocator: context, workspaces"},
    {"peak_rss_bytes", "largest resident memory of the process on the host"},
    {"energy_per_token_j", "joules of the GPU a valid token"},
    {"mean_power_watts", "mean power of the GPU"},
    {"mean_sm_clock_mhz", "mean clock of the GPU's multiprocessors"},
    {"max_temperature_celsius", "highest temperature of the GPU"},
    {"loss_deviation_ratio", "mean |loss ratio - 1| against the reference, worst round"},
    {"grad_norm_deviation_ratio", "the same of the gradient norm"},
};

// Rows of one listing: the first is the header, in JSON the keys.
using Rows = std::vector<std::vector<std::string>>;

Rows model_rows(const CliContext& context) {
  Rows rows = {
      {"name", "num_parameters", "sequence_length", "global_batch", "tokenizer", "summary"}};
  for (const ModelRow& model : context.models) {
    rows.push_back({std::string(model.name), fmt::format("{}", model.num_parameters),
                    fmt::format("{}", model.sequence_length),
                    fmt::format("{}", model.global_batch_size), std::string(model.tokenizer),
                    std::string(model.summary)});
  }
  return rows;
}

Rows toggle_rows(const CliContext& context) {
  Rows rows = {{"name", "levels", "key", "contract", "default", "summary"}};
  for (const Toggle& toggle : context.vocabulary.toggles) {
    std::vector<std::string_view> levels;
    for (const Level& level : toggle.levels) levels.push_back(level.name);
    const bool is_open = toggle.contract_for != nullptr;
    rows.push_back({std::string(toggle.name), fmt::format("{}", fmt::join(levels, " | ")),
                    std::string(toggle.key),
                    is_open ? "depends on the config" : std::string(name_of(toggle.contract)),
                    toggle.is_in_default_matrix ? "yes" : "no", std::string(toggle.summary)});
  }
  return rows;
}

Rows metric_rows(const CliContext& /*context*/) {
  Rows rows = {{"name", "summary"}};
  for (const MetricRow& metric : kMetrics) {
    rows.push_back({std::string(metric.name), std::string(metric.summary)});
  }
  return rows;
}

Rows key_rows(const CliContext& /*context*/) {
  Rows rows = {{"name", "takes", "summary"}};
  for (const ConfigField& field : config_fields()) {
    rows.push_back(
        {std::string(field.name), std::string(field.allowed), std::string(field.summary)});
  }
  return rows;
}

Rows arm_rows(const CliContext& context) {
  Rows rows = {{"name", "script", "summary"}};
  for (const KnownExternalArm& arm : context.vocabulary.external_arms) {
    rows.push_back({std::string(arm.name), arm.script, std::string(arm.summary)});
  }
  return rows;
}

struct Listing {
  const char* name;
  const char* summary;
  Rows (*rows)(const CliContext& context);
};

constexpr Listing kListings[] = {
    {"models", "models that can be trained", model_rows},
    {"toggles", "what can be compared, with its levels", toggle_rows},
    {"metrics", "numbers that results.json holds for each arm", metric_rows},
    {"keys", "keys of the config, for --set", key_rows},
    {"arms", "external arms, for --arms", arm_rows},
};

void print(const Rows& rows, bool is_json) {
  if (!is_json) {
    std::cout << aligned(rows);
    return;
  }
  json list = json::array();
  for (std::size_t i = 1; i < rows.size(); ++i) {
    json object = json::object();
    for (std::size_t column = 0; column < rows[0].size(); ++column) {
      object[rows[0][column]] = rows[i][column];
    }
    list.push_back(std::move(object));
  }
  std::cout << list.dump(2) << '\n';
}

}  // namespace

std::span<const MetricRow> all_metrics() { return kMetrics; }

void add_list_verb(CLI::App& app, CliContext& context) {
  CLI::App* verb = app.add_subcommand("list", "models, toggles, metrics, keys or arms");
  verb->footer("Example:\n  steplens list toggles\n  steplens list keys --json");
  verb->require_subcommand(1);
  for (const Listing& listing : kListings) {
    CLI::App* what = verb->add_subcommand(listing.name, listing.summary);
    what->footer(fmt::format("Example:\n  steplens list {} --json", listing.name));
    const auto is_json = std::make_shared<bool>(false);
    what->add_flag("--json", *is_json, "print JSON");
    what->callback([&listing, is_json, &context] { print(listing.rows(context), *is_json); });
  }
}

}  // namespace steplens
