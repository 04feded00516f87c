#include "harness/ahead_processes.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStartAheadVariable = "STEPLENS_START_AHEAD";
constexpr double kMaxLoadS = 120;  // A cold disk; longer than that, it is better to go on.
constexpr double kPollS = 0.05;

}  // namespace

bool can_wait(const std::vector<std::string>& command) {
  std::error_code ignored;
  return command.size() == 1 &&
         fs::exists(fs::path(command.front()).parent_path() / "block_protocol.py", ignored);
}

AheadProcesses::AheadProcesses(const RunSite& site) : site_(site), folder_("steplens-ahead") {}

void AheadProcesses::start(const std::string& key, std::vector<ProcessSpec> specs,
                           bool makes_files) {
  if (!site_.start_waiting || entries_.contains(key)) return;
  Entry entry;
  for (ProcessSpec& spec : specs) {
    std::string says = "1";
    if (makes_files) {
      entry.loaded_files.push_back(folder_.path() / fmt::format("loaded-{}", num_started_));
      says = entry.loaded_files.back();
    }
    spec.environment.emplace_back(kStartAheadVariable, says);
    if (!spec.output_file.empty()) {
      spec.output_file = folder_.path() / fmt::format("output-{}", num_started_);
      entry.taken.output_file = spec.output_file;
    }
    ++num_started_;
    auto process = site_.start_waiting(std::move(spec));
    if (!process) return;  // Ranks that wait for one that never comes are no use.
    entry.taken.processes.push_back(std::move(process));
  }
  entries_.emplace(key, std::move(entry));
}

void AheadProcesses::start_worker(const std::string& key, std::vector<ProcessSpec> specs) {
  start(key, std::move(specs), /*makes_files=*/false);
}

void AheadProcesses::start_program(const std::string& key, std::vector<ProcessSpec> specs) {
  start(key, std::move(specs), /*makes_files=*/true);
}

void AheadProcesses::wait_until_loaded() {
  const double start_s = site_.now_s();
  const auto is_loading = [](auto& entry) {
    auto& [taken, loaded_files] = entry.second;
    for (std::size_t i = 0; i < loaded_files.size(); ++i) {
      if (!fs::exists(loaded_files[i]) && taken.processes[i]->is_waiting()) return true;
    }
    return false;
  };
  while (std::ranges::any_of(entries_, is_loading) && site_.now_s() - start_s < kMaxLoadS) {
    if (!site_.sleep_unless_stopped(kPollS)) return;
  }
}

AheadProcesses::Taken AheadProcesses::take(const std::string& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return {};
  Taken taken = std::move(it->second.taken);
  entries_.erase(it);
  const bool all_wait = std::ranges::all_of(
      taken.processes, [](const auto& process) { return process->is_waiting(); });
  return all_wait ? std::move(taken) : Taken{};
}

}  // namespace steplens
