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

void AheadProcesses::start(const std::string& key, ProcessSpec spec, Entry entry) {
  if (!site_.start_waiting || entries_.contains(key)) return;
  if (!spec.output_file.empty()) {
    spec.output_file = folder_.path() / fmt::format("output-{}", num_started_++);
    entry.output_file = spec.output_file;
  }
  entry.process = site_.start_waiting(std::move(spec));
  if (entry.process) entries_.emplace(key, std::move(entry));
}

void AheadProcesses::start_worker(const std::string& key, ProcessSpec spec) {
  spec.environment.emplace_back(kStartAheadVariable, "1");
  start(key, std::move(spec), {});
}

void AheadProcesses::start_program(const std::string& key, ProcessSpec spec) {
  Entry entry{.loaded_file = folder_.path() / fmt::format("loaded-{}", num_started_++)};
  spec.environment.emplace_back(kStartAheadVariable, entry.loaded_file.string());
  start(key, std::move(spec), std::move(entry));
}

void AheadProcesses::wait_until_loaded() {
  const double start_s = site_.now_s();
  const auto is_loading = [](auto& entry) {
    auto& [process, loaded_file, output_file] = entry.second;
    return !loaded_file.empty() && !fs::exists(loaded_file) && process->is_waiting();
  };
  while (std::ranges::any_of(entries_, is_loading) && site_.now_s() - start_s < kMaxLoadS) {
    if (!site_.sleep_unless_stopped(kPollS)) return;
  }
}

AheadProcesses::Taken AheadProcesses::take(const std::string& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return {};
  Taken taken{.process = std::move(it->second.process),
              .output_file = std::move(it->second.output_file)};
  entries_.erase(it);
  if (!taken.process->is_waiting()) return {};
  return taken;
}

}  // namespace steplens
