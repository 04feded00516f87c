#include "reports/export/bundle_formats.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "harness/json_field.h"
#include "harness/run_site.h"
#include "harness/statistics.h"
#include "reports/export/csv.h"
#include "reports/pairs.h"

namespace steplens {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// ---- MLPerf. ----

class MlLog {
 public:
  explicit MlLog(double start_unix_s) : start_unix_s_(start_unix_s) {}

  enum class Event { kPoint, kStart, kStop };

  void add(double time_s, Event event, std::string_view key, json value, json metadata) {
    constexpr std::string_view kNames[] = {"POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"};
    // Readers of the format ask for both.
    metadata.emplace("file", "manifest.json");
    metadata.emplace("lineno", 0);
    ordered_json line = {
        {"namespace", ""},
        {"time_ms", static_cast<std::int64_t>(std::llround((start_unix_s_ + time_s) * 1000))},
        {"event_type", kNames[static_cast<std::size_t>(event)]},
        {"key", key},
        {"value", std::move(value)},
        {"metadata", std::move(metadata)}};
    text_ += ":::MLLOG " + line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  }

  const std::string& text() const { return text_; }

 private:
  double start_unix_s_;
  std::string text_;
};

void add_settings(const RunConfig& config, std::uint64_t seed, MlLog& log) {
  const auto add = [&](std::string_view key, json value) {
    log.add(0, MlLog::Event::kPoint, key, std::move(value), json::object());
  };
  add("submission_benchmark", config.model);
  add("submission_org", "steplens");
  add("submission_division", "open");
  add("submission_status", "research");
  add("seed", seed);
  add("global_batch_size", effective_global_batch_size(config));
  add("gradient_accumulation_steps", config.num_accumulation);
  add("max_sequence_length", config.sequence_length);
  add("opt_name", "adamw");
  add("opt_base_learning_rate", config.learning_rate);
  add("opt_adamw_beta_1", config.beta1);
  add("opt_adamw_beta_2", config.beta2);
  add("opt_adamw_epsilon", config.epsilon);
  add("opt_adamw_weight_decay", config.weight_decay);
  add("opt_gradient_clip_norm", config.max_grad_norm);
}

void add_blocks(const Bundle& bundle, MlLog& log) {
  for (std::size_t i = 0; i < bundle.blocks.size(); ++i) {
    const BlockEntry& entry = bundle.manifest.blocks[i];
    const BlockRecord& block = bundle.blocks[i];
    if (entry.kind != BlockKind::kThroughput || entry.is_superseded) continue;
    const json metadata = {{"file", fmt::format("blocks/{}/block.json", entry.folder)},
                           {"arm", entry.arm},
                           {"round_index", entry.round_index},
                           {"status", name_of(entry.status)}};
    const double end_s = entry.start_s + entry.duration_s;
    log.add(entry.start_s, MlLog::Event::kStart, "block_start", nullptr, metadata);
    if (entry.status == BlockStatus::kOk && why_unusable(block).empty()) {
      json stats = metadata;
      stats["step"] = block.warmup.size() + block.steps.size();
      log.add(
          end_s, MlLog::Event::kPoint, "tracked_stats",
          {{"throughput", valid_tokens_per_s(block)}, {"step_wall_ns", mean_step_wall_ns(block)}},
          std::move(stats));
    }
    log.add(end_s, MlLog::Event::kStop, "block_stop", nullptr, metadata);
  }
}

void add_effects(const Results& results, double end_s, MlLog& log) {
  for (const ArmResult& arm : results.arms) {
    const auto add = [&](std::string_view key, const std::optional<double>& value) {
      if (!value) return;
      log.add(end_s, MlLog::Event::kPoint, key, *value,
              {{"file", "results.json"}, {"arm", arm.name}, {"reference", arm.reference}});
    };
    add("steplens_valid_tokens_per_s", arm.valid_tokens_per_s);
    add("steplens_effect_ratio", arm.effect_ratio);
    add("steplens_effect_low_ratio", arm.effect_low_ratio);
    add("steplens_effect_high_ratio", arm.effect_high_ratio);
    add("steplens_p_adjusted", arm.p_adjusted);
  }
}

// ---- Google Benchmark. ----

struct Repetition {
  double real_time_ns = 0;
  double cpu_time_ns = 0;
  double items_per_s = 0;
  std::size_t num_steps = 0;
};

Repetition repetition_of(const BlockRecord& block) {
  Repetition repetition{.real_time_ns = mean_step_wall_ns(block),
                        .items_per_s = valid_tokens_per_s(block),
                        .num_steps = block.steps.size()};
  const std::optional<double> cpu_ns = number_at(block.samples, "cpu_time_ns");
  const std::optional<double> sampled_ns = number_at(block.samples, "duration_ns");
  // The sampler's time is not exactly that of the steps, so its share of it is what counts.
  repetition.cpu_time_ns = cpu_ns && sampled_ns && *sampled_ns > 0
                               ? repetition.real_time_ns * *cpu_ns / *sampled_ns
                               : repetition.real_time_ns;
  return repetition;
}

ordered_json head_of(const std::string& name, std::size_t family, std::size_t num_repetitions) {
  return {{"name", name},     {"family_index", family},  {"per_family_instance_index", 0},
          {"run_name", name}, {"run_type", "iteration"}, {"repetitions", num_repetitions}};
}

ordered_json row_of(const std::string& name, std::size_t family, std::size_t num_repetitions,
                    std::size_t index, const Repetition& repetition) {
  ordered_json row = head_of(name, family, num_repetitions);
  row["repetition_index"] = index;
  row["threads"] = 1;
  row["iterations"] = repetition.num_steps;
  row["real_time"] = repetition.real_time_ns;
  row["cpu_time"] = repetition.cpu_time_ns;
  row["time_unit"] = "ns";
  row["items_per_second"] = repetition.items_per_s;
  return row;
}

void add_aggregates(const std::string& name, std::size_t family,
                    const std::vector<Repetition>& repetitions, ordered_json& rows) {
  const auto values_of = [&](auto member) {
    std::vector<double> values;
    values.reserve(repetitions.size());
    for (const Repetition& repetition : repetitions) values.push_back(repetition.*member);
    return values;
  };
  const std::vector<double> real = values_of(&Repetition::real_time_ns);
  const std::vector<double> cpu = values_of(&Repetition::cpu_time_ns);
  const std::vector<double> items = values_of(&Repetition::items_per_s);
  const auto cv = [](const std::vector<double>& values) {
    return sample_standard_deviation(values) / mean_of(values);
  };
  const auto add = [&](std::string_view aggregate, std::string_view unit, auto statistic) {
    ordered_json row = head_of(name, family, repetitions.size());
    row["name"] = fmt::format("{}_{}", name, aggregate);
    row["run_type"] = "aggregate";
    row["threads"] = 1;
    row["aggregate_name"] = aggregate;
    row["aggregate_unit"] = unit;
    row["iterations"] = repetitions.size();
    row["real_time"] = statistic(real);
    row["cpu_time"] = statistic(cpu);
    row["time_unit"] = "ns";
    row["items_per_second"] = statistic(items);
    rows.push_back(std::move(row));
  };
  add("mean", "time", mean_of);
  add("median", "time", [](const std::vector<double>& values) { return median(values); });
  add("stddev", "time",
      [](const std::vector<double>& values) { return sample_standard_deviation(values); });
  add("cv", "percentage", cv);
}

}  // namespace

void write_mllog(const std::filesystem::path& path, const Bundle& bundle, const Results& results) {
  const Manifest& manifest = bundle.manifest;
  MlLog log(unix_time_of(manifest.created_utc));
  double end_s = 0;
  for (const BlockEntry& entry : manifest.blocks) {
    end_s = std::max(end_s, entry.start_s + entry.duration_s);
  }
  add_settings(manifest.baseline, manifest.seed, log);
  log.add(0, MlLog::Event::kStart, "run_start", nullptr, json::object());
  add_blocks(bundle, log);
  const bool is_done = !manifest.stop_reason.empty();
  log.add(end_s, MlLog::Event::kStop, "run_stop", nullptr,
          {{"status", is_done ? "success" : "aborted"}});
  add_effects(results, end_s, log);
  write_file_atomically(path, log.text());
}

void write_benchmark_json(const std::filesystem::path& path, const Bundle& bundle,
                          const Results& results) {
  const Manifest& manifest = bundle.manifest;
  const json host = manifest.environment.value("host", json::object());
  ordered_json document;
  // The format asks for a host and a path; a bundle keeps neither.
  document["context"] = {
      {"date", manifest.created_utc},
      {"host_name", manifest.gpu_name.empty() ? host.value("cpu_model", "cpu") : manifest.gpu_name},
      {"executable", "steplens"},
      {"num_cpus", host.value("num_cpus", 0)},
      {"mhz_per_cpu", 0},
      {"cpu_scaling_enabled", false},
      {"caches", json::array()},
      {"load_avg", json::array()},
      {"library_build_type", "release"},
      {"steplens_version", manifest.steplens_version},
      {"git_sha", manifest.git_sha}};
  ordered_json rows = ordered_json::array();
  std::size_t family = 0;
  for (const ArmResult& arm : results.arms) {
    std::vector<Repetition> repetitions;
    for (const BlockRecord* block : usable_blocks(bundle, arm.name)) {
      repetitions.push_back(repetition_of(*block));
    }
    if (repetitions.empty()) continue;
    const std::string name = fmt::format("{}/{}", manifest.baseline.model, arm.name);
    for (std::size_t i = 0; i < repetitions.size(); ++i) {
      rows.push_back(row_of(name, family, repetitions.size(), i, repetitions[i]));
    }
    if (repetitions.size() > 1) add_aggregates(name, family, repetitions, rows);
    ++family;
  }
  document["benchmarks"] = std::move(rows);
  write_file_atomically(path, document.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

void write_results_csv(const std::filesystem::path& path, const Bundle&, const Results& results) {
  const json document = to_json(results);
  std::vector<std::string> keys;
  std::string text;
  const auto end_line = [&] { text.replace(text.size() - 1, 1, "\r\n"); };
  for (const json& arm : document.at("arms")) {
    if (keys.empty()) {
      keys.emplace_back("name");
      for (const auto& [key, value] : arm.items()) {
        if (key != "name" && !value.is_structured()) keys.push_back(key);
      }
      for (const std::string& key : keys) text += key + ",";
      end_line();
    }
    for (const std::string& key : keys) {
      const json& value = arm.at(key);
      if (value.is_string()) {
        text += csv_field(value.get<std::string>());
      } else if (!value.is_null()) {
        text += value.dump();
      }
      text += ',';
    }
    end_line();
  }
  write_file_atomically(path, text);
}

}  // namespace steplens
