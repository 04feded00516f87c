#include "harness/sweep.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/block.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/json_field.h"

namespace steplens {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kShortNames = {
    {{"seq_len", "sequence_length"},
     {"layers", "num_layers"},
     {"width", "d_model"},
     {"batch", "global_batch"}}};

std::string key_of(std::string_view word) {
  for (const auto& [name, key] : kShortNames) {
    if (word == name) return std::string(key);
  }
  return std::string(word);
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    if (comma == text.size()) return parts;
    text.remove_prefix(comma + 1);
  }
}

void check(const Sweep& sweep) {
  if (sweep.key == "device" || sweep.key == "model" || sweep.key == "world_size") {
    throw ConfigError(fmt::format(
        "sweep: {} decides other keys; run one matrix for each of its values", sweep.key));
  }
  RunConfig config;
  for (const std::string& value : sweep.values) {
    if (value.empty()) throw ConfigError(fmt::format("sweep: {} has an empty value", sweep.key));
    set_config_field(config, sweep.key, value);  // Names the key and what it takes.
    if (std::ranges::count(sweep.values, value) > 1) {
      throw ConfigError(fmt::format("sweep: {}={} stands there twice", sweep.key, value));
    }
  }
  if (sweep.values.size() < 2) {
    throw ConfigError(fmt::format("sweep: {} has one value; takes two or more, such as {}=512,1024",
                                  sweep.key, sweep.key));
  }
}

}  // namespace

Sweep parse_sweep(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw ConfigError(fmt::format("sweep: '{}' takes key=value,value,...", text));
  }
  Sweep sweep{.key = key_of(text.substr(0, equals)), .values = split(text.substr(equals + 1))};
  check(sweep);
  return sweep;
}

Experiment experiment_at(const Sweep& sweep, const std::string& value, const RunConfig& baseline) {
  Experiment experiment = sweep.experiment;
  experiment.settings.emplace_back(sweep.key, value);
  if (!sweep.holds_positions) return experiment;
  if (sweep.key != "sequence_length" && sweep.key != "global_batch") {
    throw ConfigError(
        fmt::format("hold-positions: positions a step do not follow from {}; takes sequence_length "
                    "or global_batch",
                    sweep.key));
  }
  // The first value decides how many positions a step has.
  RunConfig first = baseline;
  set_config_field(first, sweep.key, sweep.values.front());
  const std::int64_t num_positions = first.sequence_length * first.global_batch_size;
  RunConfig here = baseline;
  set_config_field(here, sweep.key, value);
  const bool is_length = sweep.key == "sequence_length";
  const std::int64_t swept = is_length ? here.sequence_length : here.global_batch_size;
  const std::string_view other = is_length ? "global_batch" : "sequence_length";
  if (num_positions % swept != 0) {
    throw ConfigError(
        fmt::format("hold-positions: {}={} does not divide the {} positions a step of {}={}",
                    sweep.key, value, num_positions, sweep.key, sweep.values.front()));
  }
  experiment.settings.emplace_back(other, fmt::format("{}", num_positions / swept));
  return experiment;
}

std::string point_folder(const Sweep& sweep, const std::string& value) {
  return folder_name_of(fmt::format("{}-{}", sweep.key, value));
}

json to_json(const Sweep& sweep) {
  json points = json::array();
  for (const std::string& value : sweep.values) {
    points.push_back({{"value", value}, {"folder", point_folder(sweep, value)}});
  }
  return {{"schema_version", kSchemaVersion},
          {"key", sweep.key},
          {"holds_positions", sweep.holds_positions},
          {"points", std::move(points)},
          {"experiment", to_json(sweep.experiment)}};
}

Sweep sweep_from_json(const json& object, std::string_view source) {
  check_schema_version(object, source, kSchemaVersion);
  Sweep sweep{.key = json_field<std::string>(object, source, "key"),
              .holds_positions = json_field<bool>(object, source, "holds_positions")};
  for (const json& point : json_field<json>(object, source, "points")) {
    sweep.values.push_back(json_field<std::string>(point, source, "value"));
  }
  sweep.experiment = experiment_from_json(json_field<json>(object, source, "experiment"), source);
  check(sweep);
  return sweep;
}

bool is_sweep(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / kSweepFileName);
}

Sweep read_sweep(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kSweepFileName;
  return sweep_from_json(read_json(path), path.string());
}

}  // namespace steplens
