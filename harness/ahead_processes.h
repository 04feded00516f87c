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

  /// Starts `specs`, one process a rank, as what waits for `key`, unless something does already.
  /// Returns at once.
  void start_worker(const std::string& key, std::vector<ProcessSpec> specs);
  void start_program(const std::string& key, std::vector<ProcessSpec> specs);

  /// Returns when each program has made its file or has ended, when a stop is asked for, or after
  /// 120 s.
  void wait_until_loaded();

  /// The processes and where the output goes meanwhile, because the block's folder is not known
  /// before they are taken; empty if no spec named an output file.
  struct Taken {
    std::vector<std::unique_ptr<WaitingProcess>> processes;
    std::filesystem::path output_file;
  };

  /// What waits for `key`; without processes if nothing does, or not all of them do any more: start
  /// them the plain way then.
  Taken take(const std::string& key);

 private:
  struct Entry {
    Taken taken;
    std::vector<std::filesystem::path> loaded_files;  // By process; empty: nobody waits for them.
  };
  void start(const std::string& key, std::vector<ProcessSpec> specs, bool makes_files);

  const RunSite& site_;
  TemporaryFolder folder_;
  int num_started_ = 0;
  std::map<std::string, Entry> entries_;
};

/// Whether a program knows STEPLENS_START_AHEAD: it lies beside the block_protocol.py that does.
bool can_wait(const std::vector<std::string>& command);

}  // namespace steplens
