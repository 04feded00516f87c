#include "harness/block_runner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "harness/clock_gap.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/machine_names.h"
#include "harness/ranks/rank_progress.h"
#include "harness/trace/trace_request.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMaxReasonBytes = 300;  // One line of a report.
constexpr const char* kLogName = "output.log";
constexpr const char* kWorkerKey = "";          // No arm has this name.
constexpr double kMaxCollectiveTimeoutS = 120;  // Ranks that load and compile unequally fast.

// The last line that says something: a Python traceback ends with its message.
std::string last_words(const std::vector<std::string>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const auto first = line->find_first_not_of(" \t\r");
    if (first == std::string::npos) continue;
    return line->substr(first, kMaxReasonBytes);
  }
  return "";
}

std::string describe_end(const ProcessResult& process, double timeout_s) {
  switch (process.end) {
    case ProcessEnd::kNotStarted:
      return fmt::format("the process could not be started: {}", process.why_not_started);
    case ProcessEnd::kTimeout: return fmt::format("no end after {:.0f} s", timeout_s);
    case ProcessEnd::kSignaled: return fmt::format("killed by {}", signal_name(process.signal));
    case ProcessEnd::kExited:
    case ProcessEnd::kStopped: break;
  }
  return fmt::format("ended with exit code {}", process.exit_code);
}

// Why a block.json that calls itself ok cannot be used; empty if it can.
std::string fault_of(const BlockRecord& record, const BlockConfig& config) {
  if (record.arm != config.arm || record.kind != config.kind ||
      record.round_index != config.round_index) {
    return fmt::format("block.json is about {} {} of round {}, asked was {} {} of round {}",
                       name_of(record.kind), record.arm, record.round_index, name_of(config.kind),
                       config.arm, config.round_index);
  }
  if (record.rank != config.rank || record.world_size != config.world_size) {
    return fmt::format("block.json is of rank {} of {}, asked was rank {} of {}", record.rank,
                       record.world_size, config.rank, config.world_size);
  }
  if (record.status != BlockStatus::kOk || config.kind == BlockKind::kPilot) return "";
  const auto num_steps = static_cast<std::int64_t>(record.steps.size());
  if (num_steps != config.num_measured_steps) {
    return fmt::format("block.json holds {} measured steps, {} were asked for", num_steps,
                       config.num_measured_steps);
  }
  const auto is_positive = [](std::int64_t value) { return value > 0; };
  if (!std::ranges::all_of(record.steps.step_wall_ns, is_positive)) {
    return "block.json holds a step without duration";
  }
  const auto& tokens = record.steps.num_valid_tokens;
  if (std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}) <= 0) {
    return "block.json holds no valid tokens";
  }
  return "";
}

BlockRecord dead_record(const BlockConfig& config, const ProcessResult& process,
                        std::string_view how) {
  const std::string host = host_name();
  std::vector<std::string> lines;
  lines.reserve(process.last_lines.size());
  for (const std::string& line : process.last_lines) {
    lines.push_back(without_machine_names(line, host));
  }
  BlockRecord record{
      .status = process.end == ProcessEnd::kTimeout ? BlockStatus::kTimeout : BlockStatus::kCrash,
      .kind = config.kind,
      .arm = config.arm,
      .round_index = config.round_index,
      .rank = config.rank,
      .world_size = config.world_size,
      .config = config.config};
  const std::string words = last_words(lines);
  record.reason = words.empty() ? std::string(how) : fmt::format("{}: {}", how, words);
  record.evidence["last_output_lines"] = lines;
  if (process.end == ProcessEnd::kSignaled) {
    record.evidence["signal"] = signal_name(process.signal);
  } else if (process.end == ProcessEnd::kExited) {
    record.evidence["exit_code"] = process.exit_code;
  }
  return record;
}

// What makes any program be traced; our own worker sets it itself.
void add_trace_environment(const BlockConfig& config, ProcessSpec& spec) {
  const auto library = find_inject_library();
  if (!library) return;
  const TraceRequest request{.path = config.output_folder / kTraceFileName,
                             .kind = trace_kind_from_name(name_of(config.kind)),
                             .first_step = config.num_warmup_steps,
                             .num_steps = config.num_measured_steps,
                             .info = {{"arm", config.arm}, {"config", to_json(config.config)}}};
  for (const auto& [name, value] : environment_for(request, *library)) {
    spec.environment.emplace_back(name, value);
  }
}

}  // namespace

BlockJudgement judge_block(const BlockConfig& config, const ProcessResult& process,
                           const fs::path& block_json) {
  const auto dead = [&](const std::string& how) -> BlockJudgement {
    return {.record = dead_record(config, process, how), .is_ours = true};
  };
  const std::string end = describe_end(process, config.timeout_s);
  if (process.end == ProcessEnd::kNotStarted || process.end == ProcessEnd::kTimeout) {
    return dead(end);
  }
  if (!fs::exists(block_json)) return dead(fmt::format("{}, without a block.json", end));
  try {
    BlockRecord record = read_block_record(block_json);
    const std::string fault = fault_of(record, config);
    if (!fault.empty()) return dead(fault);
    // Its numbers may be whole, but something in it broke: a run that one cannot trust.
    const bool has_failed = process.end == ProcessEnd::kSignaled || process.exit_code != 0;
    if (record.status == BlockStatus::kOk && has_failed) return dead(end);
    if (record.status == BlockStatus::kOk && config.kind == BlockKind::kThroughput) {
      if (auto gap = clock_gap(record)) {
        record.status = BlockStatus::kInvalid;
        record.reason = std::move(*gap);
        return {.record = std::move(record), .is_ours = true};
      }
    }
    return {.record = std::move(record)};
  } catch (const ConfigError& error) {
    return dead(fmt::format("wrote a damaged block.json ({})",
                            without_machine_names(error.what(), host_name())));
  }
}

BlockJudgement judge_ranks(const BlockConfig& config, const ProcessResult& process,
                           const fs::path& block_json) {
  BlockJudgement judgement = judge_block(config, process, block_json);
  BlockRecord& record = judgement.record;
  if (record.status == BlockStatus::kInvalid) return judgement;  // The ranks ended well.
  // Rank 0 may only know that it waited in vain.
  if (!judgement.is_ours && record.status != BlockStatus::kCrash) return judgement;
  const fs::path folder = block_json.parent_path();
  const std::vector<RankReport> reports = read_rank_reports(folder, config.world_size);
  const std::string blame = without_machine_names(
      blame_in_world(reports, process.end == ProcessEnd::kTimeout), host_name());
  const bool was_ours = std::exchange(judgement.is_ours, true);
  record.evidence["ranks"] = json::array();
  for (const RankReport& report : reports) {
    record.evidence["ranks"].push_back({{"rank", report.rank},
                                        {"num_steps", report.num_steps},
                                        {"num_collectives", report.num_collectives},
                                        {"range", report.range}});
  }
  // A rank that ended by itself may have said more than that, such as that it ran out of memory.
  for (int rank = 1; rank < config.world_size; ++rank) {
    try {
      const BlockRecord other = read_block_record(folder / fmt::format("block.rank{}.json", rank));
      if (other.status == BlockStatus::kOk || other.reason.starts_with(kWaitedForRanks)) continue;
      record.status = other.status;
      record.reason = fmt::format("rank {}: {}", rank, other.reason);
      return judgement;
    } catch (const ConfigError&) {
      continue;  // It left none, or not a whole one.
    }
  }
  if (!blame.empty()) {
    // What rank 0 wrote itself goes on; the launcher's last line would say less.
    record.reason = was_ours ? blame : fmt::format("{}; {}", blame, record.reason);
  }
  return judgement;
}

BlockRunner::BlockRunner(BundleWriter& writer, const RunSite& site, BlockSettings settings)
    : writer_(writer),
      site_(site),
      settings_(std::move(settings)),
      ahead_(site) {}

// Programs that know nothing of UUIDs see one device.
void BlockRunner::add_device(ProcessSpec& spec) const {
  if (!settings_.device_id.empty()) {
    spec.environment.emplace_back("CUDA_VISIBLE_DEVICES", settings_.device_id);
  }
}

BlockConfig BlockRunner::config_of(const BlockTask& task, const fs::path& folder) const {
  return {.config = task.arm->config,
          .seed = task.arm->config.seed,
          .kind = task.kind,
          .arm = task.arm->name,
          .round_index = task.round_index,
          .device_id = settings_.device_id,
          .world_size = static_cast<int>(task.arm->config.world_size),
          .num_warmup_steps = task.counts.num_warmup_steps,
          .num_measured_steps = task.counts.num_measured_steps,
          .timeout_s = settings_.timeout_s,
          // A rank that waits in vain says so before the block is stopped.
          .collective_timeout_s = std::min(kMaxCollectiveTimeoutS, settings_.timeout_s / 2),
          .data_path = settings_.data_path,
          .output_folder = folder};
}

BlockOutcome BlockRunner::run(const BlockTask& task) {
  const std::string label = task.kind == BlockKind::kThroughput
                                ? task.arm->name
                                : fmt::format("{}-{}", name_of(task.kind), task.arm->name);
  const fs::path folder = writer_.begin_block(label);
  try {
    return run_in(task, folder);
  } catch (const ConfigError&) {
    BundleWriter::abandon_block(folder);
    throw;
  }
}

BlockOutcome BlockRunner::run_in(const BlockTask& task, const fs::path& folder) {
  const BlockConfig config = config_of(task, folder);
  const fs::path config_path = folder / "block_config.json";
  const fs::path log_path = folder / kLogName;
  const fs::path block_json = folder / "block.json";
  write_json_atomically(config_path, to_json(config));

  const auto command = settings_.commands.find(task.arm->name);
  ProcessSpec spec{
      .command = command == settings_.commands.end() ? settings_.worker_command : command->second,
      .environment = {{"STEPLENS_BLOCK_CONFIG", config_path.string()}},
      .output_file = settings_.keeps_logs ? log_path : fs::path(),
      .timeout_s = settings_.timeout_s};
  add_device(spec);
  if (is_traced(task.kind) && command != settings_.commands.end()) {
    add_trace_environment(config, spec);
  }
  const double start_s = std::max(0.0, site_.now_s() - settings_.origin_unix_s);
  const ProcessResult process = run_process(spec, config);
  // A stop may come just after the child's own end: then the block is whole, but nobody waits for
  // it.
  if (process.end == ProcessEnd::kStopped || site_.stop_request() == StopRequest::kAtOnce) {
    BundleWriter::abandon_block(folder);
    return {.is_interrupted = true};
  }

  auto [record, is_ours] = config.world_size > 1 ? judge_ranks(config, process, block_json)
                                                 : judge_block(config, process, block_json);
  std::error_code ignored;
  for (int rank = 0; rank < config.world_size; ++rank) {
    fs::remove(rank_progress_path(folder, rank), ignored);
  }
  fs::remove(folder / kRendezvousFileName, ignored);
  if (is_ours) {
    // Two blocks that died alike must not be the same file: `verify` takes that for a copy.
    record.evidence["start_s"] = start_s;
    fs::remove_all(block_json, ignored);
    write_json_atomically(block_json, to_json(record));
  }
  fs::remove(config_path, ignored);
  BlockEntry entry{.arm = task.arm->name,
                   .round_index = task.round_index,
                   .kind = task.kind,
                   .status = record.status};
  entry = writer_.publish_block(folder, std::move(entry), process_record(task, process, start_s));
  return {.entry = std::move(entry), .record = std::move(record)};
}

void BlockRunner::start_ahead(std::span<const Arm* const> arms) {
  if (!settings_.starts_ahead || !site_.start_waiting) return;
  const double start_s = site_.now_s();
  for (const Arm* arm : arms) {
    const auto command = settings_.commands.find(arm->name);
    if (command == settings_.commands.end() || !can_wait(command->second)) continue;
    ProcessSpec spec{.command = command->second,
                     .output_file = settings_.keeps_logs ? fs::path(kLogName) : fs::path(),
                     .timeout_s = settings_.timeout_s};
    add_device(spec);
    ahead_.start_program(arm->name, processes_of(spec, static_cast<int>(arm->config.world_size)));
  }
  ahead_.wait_until_loaded();
  load_s_ = site_.now_s() - start_s;
}

ProcessResult BlockRunner::run_process(const ProcessSpec& spec, const BlockConfig& config) {
  const bool is_worker = spec.command == settings_.worker_command;
  AheadProcesses::Taken ahead;
  if (is_worker && settings_.starts_ahead && !settings_.device_id.empty()) {
    const std::vector<ProcessSpec> specs = processes_of(spec, config.world_size);
    // Now, not later: it has loaded its libraries before this block begins to measure.
    ahead_.start_worker(kWorkerKey, specs);
    ahead = ahead_.take(kWorkerKey);
    ahead_.start_worker(kWorkerKey, specs);
  } else if (!is_worker && !is_traced(config.kind)) {
    ahead = ahead_.take(config.arm);
  }
  if (ahead.processes.empty()) return run_now(spec, config.world_size);
  // What they read is the path that others get by STEPLENS_BLOCK_CONFIG.
  const std::string& config_path = spec.environment.front().second;
  ProcessResult result = config.world_size > 1
                             ? joint_result(WaitingProcess::release_together(
                                   ahead.processes, config_path, site_.stop_request))
                             : ahead.processes.front()->release(config_path, site_.stop_request);
  if (!ahead.output_file.empty()) {
    std::error_code ignored;  // A log that is missing costs no block.
    fs::copy_file(ahead.output_file, spec.output_file, fs::copy_options::overwrite_existing,
                  ignored);
    fs::remove(ahead.output_file, ignored);
  }
  return result;
}

std::vector<ProcessSpec> BlockRunner::processes_of(const ProcessSpec& spec, int world_size) const {
  if (world_size == 1) return {spec};
  return rank_processes(settings_.launcher, spec, world_size);
}

ProcessResult BlockRunner::run_now(const ProcessSpec& spec, int world_size) {
  const std::vector<ProcessSpec> processes = processes_of(spec, world_size);
  if (processes.size() == 1) return site_.run_process(processes.front(), site_.stop_request);
  return joint_result(site_.run_processes(processes, site_.stop_request));
}

ProcessRecord BlockRunner::process_record(const BlockTask& task, const ProcessResult& process,
                                          double start_s) const {
  ProcessRecord result{.start_s = start_s, .duration_s = process.wall_s, .facts = task.facts};
  result.facts["user_s"] = process.user_s;
  result.facts["system_s"] = process.system_s;
  result.facts["max_resident_bytes"] = process.max_resident_bytes;
  const auto temperature = site_.machine->temperature_celsius(settings_.device_id);
  result.facts["temperature_after_celsius"] = temperature ? json(*temperature) : json(nullptr);
  return result;
}

}  // namespace steplens
