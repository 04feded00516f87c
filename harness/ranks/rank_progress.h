#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace steplens {

/// What a rank of a block said last of itself.
enum class RankState : std::uint32_t {
  kAbsent,   // Nothing: it never began.
  kRunning,  // Or it died without a word, if its process is gone.
  kDone,
  kFailed,   // It ended by itself with an error.
  kStopped,  // Somebody stopped it by SIGTERM: no fault of its own.
};

/// A rank's progress, read after its end or while it runs.
struct RankReport {
  int rank = 0;
  RankState state = RankState::kAbsent;
  int process_id = 0;
  std::int64_t num_steps = 0;        // Begun, warm-up included.
  std::int64_t num_collectives = 0;  // Entered.
  std::string range;                 // The last one that it opened: "backward".
  std::string reason;                // If it failed.
};

/// From here on this process notes what it does in a page of memory that `path` keeps: it can be
/// read after any end, SIGKILL included, and costs a store a note. Once a process. ConfigError if
/// the file cannot be made. SIGTERM then notes kStopped and ends the process with code 143.
void begin_rank_progress(const std::filesystem::path& path);

/// No-ops, any thread, unless this process has begun to note its progress.
void note_step_begin();
void note_range(const char* name);
void note_collective();
void note_rank_end(RankState state, std::string_view reason = "");

/// `folder`/rank3.progress.
std::filesystem::path rank_progress_path(const std::filesystem::path& folder, int rank);

/// One report a rank, in rank order; a file that is missing or no progress is kAbsent.
std::vector<RankReport> read_rank_reports(const std::filesystem::path& folder, int world_size);

/// Who broke a world that ended early, or is stuck, and where:
/// "rank 1 died in step 3, backward". Of ranks that failed the one named is the first that did not
/// merely wait for others; of ranks that hang it is the one that entered the fewest collectives, or
/// the only one that did not say that it waited. Empty if all are done.
std::string blame_in_world(const std::vector<RankReport>& reports, bool is_timeout);

/// What the reason of a rank begins with that gave up waiting for the others.
inline constexpr std::string_view kWaitedForRanks = "waited for the other ranks: ";

}  // namespace steplens
