#include "harness/ranks/rank_progress.h"

#include <fstream>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/block_runner.h"
#include "harness/temporary_folder.h"

namespace steplens {
namespace {

RankReport running(int rank, std::int64_t num_steps, std::int64_t num_collectives) {
  return {.rank = rank,
          .state = RankState::kRunning,
          .num_steps = num_steps,
          .num_collectives = num_collectives,
          .range = "backward"};
}

RankReport with_state(RankReport report, RankState state, std::string reason = "") {
  report.state = state;
  report.reason = std::move(reason);
  return report;
}

// A child that notes two steps and then `ends`.
template <typename End>
RankReport report_of_child(const std::filesystem::path& folder, End end) {
  const pid_t child = ::fork();
  if (child == 0) {
    begin_rank_progress(rank_progress_path(folder, 1));
    note_step_begin();
    note_step_begin();
    note_collective();
    note_range("forward");
    note_range("backward");
    end();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  return read_rank_reports(folder, 2)[1];
}

TEST(RankProgress, OutlivesSigkill) {
  const TemporaryFolder folder;
  const RankReport report = report_of_child(folder.path(), [] { ::raise(SIGKILL); });
  EXPECT_EQ(report.rank, 1);
  EXPECT_EQ(report.state, RankState::kRunning);
  EXPECT_EQ(report.num_steps, 2);
  EXPECT_EQ(report.num_collectives, 1);
  EXPECT_EQ(report.range, "backward");
  EXPECT_GT(report.process_id, 0);
}

TEST(RankProgress, GivesABlockItsReasonWithoutFoldersOfThisMachine) {
  const TemporaryFolder folder;
  report_of_child(folder.path(),
                  [] { note_rank_end(RankState::kFailed, "/home/me/data/x.bin: cannot read"); });
  const ProcessResult process{.end = ProcessEnd::kExited, .exit_code = 3};
  const BlockRecord record =
      judge_ranks({.world_size = 2}, process, folder.path() / "block.json").record;
  EXPECT_NE(record.reason.find("x.bin: cannot read"), std::string::npos) << record.reason;
  EXPECT_EQ(record.reason.find("/home"), std::string::npos) << record.reason;
}

TEST(RankProgress, TellsWhoWasStoppedFromWhoFailed) {
  const TemporaryFolder folder;
  EXPECT_EQ(report_of_child(folder.path(), [] { ::raise(SIGTERM); }).state, RankState::kStopped);
  const RankReport failed =
      report_of_child(folder.path(), [] { note_rank_end(RankState::kFailed, "out of luck"); });
  EXPECT_EQ(failed.state, RankState::kFailed);
  EXPECT_EQ(failed.reason, "out of luck");
}

TEST(RankProgress, IsAbsentWithoutAFileOrWithAnother) {
  const TemporaryFolder folder;
  std::ofstream(rank_progress_path(folder.path(), 0)) << "something else";
  for (const RankReport& report : read_rank_reports(folder.path(), 2)) {
    EXPECT_EQ(report.state, RankState::kAbsent);
  }
}

TEST(BlameInWorld, NamesTheRankThatDiedAndNotThoseThatWereStopped) {
  const std::vector<RankReport> reports = {with_state(running(0, 4, 9), RankState::kStopped),
                                           running(1, 4, 9),
                                           with_state(running(2, 4, 8), RankState::kStopped)};
  EXPECT_EQ(blame_in_world(reports, false), "rank 1 died in step 3, backward");
}

TEST(BlameInWorld, NamesTheRankThatFailedWithItsReason) {
  const std::vector<RankReport> reports = {
      with_state(running(0, 4, 9), RankState::kFailed, std::string(kWaitedForRanks) + "all-reduce"),
      with_state(running(1, 4, 8), RankState::kFailed, "no memory")};
  EXPECT_EQ(blame_in_world(reports, false), "rank 1 failed in step 3, backward: no memory");
}

TEST(BlameInWorld, NamesTheRankThatEnteredTheFewestCollectivesWhenOthersWaited) {
  std::vector<RankReport> reports = {running(0, 4, 9), running(1, 3, 7), running(2, 4, 9)};
  EXPECT_EQ(blame_in_world(reports, true),
            "rank 1 did not go on in step 2, backward, while others waited for it");
  reports[0] = with_state(reports[0], RankState::kFailed, std::string(kWaitedForRanks) + "x");
  reports[1].state = RankState::kStopped;
  EXPECT_EQ(blame_in_world(reports, false),
            "rank 1 did not go on in step 2, backward, while others waited for it");
}

TEST(BlameInWorld, NamesTheOnlyRankThatDidNotSayThatItWaited) {
  std::vector<RankReport> reports = {running(0, 4, 9), running(1, 4, 9)};
  EXPECT_EQ(blame_in_world(reports, true), "no rank went on; rank 0 was in step 3, backward");
  reports[0] = with_state(reports[0], RankState::kFailed, std::string(kWaitedForRanks) + "x");
  reports[1].state = RankState::kStopped;
  EXPECT_EQ(blame_in_world(reports, false),
            "rank 1 did not go on in step 3, backward, while others waited for it");
}

TEST(BlameInWorld, NamesARankThatNeverBeganAndNobodyIfAllAreDone) {
  EXPECT_EQ(blame_in_world({running(0, 0, 0), {.rank = 1}}, true), "rank 1 never began");
  EXPECT_EQ(blame_in_world({with_state(running(0, 1, 1), RankState::kStopped), {.rank = 1}}, false),
            "rank 1 ended before it began");
  EXPECT_EQ(blame_in_world({with_state(running(0, 1, 1), RankState::kDone)}, false), "");
}

}  // namespace
}  // namespace steplens
