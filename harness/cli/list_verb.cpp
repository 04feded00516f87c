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

Rows metric_rows(const CliContext& context) {
  Rows rows = {{"name", "unit", "title", "record", "meaning", "formula", "source"}};
  for (const MetricRow& metric : context.metrics) {
    rows.push_back({std::string(metric.name), std::string(metric.unit), std::string(metric.title),
                    std::string(metric.record), std::string(metric.meaning),
                    std::string(metric.formula), std::string(metric.source)});
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

void print_aligned(const Rows& rows) { std::cout << aligned(rows); }

// Sentences are too long for columns: name and unit on a line, and what it is below.
void print_metrics(const Rows& rows) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::vector<std::string>& row = rows[i];
    std::cout << fmt::format("{}  [{}]  \"{}\"\n", row[0], row[1], row[2]);
    for (std::size_t column = 3; column < row.size(); ++column) {
      std::cout << fmt::format("  {:<8} {}\n", rows[0][column], row[column]);
    }
  }
}

struct Listing {
  const char* name;
  const char* summary;
  Rows (*rows)(const CliContext& context);
  void (*print_text)(const Rows& rows) = print_aligned;
};

constexpr Listing kListings[] = {
    {"models", "models that can be trained", model_rows},
    {"toggles", "what can be compared, with its levels", toggle_rows},
    {"metrics", "numbers of a report: unit, meaning, formula, source", metric_rows, print_metrics},
    {"keys", "keys of the config, for --set", key_rows},
    {"arms", "external arms, for --arms", arm_rows},
};

void print_json(const Rows& rows) {
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

void add_list_verb(CLI::App& app, CliContext& context) {
  CLI::App* verb = app.add_subcommand("list", "models, toggles, metrics, keys or arms");
  verb->footer("Example:\n  steplens list toggles\n  steplens list keys --json");
  verb->require_subcommand(1);
  for (const Listing& listing : kListings) {
    CLI::App* what = verb->add_subcommand(listing.name, listing.summary);
    what->footer(fmt::format("Example:\n  steplens list {} --json", listing.name));
    const auto is_json = std::make_shared<bool>(false);
    what->add_flag("--json", *is_json, "print JSON");
    what->callback([&listing, is_json, &context] {
      const Rows rows = listing.rows(context);
      *is_json ? print_json(rows) : listing.print_text(rows);
    });
  }
}

}  // namespace steplens
