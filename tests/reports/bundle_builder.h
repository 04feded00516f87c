#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/bundle.h"
#include "harness/files.h"
#include "harness/statistics.h"
#include "harness/temporary_folder.h"
#include "reports/results.h"

namespace steplens {

/// Small bundles by hand: every block has 2 warm-up and 4 measured steps of 1000 tokens, all of the
/// length that the test gives, and everything that the guards look at equal between arms.
class BundleBuilder {
 public:
  static constexpr std::int64_t kNumWarmupSteps = 2;
  static constexpr std::int64_t kNumMeasuredSteps = 4;
  static constexpr std::int64_t kTokensPerStep = 1000;

  BundleBuilder() {
    manifest_.steplens_version = "0.1.0";
    manifest_.git_sha = std::string(40, 'a');
    manifest_.created_utc = "2026-01-02T03:04:05.000Z";
    manifest_.baseline = small_config();
    manifest_.seed = 7;
    manifest_.num_warmup_steps = kNumWarmupSteps;
    manifest_.num_measured_steps = kNumMeasuredSteps;
    manifest_.stop_reason = "planned rounds done";
    manifest_.arms.push_back(
        {.name = "baseline", .is_baseline = true, .config = manifest_.baseline});
  }

  static RunConfig small_config() {
    RunConfig config;
    config.shape = {.num_layers = 2,
                    .d_model = 64,
                    .num_heads = 4,
                    .num_kv_heads = 4,
                    .head_dim = 16,
                    .ffn_width = 128,
                    .vocab_size = 256};
    return config;
  }

  Manifest& manifest() { return manifest_; }

  /// An arm whose config differs from the baseline's in `key`.
  Arm& add_arm(const std::string& key, const std::string& level) {
    Arm arm{.name = key + "=" + level,
            .toggle = key,
            .level = level,
            .reference = "baseline",
            .config = manifest_.baseline};
    set_config_field(arm.config, key, level);
    manifest_.arms.push_back(std::move(arm));
    return manifest_.arms.back();
  }

  /// One round; `step_ns` maps the arms that run to the length of their steps. The order is the one
  /// that the seed draws.
  void add_round(const std::map<std::string, std::int64_t>& step_ns) {
    RoundRecord round{.index = static_cast<int>(manifest_.rounds.size()), .is_complete = true};
    std::vector<std::string> live;
    for (const Arm& arm : manifest_.arms) {
      if (step_ns.contains(arm.name)) live.push_back(arm.name);
    }
    for (const int i :
         draw_round_order(manifest_.seed, round.index, static_cast<int>(live.size()))) {
      round.order.push_back(live[static_cast<std::size_t>(i)]);
    }
    for (const std::string& arm : round.order) {
      add_block(arm, BlockKind::kThroughput, round.index, step_ns.at(arm));
    }
    manifest_.rounds.push_back(std::move(round));
  }

  /// All rounds of one arm each column: `step_ns[arm][round]`.
  void add_rounds(const std::map<std::string, std::vector<std::int64_t>>& step_ns) {
    for (std::size_t r = 0; r < step_ns.begin()->second.size(); ++r) {
      std::map<std::string, std::int64_t> of_round;
      for (const auto& [arm, values] : step_ns) of_round[arm] = values[r];
      add_round(of_round);
    }
  }

  BlockRecord& add_block(const std::string& arm, BlockKind kind, int round_index,
                         std::int64_t step_ns) {
    BlockRecord block{.kind = kind, .arm = arm, .round_index = round_index};
    block.config = find_arm(manifest_, arm)->config;
    block.data_hash = "data";
    block.data_set_hash = "data-set";
    block.weights_hash = "weights";
    block.final_weights_hash = "trained-weights";
    block.environment = {{"torch_version", "2.11.0"}};
    fill(block.warmup, kNumWarmupSteps, step_ns);
    fill(block.steps, kNumMeasuredSteps, step_ns);
    block.measured_wall_ns = kNumMeasuredSteps * step_ns;
    const auto number = manifest_.blocks.size();
    manifest_.blocks.push_back({.folder = fmt::format("{:04}-{}", number, folder_name_of(arm)),
                                .arm = arm,
                                .round_index = round_index,
                                .kind = kind,
                                .start_s = 10.0 * static_cast<double>(number),
                                .duration_s = 8});
    blocks_.push_back(std::move(block));
    return blocks_.back();
  }

  /// A pilot with these counts of operators.
  void add_pilot(const std::string& arm, const std::map<std::string, double>& counters) {
    add_block(arm, BlockKind::kPilot, -1, 1'000'000).evidence["counters"] = counters;
  }

  /// A block that ended badly.
  BlockRecord& add_failure(const std::string& arm, int round_index, BlockStatus status,
                           const std::string& reason) {
    BlockRecord& block = add_block(arm, BlockKind::kThroughput, round_index, 1'000'000);
    block.status = status;
    block.reason = reason;
    block.warmup = {};
    block.steps = {};
    manifest_.blocks.back().status = status;
    return block;
  }

  /// The throughput block of an arm in a round, to plant a fault in.
  BlockRecord& block(const std::string& arm, int round_index) {
    for (BlockRecord& candidate : blocks_) {
      if (candidate.arm == arm && candidate.round_index == round_index) return candidate;
    }
    throw std::out_of_range(arm);
  }

  void edit_blocks(const std::string& arm, const std::function<void(BlockRecord&)>& edit) {
    for (BlockRecord& candidate : blocks_) {
      if (candidate.arm == arm && candidate.kind == BlockKind::kThroughput) edit(candidate);
    }
  }

  Bundle bundle() const {
    return {.folder = "somewhere/example", .manifest = manifest_, .blocks = blocks_};
  }

  /// Writes manifest, blocks (with their hashes) and the results that they give.
  void write(const std::filesystem::path& folder) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::filesystem::path path = block_path(folder, manifest_.blocks[i]);
      std::filesystem::create_directories(path.parent_path());
      write_quickly(path, to_json(blocks_[i]));
      manifest_.blocks[i].sha256 = sha256_file_hex(path);
    }
    write_quickly(folder / "manifest.json", to_json(manifest_));
    write_quickly(folder / "results.json", to_json(compute_results(bundle())));
  }

 private:
  // Without the fsync of the real thing, which takes milliseconds a file.
  static void write_quickly(const std::filesystem::path& path, const nlohmann::json& json) {
    std::ofstream(path) << json.dump(2) << "\n";
  }

  static void fill(StepArrays& steps, std::int64_t count, std::int64_t step_ns) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto step = static_cast<double>(i);
      steps.step_wall_ns.push_back(step_ns);
      steps.num_positions.push_back(kTokensPerStep);
      steps.num_valid_tokens.push_back(kTokensPerStep);
      steps.num_loss_tokens.push_back(kTokensPerStep);
      steps.loss.push_back(5.0 - 0.1 * step);
      steps.grad_norm.push_back(2.0 + 0.1 * step);
      steps.lr.push_back(1e-4 * (step + 1));
      steps.data_wait_ns.push_back(step_ns / 100);
    }
  }

  Manifest manifest_;
  std::vector<BlockRecord> blocks_;
};

/// Step times in ns of eight rounds: `fast` is about 3 % faster than `base`, `same` is not.
struct EightRounds {
  std::vector<std::int64_t> base = {1'000'000, 1'003'000, 998'000,   1'001'000,
                                    1'004'000, 999'000,   1'002'000, 1'000'500};
  std::vector<std::int64_t> fast = {970'500, 972'000, 969'000, 971'500,
                                    973'800, 968'500, 972'600, 970'000};
  std::vector<std::int64_t> same = {1'001'000, 1'001'500, 999'500,   1'000'000,
                                    1'005'500, 998'000,   1'003'500, 999'500};
};

/// Baseline, optimizer=fused (fast) and checkpoint=full (same), eight complete rounds.
inline BundleBuilder eight_rounds() {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_arm("checkpoint", "full");
  const EightRounds steps;
  builder.manifest().num_rounds_planned = 8;
  builder.add_rounds(
      {{"baseline", steps.base}, {"optimizer=fused", steps.fast}, {"checkpoint=full", steps.same}});
  return builder;
}

}  // namespace steplens
