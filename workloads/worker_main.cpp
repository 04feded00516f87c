// steplens-worker: runs one block, as told by the JSON file named in STEPLENS_BLOCK_CONFIG, and
// writes block.json into the block's folder. Composition root: the workload and the samplers meet
// here.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "harness/block.h"
#include "harness/build_info.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/ranks/launch.h"
#include "harness/ranks/rank_place.h"
#include "harness/ranks/rank_progress.h"
#include "harness/trace/merge_ranks.h"
#include "harness/trace/trace_reader.h"
#include "harness/trace/trace_request.h"
#include "harness/trace/trace_writer.h"
#include "profilers/block_sampler.h"
#include "profilers/trace/counter_tracks.h"
#include "reports/breakdown/breakdown.h"
#include "reports/counters/counter_use.h"
#include "reports/format.h"
#include "reports/memory/memory_account.h"
#include "reports/trace_evidence.h"
#include "workloads/run_block.h"

namespace {

constexpr std::string_view kHelp =
    "steplens-worker: runs one block of a matrix in a fresh process.\n"
    "\n"
    "`steplens matrix` starts it; to run one by hand:\n"
    "  STEPLENS_BLOCK_CONFIG=block_config.json steplens-worker\n"
    "of a block for several ranks, under torchrun, mpirun or srun:\n"
    "  mpirun -n 2 -x STEPLENS_BLOCK_CONFIG=block_config.json steplens-worker\n"
    "writes block.json into the config's output_folder. `steplens run --help` makes such a "
    "config.\n"
    "\n"
    "Exit codes: 0 a block.json was written, whatever its status; 2 the config or data is wrong;\n"
    "3 the device failed.\n";

// Started ahead, with all libraries loaded by now, it waits here for the path of its block's
// config; nothing has touched the GPU yet. False if the scheduler ended instead.
bool wait_for_block() {
  if (std::getenv("STEPLENS_START_AHEAD") == nullptr) return true;
  std::string path;
  if (!std::getline(std::cin, path)) return false;
  ::setenv("STEPLENS_BLOCK_CONFIG", path.c_str(), 1);
  return true;
}

// A traced block: libsteplens_inject.so records it, and both CUDA and NVTX look for that library in
// the environment when they are first used, so it is told before.
class TracedBlock {
 public:
  explicit TracedBlock(const steplens::BlockConfig& block) : block_(block) {
    using namespace steplens;
    if (!is_recorded()) return;
    const auto library = find_inject_library();
    if (!library) {
      throw DeviceError("cannot trace: ../lib/libsteplens_inject.so is not beside this program");
    }
    library_ = *library;
    const bool is_pilot = block.kind == BlockKind::kPilot;
    const TraceRequest request{
        .path = path(),
        .kind = trace_kind(),
        // A pilot ends when it has found the warm-up: nobody knows how many steps it will take.
        .first_step = is_pilot ? 0 : block.num_warmup_steps,
        .num_steps = is_pilot ? 1 : block.num_measured_steps,
        .is_ended_by_call = !is_pilot,
        .info = {{"arm", block.arm}, {"config", to_json(block.config)}, {"rank", block.rank}}};
    for (const auto& [name, value] : environment_for(request, library_)) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }

  // Ends the window of a block of a fixed number of steps, and writes the trace.
  void end_window() const {
    if (is_recorded()) finish_recording();  // A failure is told once more by `finish`.
  }

  // Ends the trace and adds to the record what it shows.
  void finish(steplens::BlockRecord& record) const {
    using namespace steplens;
    if (!is_recorded() || record.status != BlockStatus::kOk) return;
    const std::string failure = finish_recording();
    if (!failure.empty()) {
      record.status = BlockStatus::kCrash;
      record.reason = fmt::format("no trace: {}", failure);
      return;
    }
    Trace trace = read_trace(path());
    if (!is_traced(block_.kind)) {
      // Only what recording costs was asked for.
      record.evidence["counters"]["traced_kernels"] = trace.gpu_ops.size();
      record.evidence["counters"]["trace_slabs"] = trace.quality[std::string(quality::kPeakSlabs)];
      std::filesystem::remove(path());
      return;
    }
    if (block_.kind == BlockKind::kCounters) {
      record.evidence["hardware_counters"] = to_json(summarize_counters(trace));
      const auto reason = trace.info.find("counters_absent_reason");
      if (reason != trace.info.end()) record.evidence["counters_absent_reason"] = *reason;
    }
    for (const std::string_view key : {kClockOffsetKey, kClockUncertaintyKey}) {
      const std::string name(key);
      if (record.evidence.contains(name)) trace.info[name] = record.evidence[name];
    }
    add_counter_tracks(record.samples, trace);
    write_trace(path(), trace);
    const Breakdown breakdown = compute_breakdown(trace);
    const auto coverage = breakdown.coverage_ratio();
    record.evidence["trace_counters"] = trace_counters(trace);
    record.evidence["trace"] = {
        {"sha256", sha256_file_hex(path())},
        {"bytes", std::filesystem::file_size(path())},
        {"num_operations", trace.gpu_ops.size()},
        {"num_steps", trace.steps.size()},
        {"mean_step_ns", breakdown.mean_step_ns()},
        {"coverage_ratio", coverage ? nlohmann::json(*coverage) : nlohmann::json(nullptr)},
        {"has_lost_data", breakdown.has_lost_data},
        {"quality", trace.quality}};
    if (trace.info.contains("cuda_absent_reason") && block_.config.device == Device::kCuda) {
      record.status = BlockStatus::kUnsupported;
      record.reason = trace.info["cuda_absent_reason"].get<std::string>();
    }
  }

 private:
  bool is_recorded() const {
    return steplens::is_traced(block_.kind) || block_.config.tracing != steplens::Tracing::kOff;
  }

  steplens::TraceKind trace_kind() const {
    using namespace steplens;
    if (is_traced(block_.kind)) return trace_kind_from_name(name_of(block_.kind));
    return block_.config.tracing == Tracing::kNull ? TraceKind::kNull : TraceKind::kTrace;
  }

  std::filesystem::path path() const {
    return block_.output_folder / (block_.rank == 0 ? std::string(steplens::kTraceFileName)
                                                    : fmt::format("trace.rank{}.slt", block_.rank));
  }

  std::string finish_recording() const {
    void* library = ::dlopen(library_.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return "neither CUDA nor NVTX loaded libsteplens_inject.so";
    const auto finish =
        reinterpret_cast<const char* (*)()>(::dlsym(library, "steplens_inject_finish"));
    if (finish == nullptr) return "libsteplens_inject.so is of another version";
    const char* failure = finish();
    return failure == nullptr ? "" : failure;
  }

  const steplens::BlockConfig& block_;
  std::filesystem::path library_;
};

// Of a block without an account the reason says at least what the training step keeps.
void explain_out_of_memory(steplens::BlockRecord& record) {
  using namespace steplens;
  const auto kept = record.evidence.find("kept_bytes");
  if (record.status != BlockStatus::kOom || kept == record.evidence.end() ||
      record.evidence.contains("memory_account")) {
    return;
  }
  const auto text = [&](const char* owner) {
    return format_bytes(static_cast<double>(kept->at(owner).get<std::int64_t>()));
  };
  record.reason += fmt::format(
      "; live were parameters {}, gradients {}, optimizer state {}; the rest are activations and "
      "workspace",
      text("parameters"), text("gradients"), text("optimizer_state"));
}

// A memory block has written its trace itself: adds to the record what it shows. Of one that ran
// out of memory the reason then says what was live.
void finish_memory(const steplens::BlockConfig& block, steplens::BlockRecord& record) {
  using namespace steplens;
  if (block.kind != BlockKind::kMemory) return;
  const std::filesystem::path path =
      block.output_folder /
      (block.rank == 0 ? std::string(kTraceFileName) : fmt::format("trace.rank{}.slt", block.rank));
  if (!std::filesystem::exists(path)) return;
  const Trace trace = read_trace(path);
  const MemoryUse use = compute_memory_use(trace);
  record.evidence["memory_account"] = to_json(use);
  record.evidence["memory_account"]["allocator_peak_bytes"] =
      record.memory.value("peak_allocated_bytes", nlohmann::json(nullptr));
  record.evidence["trace"] = {{"sha256", sha256_file_hex(path)},
                              {"bytes", std::filesystem::file_size(path)},
                              {"num_steps", trace.steps.size()},
                              {"has_lost_data", use.has_lost_data},
                              {"quality", trace.quality}};
  if (record.status == BlockStatus::kOom && use.out_of_memory) {
    const MemoryAccount& account = use.out_of_memory->account;
    record.reason +=
        fmt::format("; {} more were wanted in {}{}{} when {} were allocated: {}",
                    format_bytes(static_cast<double>(use.out_of_memory->wanted_bytes)),
                    account.phase == Phase::kNone ? "no phase" : name_of(account.phase),
                    account.module.empty() ? "" : ", ", account.module,
                    format_bytes(static_cast<double>(account.allocated_bytes())),
                    owners_text(account.by_owner));
  }
}

// Which GPU is this rank's, before CUDA is first used. Steplens's own launcher has shown it only
// that one; others show all of the host's to each rank.
void choose_gpu(steplens::BlockConfig& block, const steplens::RankPlace& place) {
  if (block.config.device != steplens::Device::kCuda) return;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (std::getenv(steplens::kOwnLauncherVariable) != nullptr && visible != nullptr) {
    block.device_id = visible;
    return;
  }
  std::string own = std::to_string(place.local_rank);
  if (visible != nullptr) {
    std::istringstream list(visible);
    for (int i = 0; i <= place.local_rank; ++i) {
      if (!std::getline(list, own, ',')) {
        throw steplens::ConfigError(
            fmt::format("CUDA_VISIBLE_DEVICES={}: local rank {} has no GPU; NCCL takes one a rank",
                        visible, place.local_rank));
      }
    }
  }
  ::setenv("CUDA_VISIBLE_DEVICES", own.c_str(), 1);
  block.device_id.clear();
}

// Takes its place among the ranks of a block. From then on its progress can be read from outside.
steplens::RankPlace become_rank(steplens::BlockConfig& block) {
  using namespace steplens;
  const RankPlace place =
      place_in_block([](const char* name) { return std::getenv(name); }, block.world_size);
  if (block.world_size == 1) return place;
  if (std::getenv(kOwnLauncherVariable) != nullptr) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == 1) std::_Exit(1);  // The launcher died before that.
  }
  block.rank = place.rank;
  begin_rank_progress(rank_progress_path(block.output_folder, block.rank));
  choose_gpu(block, place);
  return place;
}

// Ends a rank that failed by itself: the others wait for it, and so would a clean end.
void end_failed_rank(const steplens::BlockConfig& block, const steplens::BlockRecord& record) {
  using namespace steplens;
  if (block.world_size == 1) return;
  if (record.status != BlockStatus::kCrash && record.status != BlockStatus::kOom) {
    note_rank_end(RankState::kDone);
    return;
  }
  note_rank_end(RankState::kFailed, record.reason);
  std::fprintf(stderr, "steplens-worker: rank %d: %s\n", block.rank, record.reason.c_str());
  std::fflush(nullptr);
  std::_Exit(3);
}

int run() {
  using namespace steplens;
  if (!wait_for_block()) return 0;
  BlockConfig block = block_config_from_environment();
  const RankPlace place = become_rank(block);
  const TracedBlock traced(block);
  const std::string gpu = block.config.device == Device::kCuda ? block.device_id : "";
  const auto sampler = make_block_sampler(gpu);
  BlockRecord record = run_block(block, *sampler, [&] { traced.end_window(); }, place);
  if (record.status == BlockStatus::kOk && is_throttled_by_hardware(record.samples)) {
    record.status = BlockStatus::kInvalid;
    record.reason = "the hardware slowed the GPU down during the measured steps";
  }
  traced.finish(record);
  finish_memory(block, record);
  explain_out_of_memory(record);
  const BuildInfo& build = build_info();
  record.environment["steplens_git_sha"] = build.git_sha;
  const std::string name =
      block.rank == 0 ? "block.json" : fmt::format("block.rank{}.json", block.rank);
  write_json_atomically(block.output_folder / name, to_json(record));
  end_failed_rank(block, record);
  return 0;
}

int fail(const char* reason, int exit_code) {
  std::fprintf(stderr, "steplens-worker: %s\n", reason);
  steplens::note_rank_end(steplens::RankState::kFailed, reason);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const std::string_view flag = argv[1];
    std::fputs(kHelp.data(), flag == "--help" || flag == "-h" ? stdout : stderr);
    return flag == "--help" || flag == "-h" ? 0 : 2;
  }
  try {
    return run();
  } catch (const steplens::ConfigError& error) {
    return fail(error.what(), 2);
  } catch (const steplens::DeviceError& error) {
    return fail(error.what(), 3);
  } catch (const std::exception& error) {
    return fail(error.what(), 3);
  }
}
