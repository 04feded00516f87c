#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/process.h"
#include "harness/run_site.h"
#include "harness/temporary_folder.h"

namespace steplens {

/// Processes that were started before their block and wait for it: what they load is loaded by
/// then. Two ways, by the environment variable STEPLENS_START_AHEAD:
/// - "1": the worker, which is started while the block before it starts, and takes a moment;
/// - a path: a program of scripts/arms, which imports for seconds. It makes that file when it has
///   loaded everything. All of a round are started together before it and waited for, so that
///   nothing loads while something is measured.
/// Both then read the path of their block's config from standard input.
class AheadProcesses {
 public:
  /// `site` must outlive it.
  explicit AheadProcesses(const RunSite& site);

  /// Starts `spec` as what waits for `key`, unless something does already. Returns at once.
  void start_worker(const std::string& key, ProcessSpec spec);
  void start_program(const std::string& key, ProcessSpec spec);

  /// Returns when each program has made its file or has ended, when a stop is asked for, or after
  /// 120 s.
  void wait_until_loaded();

  /// A process and where its output goes meanwhile, because its block's folder is not known
  /// before it is taken; empty if its spec named no output file.
  struct Taken {
    std::unique_ptr<WaitingProcess> process;
    std::filesystem::path output_file;
  };

  /// What waits for `key`; without a process if nothing does (any more): start it the plain way
  /// then.
  Taken take(const std::string& key);

 private:
  struct Entry {
    std::unique_ptr<WaitingProcess> process;
    std::filesystem::path loaded_file;  // Empty: nobody waits for it.
    std::filesystem::path output_file;
  };
  void start(const std::string& key, ProcessSpec spec, Entry entry);

  const RunSite& site_;
  TemporaryFolder folder_;
  int num_started_ = 0;
  std::map<std::string, Entry> entries_;
};

/// Whether a program knows STEPLENS_START_AHEAD: it lies beside the block_protocol.py that does.
bool can_wait(const std::vector<std::string>& command);

}  // namespace steplens
