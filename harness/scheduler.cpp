#include "harness/scheduler.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/build_info.h"
#include "harness/measured_device.h"
#include "harness/package_export.h"
#include "harness/pilots.h"
#include "harness/resume_memory.h"
#include "harness/round_runner.h"
#include "harness/traces.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kTimeLimitPrefix = "time limit: ";
constexpr int kMaxDroppedRoundsRunning = 3;  // Then the machine, not chance, is to blame.

// What a session found when it opened a bundle that was begun before it.
struct EarlierSession {
  std::string boot_id;
  std::string machine_id;  // Of the last round.
  double last_end_s = 0;   // Of its last block, since the matrix began.
};

Manifest new_manifest(const Plan& plan, const MeasuredDevice& device, json data,
                      const RunSite& site) {
  const BuildInfo& build = build_info();
  return {.steplens_version = std::string(build.version),
          .git_sha = std::string(build.git_sha),
          .is_dirty = build.is_dirty,
          .created_utc = utc_text(site.now_s()),
          .title = plan.title,
          .baseline = plan.baseline,
          .arms = plan.arms,
          .num_aa = plan.num_aa,
          .seed = plan.seed,
          .num_rounds_planned = plan.num_rounds,
          .until_halfwidth_ratio = plan.until_halfwidth_ratio,
          .equivalence_ratio = plan.equivalence_ratio,
          .num_warmup_steps = plan.num_warmup_steps,
          .num_measured_steps = plan.num_measured_steps,
          .num_trace_steps = plan.num_trace_steps,
          .num_graph_trace_steps = plan.num_graph_trace_steps,
          .num_memory_steps = plan.num_memory_steps,
          .num_counter_steps = plan.num_counter_steps,
          .world_size = static_cast<int>(plan.baseline.world_size),
          .gpu_name = device.gpu_name,
          .data = std::move(data),
          .environment = site.machine->environment(device.gpu_uuid)};
}

// Blocks of two programs or of two corpora cannot be compared.
void refuse_other_program(const Manifest& manifest) {
  const BuildInfo& build = build_info();
  if (manifest.git_sha != build.git_sha || manifest.is_dirty != build.is_dirty) {
    const auto shown = [](std::string_view sha, bool is_dirty) {
      return fmt::format("{}{}", sha, is_dirty ? " with changes" : "");
    };
    throw ConfigError(fmt::format(
        "git_sha: the bundle was begun by {}, this program is {}; blocks of two programs cannot be "
        "compared",
        shown(manifest.git_sha, manifest.is_dirty), shown(build.git_sha, build.is_dirty)));
  }
}

void refuse_other_data(const Manifest& manifest, const json& data) {
  const auto hash = [](const json& description) {
    return description.is_object() ? description.value("sha256", "") : std::string();
  };
  if (hash(manifest.data) != hash(data)) {
    throw ConfigError(
        fmt::format("data: the bundle was begun with the token file of SHA-256 {}, this one has {}",
                    hash(manifest.data), hash(data)));
  }
}

std::string describe_processes(const std::vector<ForeignProcess>& processes) {
  std::vector<std::string> pids;
  pids.reserve(processes.size());
  for (const ForeignProcess& process : processes) pids.push_back(fmt::format("{}", process.pid));
  return fmt::format("{} {} {}", processes.size(), processes.size() == 1 ? "process" : "processes",
                     fmt::join(pids, ", "));
}

// One session of a run: the time from the start of this process to its end.
class Session {
 public:
  Session(const RunOptions& options, const RunSite& site, Progress& progress, BundleWriter& writer,
          const MeasuredDevice& device, BlockSettings settings)
      : options_(options),
        site_(site),
        progress_(progress),
        writer_(writer),
        device_(device),
        start_s_(site.now_s()),
        runner_(writer, site, std::move(settings)),
        conditioner_(writer, runner_, site, writer.manifest().arms.front()),
        parts_{writer, runner_, conditioner_, progress, durations_, estimates_, site} {}

  // Reads the blocks of earlier sessions, decides what becomes of an open round, and whether the
  // machine is still warm.
  void take_over(const EarlierSession& earlier) {
    for (const BlockEntry& entry : writer_.manifest().blocks) {
      if (entry.status != BlockStatus::kOk) continue;
      const BlockRecord record = writer_.read_block(entry);
      durations_.add(entry, record);
      if (entry.kind == BlockKind::kThroughput) estimates_.add(record);
    }
    const bool is_same_machine =
        earlier.machine_id.empty() || earlier.machine_id == device_.machine_id;
    const bool is_same_start = earlier.boot_id == site_.boot_id;
    RoundRecord* round = find_open_round(writer_.manifest());
    if (round != nullptr && !is_same_machine) {
      drop_round(writer_, *round, "it was interrupted and resumed on another machine");
    } else if (round != nullptr && !is_same_start) {
      drop_round(writer_, *round, "it was interrupted and the machine was started anew");
    }
    const double now_s = site_.now_s() - runner_.settings().origin_unix_s;
    if (is_same_machine && is_same_start && now_s - earlier.last_end_s <= kMaxPauseS) {
      conditioner_.trust_last_soak();
    }
  }

  RunOutcome run() {
    Manifest& manifest = writer_.manifest();
    manifest.stop_reason.clear();
    const std::string& baseline = manifest.arms.front().name;
    if (manifest.num_aa == 0 && manifest.failed_arms.contains(baseline)) {
      return baseline_failed(manifest.failed_arms[baseline].get<std::string>());
    }
    PhaseResult pilots = export_packages(parts_, options_.package_export);
    if (pilots.end == PhaseEnd::kDone) {
      pilots = run_pilots(parts_, [this] { return is_time_over(0); });
    }
    switch (pilots.end) {
      case PhaseEnd::kDone: break;
      case PhaseEnd::kInterrupted: return outcome(RunEnd::kInterrupted, "interrupted");
      case PhaseEnd::kTimeLimit: return stop(RunEnd::kTimeLimit, time_limit_reason());
      case PhaseEnd::kUnsteady: return outcome(RunEnd::kUnsteady, pilots.reason);
      case PhaseEnd::kBaselineFailed: return baseline_failed(pilots.reason);
    }
    int num_dropped_running = 0;
    while (true) {
      if (const std::string reason = reason_to_stop(); !reason.empty()) {
        return trace_and_stop(reason);
      }
      if (is_time_over(next_round_s())) return stop(RunEnd::kTimeLimit, time_limit_reason());
      note_foreign_load();
      const RoundRecord* open = find_open_round(writer_.manifest());
      const int index =
          open != nullptr ? open->index : begin_round(writer_, device_.machine_id).index;
      const RoundResult result = run_round(parts_, index);
      switch (result.end) {
        case RoundEnd::kComplete:
          num_dropped_running = 0;
          progress_.round_ends(num_complete_rounds(writer_.manifest()),
                               estimates_.estimates(writer_.manifest()));
          break;
        case RoundEnd::kDropped:
          progress_.say(fmt::format("round dropped: {}", result.reason));
          if (++num_dropped_running == kMaxDroppedRoundsRunning) {
            return outcome(RunEnd::kUnsteady,
                           fmt::format("{} rounds running were dropped; the last: {}",
                                       num_dropped_running, result.reason));
          }
          break;
        case RoundEnd::kInterrupted: return outcome(RunEnd::kInterrupted, "interrupted");
        case RoundEnd::kBaselineFailed: return baseline_failed(result.reason);
      }
    }
  }

 private:
  RunOutcome trace_and_stop(const std::string& reason) {
    const PhaseResult traces =
        run_traces(parts_, [this](double next_s) { return is_time_over(next_s); });
    switch (traces.end) {
      case PhaseEnd::kInterrupted: return outcome(RunEnd::kInterrupted, "interrupted");
      case PhaseEnd::kTimeLimit:
        return stop(RunEnd::kTimeLimit,
                    fmt::format("{}{:.0f} s were over {}", kTimeLimitPrefix,
                                options_.max_seconds.value_or(0), traces.reason));
      default: return stop(RunEnd::kDone, reason);
    }
  }

  double next_round_s() {
    const RoundRecord* open = find_open_round(writer_.manifest());
    return runner_.load_s() +
           durations_.expected_s(writer_.manifest(),
                                 open != nullptr ? open->order : live_arms(writer_.manifest()));
  }

  bool is_time_over(double next_s) const {
    return options_.max_seconds && site_.now_s() - start_s_ + next_s > *options_.max_seconds;
  }

  // Empty while there is something left to do. Never looks at a p value.
  std::string reason_to_stop() const {
    const Manifest& manifest = writer_.manifest();
    if (!has_work_left(manifest)) return "no arm is left to compare: all FAILED";
    const int num_complete = num_complete_rounds(manifest);
    const std::string unmet = unmet_half_width();
    if (num_complete >= manifest.num_rounds_planned) {
      return unmet.empty() || !manifest.until_halfwidth_ratio
                 ? "planned rounds done"
                 : fmt::format("planned rounds done; {}", unmet);
    }
    if (manifest.until_halfwidth_ratio && unmet.empty()) {
      return fmt::format("every half-width is at most {:.3g} % after {} rounds",
                         100 * *manifest.until_halfwidth_ratio, num_complete);
    }
    return "";
  }

  // Which half-width is still too large; empty if none is, or none was asked for.
  std::string unmet_half_width() const {
    const Manifest& manifest = writer_.manifest();
    if (!manifest.until_halfwidth_ratio) return "";
    const std::vector<ArmEstimate> arms = estimates_.estimates(manifest);
    std::vector<Estimate> estimates;
    estimates.reserve(arms.size());
    for (const ArmEstimate& arm : arms) estimates.push_back(arm.estimate);
    const double limit = std::log1p(*manifest.until_halfwidth_ratio);
    if (!estimates.empty() && has_reached_half_width(estimates, limit)) return "";
    const auto widest = std::ranges::max_element(
        arms, {}, [](const ArmEstimate& arm) { return arm.estimate.half_width_log_ratio(); });
    return widest == arms.end()
               ? "no half-width is known"
               : fmt::format("half-width {:.3g} % was not reached: {}",
                             100 * *manifest.until_halfwidth_ratio, estimate_text(*widest));
  }

  std::string time_limit_reason() const {
    const Manifest& manifest = writer_.manifest();
    const std::string unmet = unmet_half_width();
    return fmt::format("{}{:.0f} s allow {} of {} rounds{}", kTimeLimitPrefix,
                       options_.max_seconds.value_or(0), num_complete_rounds(manifest),
                       manifest.num_rounds_planned,
                       unmet.empty() ? "" : fmt::format("; {}", unmet));
  }

  // Processes that came after the start: too late to refuse, but the report says so.
  void note_foreign_load() {
    if (device_.gpu_uuid.empty() || options_.allows_foreign_load) return;
    auto processes = site_.machine->foreign_processes(device_.gpu_uuid);
    if (processes.empty()) return;
    // The driver may still list our last block's process for a moment.
    if (!site_.sleep_unless_stopped(1)) return;
    processes = site_.machine->foreign_processes(device_.gpu_uuid);
    if (processes.empty()) return;
    writer_.manifest().notes.push_back(
        fmt::format("Foreign load on the GPU after {} complete rounds: {}.",
                    num_complete_rounds(writer_.manifest()), describe_processes(processes)));
  }

  RunOutcome outcome(RunEnd end, std::string reason) const {
    return {.end = end,
            .num_complete_rounds = num_complete_rounds(writer_.manifest()),
            .reason = std::move(reason)};
  }

  RunOutcome stop(RunEnd end, const std::string& reason) {
    writer_.manifest().stop_reason = reason;
    writer_.save();
    return outcome(end, reason);
  }

  RunOutcome baseline_failed(const std::string& reason) {
    return stop(RunEnd::kBaselineFailed, fmt::format("the baseline failed: {}", reason));
  }

  const RunOptions& options_;
  const RunSite& site_;
  Progress& progress_;
  BundleWriter& writer_;
  const MeasuredDevice& device_;
  double start_s_;
  BlockRunner runner_;
  Conditioner conditioner_;
  BlockDurations durations_;
  RunningEstimates estimates_;
  RunParts parts_;
};

void check_foreign_load(const MeasuredDevice& device, const RunOptions& options,
                        const RunSite& site, std::vector<std::string>& notes) {
  if (device.gpu_uuid.empty()) {
    // Only now is the load somebody else's: later our own blocks are in it.
    const double load = site.machine->load_average();
    const double limit = 0.5 * std::max(1U, std::thread::hardware_concurrency());
    if (load > limit) {
      notes.push_back(fmt::format(
          "The load average was {:.2f} before a session began: the CPU was not idle.", load));
    }
    return;
  }
  const auto processes = site.machine->foreign_processes(device.gpu_uuid);
  if (processes.empty()) return;
  if (!options.allows_foreign_load) {
    throw ForeignLoadError(
        fmt::format("foreign load: GPU {} is in use by {}; nothing can be measured beside it "
                    "(--allow-foreign-load measures anyway, and the report says so)",
                    device.gpu_uuid, describe_processes(processes)));
  }
  notes.push_back(
      fmt::format("Foreign load on the GPU was allowed: {}.", describe_processes(processes)));
}

// Which machine the bundle was last measured on, for `--resume` to go on there.
EarlierSession earlier_session(const BundleWriter& writer) {
  const Manifest& manifest = writer.manifest();
  const json state = writer.read_session();
  EarlierSession earlier{.boot_id = state.value("boot_id", ""),
                         .machine_id = state.value("machine_id", "")};
  if (earlier.machine_id.empty() && !manifest.rounds.empty()) {
    earlier.machine_id = manifest.rounds.back().machine_id;
  }
  for (const BlockEntry& entry : manifest.blocks) {
    earlier.last_end_s = std::max(earlier.last_end_s, entry.start_s + entry.duration_s);
  }
  return earlier;
}

// Another GPU of the same model, or another CPU model, may go on; its rounds are its own.
void note_other_machine(const EarlierSession& earlier, const MeasuredDevice& device,
                        Manifest& manifest) {
  if (manifest.gpu_name != device.gpu_name) {
    throw ConfigError(fmt::format("gpu_name: the bundle was begun on {}, this machine has {}",
                                  manifest.gpu_name, device.gpu_name));
  }
  if (earlier.machine_id.empty() || earlier.machine_id == device.machine_id) return;
  manifest.notes.push_back(
      fmt::format("After {} complete rounds the machine changed from {} to {}.",
                  num_complete_rounds(manifest), earlier.machine_id, device.machine_id));
}

// All GPUs of the machine, the measured one first.
std::vector<std::string> gpus_from(Machine& machine, const std::string& first) {
  std::vector<std::string> uuids;
  if (first.empty()) return uuids;
  uuids.push_back(first);
  for (const GpuInfo& gpu : machine.gpus()) {
    if (gpu.uuid != first) uuids.push_back(gpu.uuid);
  }
  return uuids;
}

// Commands of external arms on this machine: as planned now, else as an earlier session knew them.
std::map<std::string, std::vector<std::string>> external_commands(const Plan& plan,
                                                                  const ResumeMemory& memory) {
  std::map<std::string, std::vector<std::string>> commands = plan.commands;
  commands.insert(memory.commands.begin(), memory.commands.end());
  for (const Arm& arm : plan.arms) {
    if (arm.command.empty() || commands.contains(arm.name)) continue;
    throw ConfigError(
        fmt::format("arms: the executable of {0} is not known here; repeat the whole command with "
                    "--arms {0}=/path/to/executable and --resume",
                    arm.name));
  }
  return commands;
}

// How an earlier session ended the run for good; absent if something is left to do.
std::optional<RunEnd> final_end(const Manifest& manifest) {
  if (manifest.stop_reason.empty() || manifest.stop_reason.starts_with(kTimeLimitPrefix)) {
    return std::nullopt;
  }
  const bool has_baseline_failed =
      manifest.num_aa == 0 && manifest.failed_arms.contains(manifest.arms.front().name);
  return has_baseline_failed ? RunEnd::kBaselineFailed : RunEnd::kDone;
}

}  // namespace

RunOutcome run_plan(const Plan& plan, const RunOptions& options, const RunSite& site,
                    Progress& progress, const std::function<void(const fs::path&)>& on_finished) {
  SL_CHECK(!plan.arms.empty());
  std::optional<BundleWriter> writer;
  EarlierSession earlier;
  ResumeMemory memory;
  if (options.is_resume) {
    writer = BundleWriter::reopen(options.bundle);
    refuse_other_program(writer->manifest());
    refuse_other_plan(plan, writer->manifest());
    if (const auto end = final_end(writer->manifest())) {
      writer->finish();  // It may have been killed between its last block and this.
      forget(options.memory_path);
      if (on_finished) on_finished(writer->folder());
      return {.end = *end,
              .num_complete_rounds = num_complete_rounds(writer->manifest()),
              .reason = writer->manifest().stop_reason};
    }
    memory = read_resume_memory(options.memory_path);
    earlier = earlier_session(*writer);
  }
  if (!options.data_path.empty()) memory.data_path = options.data_path;
  if (memory.data_path.empty()) memory.data_path = options.default_data_path;
  memory.data_path = fs::absolute(memory.data_path);
  memory.commands = external_commands(plan, memory);
  json data = describe_data(memory.data_path);
  const MeasuredDevice device =
      choose_device(*site.machine, plan.baseline.device, options.gpu, earlier.machine_id);
  const int world_size = static_cast<int>(plan.baseline.world_size);
  const RankLauncher launcher = world_size == 1
                                    ? RankLauncher{}
                                    : find_rank_launcher(plan.baseline.device, world_size,
                                                         gpus_from(*site.machine, device.gpu_uuid));
  std::vector<std::string> notes;
  check_foreign_load(device, options, site, notes);

  if (writer) {
    refuse_other_data(writer->manifest(), data);
    note_other_machine(earlier, device, writer->manifest());
  } else {
    writer = BundleWriter::create(options.bundle, new_manifest(plan, device, std::move(data), site),
                                  [&] { write_resume_memory(options.memory_path, memory); });
  }
  Manifest& manifest = writer->manifest();
  manifest.notes.insert(manifest.notes.end(), notes.begin(), notes.end());
  if (options.is_resume) write_resume_memory(options.memory_path, memory);
  Session session(options, site, progress, *writer, device,
                  {.worker_command = options.worker_command,
                   .commands = memory.commands,
                   .data_path = memory.data_path,
                   .device_id = device.gpu_uuid,
                   .launcher = launcher,
                   .timeout_s = options.block_timeout_s,
                   .origin_unix_s = unix_time_of(manifest.created_utc),
                   // mpirun gives its standard input to one rank alone.
                   .starts_ahead = launcher.mpirun.empty(),
                   .keeps_logs = options.keeps_logs});
  if (options.is_resume) session.take_over(earlier);
  writer->write_session({{"boot_id", site.boot_id}, {"machine_id", device.machine_id}});
  const RunOutcome outcome = session.run();
  if (outcome.end == RunEnd::kInterrupted || outcome.end == RunEnd::kUnsteady) return outcome;
  writer->finish();
  if (outcome.end != RunEnd::kTimeLimit) forget(options.memory_path);
  if (on_finished) on_finished(writer->folder());
  return outcome;
}

}  // namespace steplens
