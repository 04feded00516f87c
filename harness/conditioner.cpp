#include "harness/conditioner.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/files.h"

namespace steplens {
namespace {

using nlohmann::json;

constexpr double kSoakToleranceCelsius = 3;
constexpr double kEnoughHeadroomCelsius = 20;
constexpr double kMaxThermalWaitS = 180;
constexpr double kThermalPollS = 1;

json or_null(std::optional<double> value) { return value ? json(*value) : json(nullptr); }

}  // namespace

Conditioner::Conditioner(BundleWriter& writer, BlockRunner& runner, const RunSite& site,
                         const Arm& baseline)
    : writer_(writer),
      runner_(runner),
      site_(site),
      baseline_(baseline) {}

std::optional<json> Conditioner::prepare_throughput() {
  const bool has_paused = last_block_end_s_ && site_.now_s() - *last_block_end_s_ > kMaxPauseS;
  if ((needs_soak_ || has_paused) && !soak()) return std::nullopt;
  const std::optional<double> waited_s = wait_for_temperature();
  if (!waited_s) return std::nullopt;
  return facts(*waited_s);
}

json Conditioner::prepare_pilot() const { return facts(0); }

void Conditioner::block_ended() { last_block_end_s_ = site_.now_s(); }

bool Conditioner::soak() {
  const Manifest& manifest = writer_.manifest();
  const BlockTask task{.arm = &baseline_,
                       .kind = BlockKind::kSoak,
                       .counts = {.num_warmup_steps = manifest.num_warmup_steps,
                                  .num_measured_steps = manifest.num_measured_steps}};
  // One that died early warmed nothing; twice is the baseline's own fault, which its blocks show.
  constexpr int kMaxTries = 2;
  for (int i = 0; i < kMaxTries; ++i) {
    BlockTask attempt = task;
    attempt.facts = facts(0);
    const BlockOutcome outcome = runner_.run(attempt);
    if (outcome.is_interrupted) return false;
    if (outcome.record.status == BlockStatus::kOk) break;
    writer_.manifest().notes.push_back(
        fmt::format("Soak block {} ended as {}: {}.", outcome.entry.folder,
                    name_of(outcome.record.status), outcome.record.reason));
    writer_.save();
  }
  soak_celsius_ = site_.machine->temperature_celsius(runner_.settings().device_id);
  needs_soak_ = false;
  block_ended();
  return true;
}

void Conditioner::trust_last_soak() {
  const auto& blocks = writer_.manifest().blocks;
  const auto last =
      std::ranges::find(blocks.rbegin(), blocks.rend(), BlockKind::kSoak, &BlockEntry::kind);
  if (last == blocks.rend()) return;
  const auto process_json = writer_.folder() / "blocks" / last->folder / "process.json";
  const json process = read_json(process_json);
  const json celsius = process.value("temperature_after_celsius", json());
  if (celsius.is_number()) soak_celsius_ = celsius.get<double>();
  needs_soak_ = false;
}

bool Conditioner::is_at_temperature() const {
  const std::string& device_id = runner_.settings().device_id;
  const std::optional<double> now = site_.machine->temperature_celsius(device_id);
  if (!now || !soak_celsius_) return true;
  if (std::abs(*now - *soak_celsius_) <= kSoakToleranceCelsius) return true;
  const std::optional<double> headroom = site_.machine->headroom_celsius(device_id);
  return headroom && *headroom >= kEnoughHeadroomCelsius;
}

std::optional<double> Conditioner::wait_for_temperature() {
  const double start_s = site_.now_s();
  while (!is_at_temperature()) {
    const double waited_s = site_.now_s() - start_s;
    if (waited_s >= kMaxThermalWaitS) {
      const double soak = soak_celsius_.value_or(0);
      const double now =
          site_.machine->temperature_celsius(runner_.settings().device_id).value_or(soak);
      writer_.manifest().notes.push_back(
          fmt::format("After {:.0f} s of waiting a block began at {:.0f} degrees Celsius, {:+.0f} "
                      "from the soak temperature.",
                      waited_s, now, now - soak));
      return waited_s;
    }
    if (!site_.sleep_unless_stopped(kThermalPollS)) return std::nullopt;
  }
  return site_.now_s() - start_s;
}

json Conditioner::facts(double thermal_wait_s) const {
  const std::string& device_id = runner_.settings().device_id;
  return {{"load_average", site_.machine->load_average()},
          {"temperature_before_celsius", or_null(site_.machine->temperature_celsius(device_id))},
          {"thermal_wait_s", thermal_wait_s}};
}

}  // namespace steplens
