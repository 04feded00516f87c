#include "harness/block.h"

#include <array>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/json_field.h"

namespace steplens {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 7> kKinds = {"throughput",  "pilot",  "soak",    "trace",
                                                    "graph-trace", "memory", "counters"};
constexpr std::array<std::string_view, 7> kStatuses = {"ok",      "oom",         "nan",    "crash",
                                                       "timeout", "unsupported", "invalid"};

template <std::size_t N>
std::size_t index_or_throw(const std::array<std::string_view, N>& words, std::string_view name,
                           std::string_view what) {
  for (std::size_t i = 0; i < N; ++i) {
    if (words[i] == name) return i;
  }
  throw ConfigError(fmt::format("{}={}: unknown; takes {}", what, name, fmt::join(words, " | ")));
}

json to_json(const StepArrays& steps) {
  return {{"step_wall_ns", steps.step_wall_ns},
          {"step_gpu_ns", steps.step_gpu_ns.empty() ? json(nullptr) : json(steps.step_gpu_ns)},
          {"num_positions", steps.num_positions},
          {"num_valid_tokens", steps.num_valid_tokens},
          {"num_loss_tokens", steps.num_loss_tokens},
          {"loss", steps.loss},
          {"grad_norm", steps.grad_norm},
          {"lr", steps.lr},
          {"data_wait_ns", steps.data_wait_ns}};
}

// JSON has no NaN: nlohmann writes null for it, so null reads back as NaN.
std::vector<double> real_array(const json& source_json, std::string_view source,
                               std::string_view name) {
  const json array = json_field<json>(source_json, source, name);
  if (!array.is_array()) {
    throw ConfigError(fmt::format("{}: field {} is not an array", source, name));
  }
  std::vector<double> values;
  values.reserve(array.size());
  for (const json& value : array) {
    if (!value.is_null() && !value.is_number()) {
      throw ConfigError(fmt::format("{}: field {} holds {}", source, name, value.dump()));
    }
    values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                     : value.get<double>());
  }
  return values;
}

StepArrays step_arrays_from_json(const json& parent, std::string_view source,
                                 std::string_view phase) {
  const json object = json_field<json>(parent, source, phase);
  const std::string where = fmt::format("{}: {}", source, phase);
  using Integers = std::vector<std::int64_t>;
  StepArrays steps{
      .step_wall_ns = json_field<Integers>(object, where, "step_wall_ns"),
      .step_gpu_ns = json_field_or<Integers>(object, where, "step_gpu_ns", {}),
      .num_positions = json_field<Integers>(object, where, "num_positions"),
      .num_valid_tokens = json_field<Integers>(object, where, "num_valid_tokens"),
      .num_loss_tokens = json_field<Integers>(object, where, "num_loss_tokens"),
      .loss = real_array(object, where, "loss"),
      .grad_norm = real_array(object, where, "grad_norm"),
      .lr = real_array(object, where, "lr"),
      .data_wait_ns = json_field<Integers>(object, where, "data_wait_ns"),
  };
  const auto require = [&](std::string_view name, std::size_t size) {
    if (size != steps.size()) {
      throw ConfigError(fmt::format("{}: {} has {} entries and step_wall_ns {}", where, name, size,
                                    steps.size()));
    }
  };
  if (!steps.step_gpu_ns.empty()) require("step_gpu_ns", steps.step_gpu_ns.size());
  require("num_positions", steps.num_positions.size());
  require("num_valid_tokens", steps.num_valid_tokens.size());
  require("num_loss_tokens", steps.num_loss_tokens.size());
  require("loss", steps.loss.size());
  require("grad_norm", steps.grad_norm.size());
  require("lr", steps.lr.size());
  require("data_wait_ns", steps.data_wait_ns.size());
  return steps;
}

double rate_per_s(const std::vector<std::int64_t>& counts, const StepArrays& steps) {
  const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const auto wall_ns =
      std::accumulate(steps.step_wall_ns.begin(), steps.step_wall_ns.end(), std::int64_t{0});
  SL_CHECK(wall_ns > 0);
  return static_cast<double>(total) / (static_cast<double>(wall_ns) * 1e-9);
}

}  // namespace

std::string_view name_of(BlockKind kind) { return kKinds.at(static_cast<std::size_t>(kind)); }
bool is_traced(BlockKind kind) {
  return kind == BlockKind::kTrace || kind == BlockKind::kGraphTrace ||
         kind == BlockKind::kCounters;
}
bool writes_trace(BlockKind kind) { return is_traced(kind) || kind == BlockKind::kMemory; }
BlockKind block_kind_from_name(std::string_view name) {
  return static_cast<BlockKind>(index_or_throw(kKinds, name, "kind"));
}

std::string_view name_of(BlockStatus status) {
  return kStatuses.at(static_cast<std::size_t>(status));
}
BlockStatus block_status_from_name(std::string_view name) {
  return static_cast<BlockStatus>(index_or_throw(kStatuses, name, "status"));
}

json to_json(const BlockConfig& config) {
  return {{"schema_version", kSchemaVersion},
          {"config", to_json(config.config)},
          {"seed", config.seed},
          {"kind", name_of(config.kind)},
          {"arm", config.arm},
          {"round_index", config.round_index},
          {"device", {{"type", name_of(config.config.device)}, {"id", config.device_id}}},
          {"rank", config.rank},
          {"world_size", config.world_size},
          {"first_data_step_index", config.first_data_step_index},
          {"num_warmup_steps", config.num_warmup_steps},
          {"num_measured_steps", config.num_measured_steps},
          {"max_pilot_s", config.max_pilot_s},
          {"timeout_s", config.timeout_s},
          {"collective_timeout_s", config.collective_timeout_s},
          {"data_path", config.data_path.string()},
          {"output_folder", config.output_folder.string()}};
}

BlockConfig block_config_from_json(const json& source_json) {
  constexpr std::string_view kSource = "block config";
  check_schema_version(source_json, kSource, kSchemaVersion);
  const json device = json_field<json>(source_json, kSource, "device");
  BlockConfig config{
      .config = run_config_from_json(json_field<json>(source_json, kSource, "config")),
      .seed = json_field<std::uint64_t>(source_json, kSource, "seed"),
      .kind = block_kind_from_name(json_field<std::string>(source_json, kSource, "kind")),
      .arm = json_field_or<std::string>(source_json, kSource, "arm", ""),
      .round_index = json_field_or<int>(source_json, kSource, "round_index", -1),
      .device_id = json_field_or<std::string>(device, kSource, "id", ""),
      .rank = json_field<int>(source_json, kSource, "rank"),
      .world_size = json_field<int>(source_json, kSource, "world_size"),
      .first_data_step_index =
          json_field<std::int64_t>(source_json, kSource, "first_data_step_index"),
      .num_warmup_steps = json_field<std::int64_t>(source_json, kSource, "num_warmup_steps"),
      .num_measured_steps = json_field<std::int64_t>(source_json, kSource, "num_measured_steps"),
      .max_pilot_s = json_field_or<double>(source_json, kSource, "max_pilot_s", 60.0),
      .timeout_s = json_field<double>(source_json, kSource, "timeout_s"),
      .collective_timeout_s =
          json_field_or<double>(source_json, kSource, "collective_timeout_s", 120.0),
      .data_path = json_field<std::string>(source_json, kSource, "data_path"),
      .output_folder = json_field<std::string>(source_json, kSource, "output_folder"),
  };
  if (config.num_warmup_steps < 0 || config.num_measured_steps < 1) {
    throw ConfigError(
        fmt::format("num_warmup_steps={}, num_measured_steps={}: must be >= 0 and >= 1",
                    config.num_warmup_steps, config.num_measured_steps));
  }
  return config;
}

BlockConfig block_config_from_environment() {
  const char* path = std::getenv("STEPLENS_BLOCK_CONFIG");
  if (path == nullptr || *path == '\0') {
    throw ConfigError(
        "STEPLENS_BLOCK_CONFIG is not set: this program runs one block for `steplens matrix`, "
        "which names the block's JSON file there");
  }
  return block_config_from_json(read_json(path));
}

json to_json(const BlockRecord& record) {
  return {{"schema_version", record.schema_version},
          {"status", name_of(record.status)},
          {"reason", record.reason},
          {"kind", name_of(record.kind)},
          {"arm", record.arm},
          {"round_index", record.round_index},
          {"rank", record.rank},
          {"world_size", record.world_size},
          {"config", to_json(record.config)},
          {"data_hash", record.data_hash},
          {"data_set_hash", record.data_set_hash},
          {"weights_hash", record.weights_hash},
          {"final_weights_hash", record.final_weights_hash},
          {"warmup", to_json(record.warmup)},
          {"steps", to_json(record.steps)},
          {"memory", record.memory},
          {"samples", record.samples},
          {"compile_ns", record.compile_ns ? json(*record.compile_ns) : json(nullptr)},
          {"measured_wall_ns", record.measured_wall_ns},
          {"evidence", record.evidence},
          {"environment", record.environment}};
}

BlockRecord block_record_from_json(const json& source_json, std::string_view source) {
  check_schema_version(source_json, source, kSchemaVersion);
  BlockRecord record;
  record.schema_version = json_field<int>(source_json, source, "schema_version");
  record.status = block_status_from_name(json_field<std::string>(source_json, source, "status"));
  record.reason = json_field_or<std::string>(source_json, source, "reason", "");
  record.kind = block_kind_from_name(json_field<std::string>(source_json, source, "kind"));
  record.arm = json_field<std::string>(source_json, source, "arm");
  record.round_index = json_field<int>(source_json, source, "round_index");
  record.rank = json_field<int>(source_json, source, "rank");
  record.world_size = json_field<int>(source_json, source, "world_size");
  record.config = run_config_from_json(json_field<json>(source_json, source, "config"));
  record.data_hash = json_field_or<std::string>(source_json, source, "data_hash", "");
  record.data_set_hash = json_field_or<std::string>(source_json, source, "data_set_hash", "");
  record.weights_hash = json_field_or<std::string>(source_json, source, "weights_hash", "");
  record.final_weights_hash =
      json_field_or<std::string>(source_json, source, "final_weights_hash", "");
  record.warmup = step_arrays_from_json(source_json, source, "warmup");
  record.steps = step_arrays_from_json(source_json, source, "steps");
  record.memory = json_field_or<json>(source_json, source, "memory", json::object());
  record.samples = json_field_or<json>(source_json, source, "samples", json::object());
  if (source_json.contains("compile_ns") && !source_json["compile_ns"].is_null()) {
    record.compile_ns = json_field<std::int64_t>(source_json, source, "compile_ns");
  }
  record.measured_wall_ns = json_field_or<std::int64_t>(source_json, source, "measured_wall_ns", 0);
  record.evidence = json_field_or<json>(source_json, source, "evidence", json::object());
  record.environment = json_field_or<json>(source_json, source, "environment", json::object());
  return record;
}

BlockRecord read_block_record(const std::filesystem::path& path) {
  return block_record_from_json(read_json(path), path.string());
}

double valid_tokens_per_s(const BlockRecord& record) {
  return rate_per_s(record.steps.num_valid_tokens, record.steps);
}
double positions_per_s(const BlockRecord& record) {
  return rate_per_s(record.steps.num_positions, record.steps);
}
double loss_tokens_per_s(const BlockRecord& record) {
  return rate_per_s(record.steps.num_loss_tokens, record.steps);
}
double mean_step_wall_ns(const BlockRecord& record) {
  SL_CHECK(record.steps.size() > 0);
  const auto total = std::accumulate(record.steps.step_wall_ns.begin(),
                                     record.steps.step_wall_ns.end(), std::int64_t{0});
  return static_cast<double>(total) / static_cast<double>(record.steps.size());
}

}  // namespace steplens
