#include "harness/package_export.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "harness/files.h"
#include "harness/machine_names.h"
#include "harness/pilots.h"
#include "harness/temporary_folder.h"

namespace steplens {
namespace {

// Inductor compiles for minutes, the longer the more layers a model has.
constexpr double kExportTimeoutS = 1800;
// How the last line of scripts/arms/export_step.py ends where it made nothing.
constexpr std::string_view kThereAlready = "there already";

std::string last_line_of(const ProcessResult& process) {
  for (auto line = process.last_lines.rbegin(); line != process.last_lines.rend(); ++line) {
    if (!line->empty()) return without_machine_names(*line, host_name());
  }
  return "";
}

std::string why_not_exported(const ProcessResult& process) {
  switch (process.end) {
    case ProcessEnd::kNotStarted: return process.why_not_started;
    case ProcessEnd::kTimeout: return fmt::format("no package after {:.0f} s", kExportTimeoutS);
    case ProcessEnd::kSignaled:
      return fmt::format("the export was killed by signal {}", process.signal);
    case ProcessEnd::kExited:
    case ProcessEnd::kStopped: break;
  }
  if (process.exit_code == 0) return "";
  const std::string line = last_line_of(process);
  return line.empty() ? fmt::format("the export ended with exit code {}", process.exit_code) : line;
}

ProcessResult run_export(const RunParts& parts, const Arm& arm,
                         const std::vector<std::string>& command) {
  const TemporaryFolder folder;
  const BlockSettings& settings = parts.runner.settings();
  const BlockConfig config{.config = arm.config,
                           .seed = arm.config.seed,
                           .kind = BlockKind::kPilot,
                           .arm = arm.name,
                           .device_id = settings.device_id,
                           .num_measured_steps = 1,
                           .data_path = settings.data_path,
                           .output_folder = folder.path()};
  const auto path = folder.path() / "block_config.json";
  write_json_atomically(path, to_json(config));
  ProcessSpec spec{.command = command,
                   .environment = {{"STEPLENS_BLOCK_CONFIG", path.string()}},
                   .timeout_s = kExportTimeoutS};
  if (!settings.device_id.empty()) {
    spec.environment.emplace_back("CUDA_VISIBLE_DEVICES", settings.device_id);
  }
  return parts.site.run_process(spec, parts.site.stop_request);
}

// The arms of each package that is needed, in the order of the plan.
std::vector<std::vector<Arm>> arms_by_package(const Manifest& manifest,
                                              const PackageExport& exporter) {
  std::vector<std::vector<Arm>> packages;
  std::map<std::string, std::size_t> index_of_name;
  for (const Arm& arm : manifest.arms) {
    const bool is_ours = arm.command.empty();
    if (!is_ours || arm.config.compile != Compile::kAoti || !is_live(manifest, arm)) continue;
    // Without names each arm counts as one of its own.
    const std::string name = exporter.name_of != nullptr ? exporter.name_of(arm.config) : arm.name;
    const auto [entry, is_new] = index_of_name.emplace(name, packages.size());
    if (is_new) packages.emplace_back();
    packages[entry->second].push_back(arm);
    if (manifest.num_aa > 0) break;  // All arms are one.
  }
  return packages;
}

std::string names_of(const std::vector<Arm>& arms) {
  if (arms.size() == 1) return arms.front().name;
  return fmt::format("{} and {} more arm{}", arms.front().name, arms.size() - 1,
                     arms.size() == 2 ? "" : "s");
}

void note_package(RunParts& parts, const std::vector<Arm>& arms, const ProcessResult& process) {
  std::vector<std::string>& notes = parts.writer.manifest().notes;
  const std::string of_arms =
      fmt::format("Before the first block the package of {} was made sure of", names_of(arms));
  const std::string line = last_line_of(process);
  const std::string note = fmt::format("{} in {:.1f} s ({}).", of_arms, process.wall_s, line);
  parts.progress.say(note);
  // A run that goes on finds the package: nothing new to note.
  const bool is_noted = std::ranges::any_of(
      notes, [&](const std::string& noted) { return noted.starts_with(of_arms); });
  if (!is_noted || !line.ends_with(kThereAlready)) notes.push_back(note);
}

PhaseResult fail_arms(RunParts& parts, const std::vector<Arm>& arms, const std::string& reason) {
  Manifest& manifest = parts.writer.manifest();
  bool has_baseline = false;
  for (const Arm& arm : arms) {
    fail_arm(manifest, arm, reason);
    parts.progress.say(fmt::format("{} FAILED: {}", arm.name, reason));
    has_baseline = has_baseline || arm.name == manifest.arms.front().name;
  }
  if (!has_baseline) return {};
  parts.writer.save();
  return {.end = PhaseEnd::kBaselineFailed, .reason = reason};
}

}  // namespace

PhaseResult export_packages(RunParts& parts, const PackageExport& exporter) {
  for (const std::vector<Arm>& arms : arms_by_package(parts.writer.manifest(), exporter)) {
    ProcessResult process{.why_not_started = "no export command is known"};
    if (!exporter.command.empty()) process = run_export(parts, arms.front(), exporter.command);
    if (process.end == ProcessEnd::kStopped) return {.end = PhaseEnd::kInterrupted};
    const std::string refusal = why_not_exported(process);
    if (refusal.empty()) {
      note_package(parts, arms, process);
    } else {
      const PhaseResult failed = fail_arms(parts, arms, "not available: " + refusal);
      if (failed.end != PhaseEnd::kDone) return failed;
    }
    parts.writer.save();
  }
  return {};
}

}  // namespace steplens
