// A block executable that speaks the protocol in milliseconds: no training, but a world of effects
// and noise, and every way to fail. Tests put it in the place of steplens-worker.
//
// STEPLENS_FAKE="arm:behaviour[@when],...": arm "*" is every arm. When: "pilot", "soak", "rounds",
// "roundN", or "first" (the first attempt at a slot); always without it. Behaviours: crash
// (SIGSEGV), exit (code 7 and a message), hang, deaf (hangs and ignores SIGTERM), oom, nan,
// invalid, unsupported, garbage (no JSON), wrong (another arm's block), nofile, short (one step too
// few), late-crash (dies after writing), chatty (prints much), path (fails and names a path), slow
// (sleeps 200 ms), very-slow (1.2 s), slower (its steps take 1.5 times as long).
// STEPLENS_FAKE_SLEEP_MS: sleep of every block. STEPLENS_FAKE_CHECKPOINT_FACTOR: how much longer
// checkpoint=full makes a step (1.10).

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include "harness/block.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/json_field.h"
#include "harness/statistics.h"

namespace {

using namespace steplens;
namespace fs = std::filesystem;

constexpr double kBaseStepNs = 2e6;
constexpr double kBlockNoise = 0.003;  // Standard deviation of a block's log step time.
constexpr double kStepNoise = 0.002;
constexpr std::int64_t kPilotWarmupSteps = 12;

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void sleep_ms(int duration_ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(duration_ms));
}

// Whether an earlier block of the same arm, kind and round was published beside this one.
bool has_earlier_attempt(const BlockConfig& block) {
  for (const fs::directory_entry& sibling : fs::directory_iterator(block.output_folder / "..")) {
    const fs::path path = sibling.path() / "block.json";
    if (sibling.path().filename().string().starts_with('.') || !fs::exists(path)) continue;
    const nlohmann::json json = read_json(path);
    if (json["arm"] == block.arm && json["kind"] == name_of(block.kind) &&
        json["round_index"] == block.round_index) {
      return true;
    }
  }
  return false;
}

bool is_time_for(std::string_view when, const BlockConfig& block) {
  if (when.empty()) return true;
  if (when == "pilot") return block.kind == BlockKind::kPilot;
  if (when == "soak") return block.kind == BlockKind::kSoak;
  if (when == "rounds") return block.kind == BlockKind::kThroughput;
  if (when == "first") return !has_earlier_attempt(block);
  return when == fmt::format("round{}", block.round_index);
}

std::string behaviour_of(const BlockConfig& block) {
  const std::string spec = environment_variable("STEPLENS_FAKE");
  for (std::string_view rest = spec; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const auto colon = entry.find(':');
    const auto at = entry.find('@', colon);
    const std::string_view arm = entry.substr(0, colon);
    const std::string_view behaviour = entry.substr(colon + 1, at - colon - 1);
    const std::string_view when = at == std::string_view::npos ? "" : entry.substr(at + 1);
    if ((arm == "*" || arm == block.arm) && is_time_for(when, block)) {
      return std::string(behaviour);
    }
  }
  return "";
}

// How long a step of this config takes in the fake world.
double step_ns_of(const RunConfig& config) {
  double step_ns = kBaseStepNs * static_cast<double>(effective_global_batch_size(config)) /
                   static_cast<double>(config.global_batch_size);
  if (config.attention == Attention::kMath) step_ns *= 1.25;
  if (config.optimizer == Optimizer::kFused) step_ns *= 0.96;
  if (config.compile == Compile::kAoti) step_ns *= 0.95;
  if (config.checkpoint == Checkpoint::kFull) {
    const std::string factor = environment_variable("STEPLENS_FAKE_CHECKPOINT_FACTOR");
    step_ns *= factor.empty() ? 1.10 : std::stod(factor);
  }
  return step_ns + static_cast<double>(config.injected_spin_ns);
}

StepArrays make_steps(const RunConfig& config, std::int64_t first, std::int64_t count,
                      double block_factor, SplitMix64& random) {
  StepArrays steps;
  for (std::int64_t i = first; i < first + count; ++i) {
    const double noise = 1 + kStepNoise * random.normal();
    const std::int64_t positions = positions_per_step(config);
    steps.step_wall_ns.push_back(std::llround(step_ns_of(config) * block_factor * noise));
    steps.num_positions.push_back(positions);
    steps.num_valid_tokens.push_back(positions);
    steps.num_loss_tokens.push_back(positions);
    steps.loss.push_back(5.0 / (1.0 + 0.01 * static_cast<double>(i)));
    steps.grad_norm.push_back(1.0 + 0.001 * static_cast<double>(i));
    steps.lr.push_back(config.learning_rate);
    steps.data_wait_ns.push_back(1000);
  }
  return steps;
}

// The counters by which the catalog's evidence rules recognise levels.
nlohmann::json counters_of(const RunConfig& config) {
  nlohmann::json counters = {{"forward_passes", config.num_accumulation},
                             {"block_forwards", config.checkpoint == Checkpoint::kFull ? 8 : 4},
                             {"injected_spins", config.injected_spin_ns > 0 ? 1 : 0},
                             {"package_runs", config.compile == Compile::kAoti ? 1 : 0},
                             {"operators", config.compile == Compile::kAoti ? 20 : 100}};
  switch (config.attention) {
    case Attention::kMath: counters["aten::_scaled_dot_product_attention_math"] = 4; break;
    case Attention::kFlash:
      counters["aten::_scaled_dot_product_flash_attention_for_cpu"] = 4;
      break;
    case Attention::kMemEfficient:
    case Attention::kCudnn: break;
  }
  switch (config.optimizer) {
    case Optimizer::kLoop: counters["aten::lerp_"] = 10; break;
    case Optimizer::kForeach: counters["aten::_foreach_lerp_"] = 2; break;
    case Optimizer::kFused: counters["aten::_fused_adamw_"] = 1; break;
    case Optimizer::kMultiTensor: counters["multi_tensor_updates"] = 1; break;
  }
  return counters;
}

BlockRecord make_record(const BlockConfig& block, std::string_view behaviour) {
  // Every process has noise of its own, also a second attempt at the same slot.
  const std::string name = block.output_folder.filename().string();
  SplitMix64 random(std::stoull(sha256_hex(name).substr(0, 15), nullptr, 16));
  const double block_factor =
      std::exp(kBlockNoise * random.normal()) * (behaviour == "slower" ? 1.5 : 1);
  BlockRecord record{.kind = block.kind,
                     .arm = block.arm,
                     .round_index = block.round_index,
                     .config = block.config,
                     .data_hash = "d0",
                     .data_set_hash = "d1",
                     .weights_hash = "w0",
                     .final_weights_hash = "w1"};
  const bool is_pilot = block.kind == BlockKind::kPilot;
  const std::int64_t num_warmup = is_pilot ? kPilotWarmupSteps : block.num_warmup_steps;
  const std::int64_t num_measured = block.num_measured_steps - (behaviour == "short" ? 1 : 0);
  record.warmup = make_steps(block.config, 0, num_warmup, block_factor, random);
  record.steps = make_steps(block.config, num_warmup, num_measured, block_factor, random);
  for (const std::int64_t step_ns : record.steps.step_wall_ns) record.measured_wall_ns += step_ns;
  record.memory = {{"peak_allocated_bytes", 1 << 20}};
  record.environment = {{"program", "fake_block"}};
  record.evidence["detected_warmup_steps"] = num_warmup;
  if (is_pilot) record.evidence["counters"] = counters_of(block.config);
  const auto end_as = [&](BlockStatus status, std::string_view reason) {
    record.status = status;
    record.reason = reason;
  };
  if (behaviour == "oom") end_as(BlockStatus::kOom, "out of memory: 1 GiB asked for");
  if (behaviour == "nan") end_as(BlockStatus::kNan, "the loss became NaN at step 3");
  if (behaviour == "invalid") end_as(BlockStatus::kInvalid, "the GPU was slowed down");
  if (behaviour == "unsupported") end_as(BlockStatus::kUnsupported, "this kernel needs a GPU");
  if (behaviour == "wrong") record.arm = "somebody-else";
  return record;
}

// By the signal itself: a sanitizer's handler would turn it into an exit code.
void crash() {
  ::signal(SIGSEGV, SIG_DFL);
  ::raise(SIGSEGV);
}

void hang() {
  while (true) ::pause();
}

int run() {
  const BlockConfig block = block_config_from_environment();
  const std::string behaviour = behaviour_of(block);
  const std::string sleep = environment_variable("STEPLENS_FAKE_SLEEP_MS");
  if (!sleep.empty()) sleep_ms(std::stoi(sleep));
  if (behaviour == "slow") sleep_ms(200);
  if (behaviour == "very-slow") sleep_ms(1200);
  if (behaviour == "crash") crash();
  if (behaviour == "hang") hang();
  if (behaviour == "deaf") {
    ::signal(SIGTERM, SIG_IGN);
    hang();
  }
  if (behaviour == "exit" || behaviour == "path") {
    std::fputs(behaviour == "exit" ? "fake_block: cannot go on\n"
                                   : "cannot open /home/somebody/secret/weights.bin: denied\n",
               stderr);
    return 7;
  }
  if (behaviour == "chatty") {
    for (int i = 0; i < 100; ++i) fmt::print("line {}\n", i);
    return 9;
  }
  if (behaviour == "nofile") return 0;
  const fs::path path = block.output_folder / "block.json";
  if (behaviour == "garbage") {
    write_file_atomically(path, "{\"schema_version\": 1, \"status\": ");
    return 0;
  }
  write_json_atomically(path, to_json(make_record(block, behaviour)));
  if (behaviour == "late-crash") crash();
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fake_block: %s\n", error.what());
    return 2;
  }
}
