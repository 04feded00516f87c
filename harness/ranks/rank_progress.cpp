#include "harness/ranks/rank_progress.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/error.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMagic = 0x31307373656c7073;  // "spless01" and a version.

// As it lies in the file. A reader may see a range's name half replaced: it is only shown.
struct Page {
  std::uint64_t magic;
  std::atomic<std::uint32_t> state;
  std::int32_t process_id;
  std::atomic<std::int64_t> num_steps;
  std::atomic<std::int64_t> num_collectives;
  char range[64];
  char reason[400];
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::atomic<Page*> our_page{nullptr};

template <std::size_t N>
void copy_text(char (&target)[N], std::string_view text) {
  const std::size_t count = std::min(text.size(), N - 1);
  std::ranges::copy(text.substr(0, count), target);
  target[count] = '\0';
}

template <std::size_t N>
std::string text_of(const char (&source)[N]) {
  return {source, ::strnlen(source, N)};
}

extern "C" void on_terminate(int /*signal*/) {
  Page* page = our_page.load();
  std::uint32_t running = static_cast<std::uint32_t>(RankState::kRunning);
  if (page != nullptr) {
    page->state.compare_exchange_strong(running, static_cast<std::uint32_t>(RankState::kStopped));
  }
  ::_exit(143);
}

RankReport read_report(const fs::path& path, int rank) {
  RankReport report{.rank = rank};
  Page page{};
  std::ifstream stream(path, std::ios::binary);
  if (!stream.read(reinterpret_cast<char*>(&page), sizeof page) || page.magic != kMagic) {
    return report;
  }
  const std::uint32_t state = page.state.load();
  if (state > static_cast<std::uint32_t>(RankState::kStopped)) return report;
  report.state = static_cast<RankState>(state);
  report.process_id = page.process_id;
  report.num_steps = page.num_steps.load();
  report.num_collectives = page.num_collectives.load();
  report.range = text_of(page.range);
  report.reason = text_of(page.reason);
  return report;
}

std::string place_of(const RankReport& report) {
  if (report.num_steps == 0) return "before its first step";
  return fmt::format("in step {}{}{}", report.num_steps - 1, report.range.empty() ? "" : ", ",
                     report.range);
}

}  // namespace

fs::path rank_progress_path(const fs::path& folder, int rank) {
  return folder / fmt::format("rank{}.progress", rank);
}

void begin_rank_progress(const fs::path& path) {
  const auto fail = [&](const char* call) {
    throw ConfigError(fmt::format("{}: cannot be written: {}: {}", path.string(), call,
                                  std::error_code(errno, std::generic_category()).message()));
  };
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail("open");
  // Space now: a store into a hole of a full disk would kill the process.
  const int error = ::posix_fallocate(fd, 0, sizeof(Page));
  if (error != 0) {
    ::close(fd);
    errno = error;
    fail("posix_fallocate");
  }
  void* memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) fail("mmap");
  Page* page = new (memory) Page{};
  page->state = static_cast<std::uint32_t>(RankState::kRunning);
  page->process_id = ::getpid();
  page->magic = kMagic;
  our_page = page;
  struct sigaction action{};
  action.sa_handler = on_terminate;
  ::sigaction(SIGTERM, &action, nullptr);
}

void note_step_begin() {
  if (Page* page = our_page.load(std::memory_order_relaxed)) ++page->num_steps;
}

void note_range(const char* name) {
  Page* page = our_page.load(std::memory_order_relaxed);
  if (page != nullptr) copy_text(page->range, name);
}

void note_collective() {
  if (Page* page = our_page.load(std::memory_order_relaxed)) ++page->num_collectives;
}

void note_rank_end(RankState state, std::string_view reason) {
  Page* page = our_page.load();
  if (page == nullptr) return;
  copy_text(page->reason, reason);
  page->state = static_cast<std::uint32_t>(state);
}

std::vector<RankReport> read_rank_reports(const fs::path& folder, int world_size) {
  std::vector<RankReport> reports;
  reports.reserve(static_cast<std::size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    reports.push_back(read_report(rank_progress_path(folder, rank), rank));
  }
  return reports;
}

std::string blame_in_world(const std::vector<RankReport>& reports, bool is_timeout) {
  const auto is_waiter = [](const RankReport& report) {
    return report.state == RankState::kFailed && report.reason.starts_with(kWaitedForRanks);
  };
  for (const RankReport& report : reports) {
    if (report.state != RankState::kFailed || is_waiter(report)) continue;
    return fmt::format("rank {} failed {}: {}", report.rank, place_of(report), report.reason);
  }
  std::vector<const RankReport*> open;
  for (const RankReport& report : reports) {
    if (report.state == RankState::kAbsent || report.state == RankState::kRunning) {
      open.push_back(&report);
    }
  }
  const bool has_waiter = std::ranges::any_of(reports, is_waiter);
  if (!is_timeout && !has_waiter) {
    // Whoever was stopped said so: the others died.
    if (open.empty()) return "";
    const RankReport& report = *open.front();
    return report.state == RankState::kAbsent
               ? fmt::format("rank {} ended before it began", report.rank)
               : fmt::format("rank {} died {}", report.rank, place_of(report));
  }
  // All that were still there when somebody's patience ended; one that is behind holds up the rest.
  const RankReport* behind = nullptr;
  int num_silent = 0;  // Ranks that neither ended nor said that they waited.
  for (const RankReport& report : reports) {
    if (report.state == RankState::kDone || is_waiter(report)) continue;
    if (report.state == RankState::kAbsent) {
      return fmt::format("rank {} never began", report.rank);
    }
    ++num_silent;
    if (behind == nullptr || report.num_collectives < behind->num_collectives) behind = &report;
  }
  if (behind == nullptr) return "";
  const auto most = std::ranges::max(reports, {}, &RankReport::num_collectives).num_collectives;
  // One that stopped inside of a collective has entered as many as those that wait in it.
  const bool is_alone = has_waiter && num_silent == 1;
  return behind->num_collectives < most || is_alone
             ? fmt::format("rank {} did not go on {}, while others waited for it", behind->rank,
                           place_of(*behind))
             : fmt::format("no rank went on; rank {} was {}", behind->rank, place_of(*behind));
}

}  // namespace steplens
