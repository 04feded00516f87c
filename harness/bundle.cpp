#include "harness/bundle.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/json_field.h"

namespace steplens {
namespace {

using nlohmann::json;

json to_json(const Arm& arm) {
  json claims = json::array();
  for (const ProofClaim& claim : arm.proof_claims) {
    claims.push_back({{"counter", claim.counter}, {"claim", name_of(claim.claim)}});
  }
  return {{"name", arm.name},
          {"toggle", arm.toggle},
          {"level", arm.level},
          {"is_baseline", arm.is_baseline},
          {"reference", arm.reference},
          {"config", to_json(arm.config)},
          {"contract", name_of(arm.contract)},
          {"is_external", !arm.command.empty()},
          {"command", arm.command},
          {"is_users_program", arm.is_users_program},
          {"not_applicable_reason", arm.not_applicable_reason},
          {"is_single_variable", arm.is_single_variable},
          {"proof_claims", claims}};
}

Arm arm_from_json(const json& object, std::string_view source) {
  Arm arm{
      .name = json_field<std::string>(object, source, "name"),
      .toggle = json_field_or<std::string>(object, source, "toggle", ""),
      .level = json_field_or<std::string>(object, source, "level", ""),
      .is_baseline = json_field<bool>(object, source, "is_baseline"),
      .reference = json_field_or<std::string>(object, source, "reference", ""),
      .config = run_config_from_json(json_field<json>(object, source, "config")),
      .contract = contract_from_name(json_field<std::string>(object, source, "contract")),
      .command = json_field_or<std::vector<std::string>>(object, source, "command", {}),
      .not_applicable_reason =
          json_field_or<std::string>(object, source, "not_applicable_reason", ""),
      .is_single_variable = json_field<bool>(object, source, "is_single_variable"),
  };
  arm.is_users_program = json_field_or<bool>(object, source, "is_users_program", false);
  for (const json& claim : json_field_or<json>(object, source, "proof_claims", json::array())) {
    arm.proof_claims.push_back(
        {.counter = json_field<std::string>(claim, source, "counter"),
         .claim = claim_from_name(json_field<std::string>(claim, source, "claim"))});
  }
  return arm;
}

json to_json(const RoundRecord& round) {
  return {{"index", round.index},
          {"order", round.order},
          {"is_complete", round.is_complete},
          {"dropped_reason", round.dropped_reason},
          {"machine_id", round.machine_id}};
}

RoundRecord round_from_json(const json& object, std::string_view source) {
  return {.index = json_field<int>(object, source, "index"),
          .order = json_field<std::vector<std::string>>(object, source, "order"),
          .is_complete = json_field<bool>(object, source, "is_complete"),
          .dropped_reason = json_field_or<std::string>(object, source, "dropped_reason", ""),
          .machine_id = json_field_or<std::string>(object, source, "machine_id", "")};
}

json to_json(const BlockEntry& entry) {
  return {{"folder", entry.folder},
          {"arm", entry.arm},
          {"round_index", entry.round_index},
          {"kind", name_of(entry.kind)},
          {"status", name_of(entry.status)},
          {"sha256", entry.sha256},
          {"start_s", entry.start_s},
          {"duration_s", entry.duration_s},
          {"is_superseded", entry.is_superseded}};
}

BlockEntry entry_from_json(const json& object, std::string_view source) {
  return {.folder = json_field<std::string>(object, source, "folder"),
          .arm = json_field<std::string>(object, source, "arm"),
          .round_index = json_field<int>(object, source, "round_index"),
          .kind = block_kind_from_name(json_field<std::string>(object, source, "kind")),
          .status = block_status_from_name(json_field<std::string>(object, source, "status")),
          .sha256 = json_field<std::string>(object, source, "sha256"),
          .start_s = json_field_or<double>(object, source, "start_s", 0.0),
          .duration_s = json_field_or<double>(object, source, "duration_s", 0.0),
          .is_superseded = json_field_or<bool>(object, source, "is_superseded", false)};
}

}  // namespace

json to_json(const Manifest& manifest) {
  json arms = json::array();
  for (const Arm& arm : manifest.arms) arms.push_back(to_json(arm));
  json rounds = json::array();
  for (const RoundRecord& round : manifest.rounds) rounds.push_back(to_json(round));
  json blocks = json::array();
  for (const BlockEntry& entry : manifest.blocks) blocks.push_back(to_json(entry));
  return {{"schema_version", manifest.schema_version},
          {"steplens_version", manifest.steplens_version},
          {"git_sha", manifest.git_sha},
          {"is_dirty", manifest.is_dirty},
          {"created_utc", manifest.created_utc},
          {"title", manifest.title},
          {"baseline", to_json(manifest.baseline)},
          {"arms", arms},
          {"num_aa", manifest.num_aa},
          {"seed", manifest.seed},
          {"num_rounds_planned", manifest.num_rounds_planned},
          {"until_halfwidth_ratio",
           manifest.until_halfwidth_ratio ? json(*manifest.until_halfwidth_ratio) : json(nullptr)},
          {"equivalence_ratio", manifest.equivalence_ratio},
          {"num_warmup_steps", manifest.num_warmup_steps},
          {"num_measured_steps", manifest.num_measured_steps},
          {"num_trace_steps", manifest.num_trace_steps},
          {"num_graph_trace_steps", manifest.num_graph_trace_steps},
          {"num_memory_steps", manifest.num_memory_steps},
          {"num_counter_steps", manifest.num_counter_steps},
          {"rounds", rounds},
          {"blocks", blocks},
          {"stop_reason", manifest.stop_reason},
          {"world_size", manifest.world_size},
          {"gpu_name", manifest.gpu_name},
          {"data", manifest.data},
          {"environment", manifest.environment},
          {"failed_arms", manifest.failed_arms},
          {"notes", manifest.notes}};
}

Manifest manifest_from_json(const json& object, std::string_view source) {
  check_schema_version(object, source, kSchemaVersion);
  Manifest manifest{
      .schema_version = json_field<int>(object, source, "schema_version"),
      .steplens_version = json_field_or<std::string>(object, source, "steplens_version", ""),
      .git_sha = json_field<std::string>(object, source, "git_sha"),
      .is_dirty = json_field<bool>(object, source, "is_dirty"),
      .created_utc = json_field_or<std::string>(object, source, "created_utc", ""),
      .title = json_field_or<std::string>(object, source, "title", ""),
      .baseline = run_config_from_json(json_field<json>(object, source, "baseline")),
      .num_aa = json_field_or<int>(object, source, "num_aa", 0),
      .seed = json_field<std::uint64_t>(object, source, "seed"),
      .num_rounds_planned = json_field<int>(object, source, "num_rounds_planned"),
      .equivalence_ratio = json_field_or<double>(object, source, "equivalence_ratio", 1.01),
      .num_warmup_steps = json_field<std::int64_t>(object, source, "num_warmup_steps"),
      .num_measured_steps = json_field<std::int64_t>(object, source, "num_measured_steps"),
      .num_trace_steps = json_field_or<std::int64_t>(object, source, "num_trace_steps", 0),
      .num_graph_trace_steps =
          json_field_or<std::int64_t>(object, source, "num_graph_trace_steps", 0),
      .num_memory_steps = json_field_or<std::int64_t>(object, source, "num_memory_steps", 0),
      .num_counter_steps = json_field_or<std::int64_t>(object, source, "num_counter_steps", 0),
      .stop_reason = json_field_or<std::string>(object, source, "stop_reason", ""),
      .world_size = json_field<int>(object, source, "world_size"),
      .gpu_name = json_field_or<std::string>(object, source, "gpu_name", ""),
      .data = json_field_or<json>(object, source, "data", json::object()),
      .environment = json_field_or<json>(object, source, "environment", json::object()),
      .failed_arms = json_field_or<json>(object, source, "failed_arms", json::object()),
      .notes = json_field_or<std::vector<std::string>>(object, source, "notes", {}),
  };
  if (object.contains("until_halfwidth_ratio") && !object["until_halfwidth_ratio"].is_null()) {
    manifest.until_halfwidth_ratio = json_field<double>(object, source, "until_halfwidth_ratio");
  }
  for (const json& arm : json_field<json>(object, source, "arms")) {
    manifest.arms.push_back(arm_from_json(arm, source));
  }
  for (const json& round : json_field<json>(object, source, "rounds")) {
    manifest.rounds.push_back(round_from_json(round, source));
  }
  for (const json& entry : json_field<json>(object, source, "blocks")) {
    manifest.blocks.push_back(entry_from_json(entry, source));
  }
  return manifest;
}

std::filesystem::path block_path(const std::filesystem::path& bundle, const BlockEntry& entry) {
  return bundle / "blocks" / entry.folder / "block.json";
}

const Arm* find_arm(const Manifest& manifest, std::string_view name) {
  const auto it = std::ranges::find(manifest.arms, name, &Arm::name);
  return it == manifest.arms.end() ? nullptr : &*it;
}

Bundle open_bundle(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "manifest.json";
  if (!std::filesystem::exists(path)) {
    throw ConfigError(fmt::format(
        "{}: not a bundle: it has no manifest.json; `steplens matrix --out DIR` makes one",
        folder.string()));
  }
  Bundle bundle{.folder = folder, .manifest = manifest_from_json(read_json(path), path.string())};
  bundle.blocks.reserve(bundle.manifest.blocks.size());
  for (const BlockEntry& entry : bundle.manifest.blocks) {
    bundle.blocks.push_back(read_block_record(block_path(folder, entry)));
  }
  return bundle;
}

}  // namespace steplens
