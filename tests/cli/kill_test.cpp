// Kills the scheduler and the worker with SIGKILL at random points and checks after each kill that
// nothing but the block in flight is lost, and in the end that the bundle is whole.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/cli/cli_world.h"
#include <dirent.h>
#include <gtest/gtest.h>

#include "harness/statistics.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing_support::CliProcess;
using testing_support::CliResult;
using testing_support::CliWorld;
using testing_support::Environment;
using testing_support::eventually;

constexpr int kNumRounds = 5;
constexpr std::size_t kNumBlocks = 3 + 1 + 3 * kNumRounds;  // Pilots, soak, rounds.
// A process under a sanitizer takes several times as long to start.
#ifdef __SANITIZE_ADDRESS__
constexpr int kNumSchedulerKills = 30;
constexpr int kNumWorkerKills = 10;
#else
constexpr int kNumSchedulerKills = 130;
constexpr int kNumWorkerKills = 90;
#endif

void sleep_s(double duration_s) {
  std::this_thread::sleep_for(std::chrono::duration<double>(duration_s));
}

std::set<std::string> published(const CliWorld& world) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& block : fs::directory_iterator(world.bundle() / "blocks", error)) {
    const std::string name = block.path().filename().string();
    if (!name.starts_with(".tmp-")) names.insert(name);
  }
  return names;
}

int num_in_flight(const CliWorld& world) {
  int count = 0;
  std::error_code error;
  for (const auto& block : fs::directory_iterator(world.bundle() / "blocks", error)) {
    count += block.path().filename().string().starts_with(".tmp-") ? 1 : 0;
  }
  return count;
}

// Processes of other programs whose parent is `parent`.
std::vector<int> children_of(int parent) {
  std::vector<int> children;
  std::error_code error;
  const fs::path program =
      fs::read_symlink(fs::path("/proc") / std::to_string(parent) / "exe", error);
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream stream(entry.path() / "stat");
    std::string text;
    std::getline(stream, text);
    const auto end_of_name = text.rfind(')');
    if (end_of_name == std::string::npos) continue;
    std::istringstream rest(text.substr(end_of_name + 1));
    char state = 0;
    int its_parent = 0;
    rest >> state >> its_parent;
    if (its_parent != parent || state == 'Z') continue;
    // LeakSanitizer looks at a process that ends from a child, and hangs if that is killed.
    std::error_code ignored;
    if (fs::read_symlink(entry.path() / "exe", ignored) == program) continue;
    children.push_back(std::stoi(name));
  }
  return children;
}

bool is_running(int pid) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stream, text);
  const auto end_of_name = text.rfind(')');
  return end_of_name != std::string::npos && text.at(end_of_name + 2) != 'Z';
}

// Every listed block is there and is what its hash says.
void expect_sound(const CliWorld& world) {
  for (const BlockEntry& entry : world.manifest().blocks) {
    const fs::path path = block_path(world.bundle(), entry);
    ASSERT_TRUE(fs::exists(path)) << path;
    EXPECT_EQ(sha256_file_hex(path), entry.sha256) << path;
  }
}

void expect_whole(CliWorld& world) {
  const Bundle bundle = open_bundle(world.bundle());
  EXPECT_EQ(bundle.manifest.stop_reason, "planned rounds done");
  EXPECT_TRUE(bundle.manifest.failed_arms.empty()) << bundle.manifest.failed_arms;
  int num_complete = 0;
  for (const RoundRecord& round : bundle.manifest.rounds) {
    num_complete += round.is_complete ? 1 : 0;
    EXPECT_EQ(round.dropped_reason, "");
  }
  EXPECT_EQ(num_complete, kNumRounds);
  std::map<std::pair<std::string, int>, int> num_used;
  for (const BlockEntry& entry : bundle.manifest.blocks) {
    if (entry.kind == BlockKind::kThroughput && entry.status == BlockStatus::kOk &&
        !entry.is_superseded) {
      ++num_used[{entry.arm, entry.round_index}];
    }
  }
  EXPECT_EQ(num_used.size(), 3U * kNumRounds);
  for (const auto& [slot, count] : num_used) EXPECT_EQ(count, 1) << slot.first;
  expect_sound(world);
  EXPECT_EQ(num_in_flight(world), 0);
  EXPECT_FALSE(fs::exists(world.bundle() / ".session.json"));
  const CliResult verified = world.run({"verify", world.bundle().string()});
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
}

TEST(Kill, OfTheSchedulerLosesAtMostTheBlockInFlight) {
  SplitMix64 random(20240601);
  int num_kills = 0;
  for (int bundle = 0; num_kills < kNumSchedulerKills; ++bundle) {
    ASSERT_LT(bundle, 100);
    CliWorld world;
    const Environment slow = {{"STEPLENS_FAKE_SLEEP_MS", "3"}};
    std::set<std::string> before;
    double longest_s = 0.08;  // Grows while a busy machine gets nothing done in that time.
    while (true) {
      const bool has_begun = fs::exists(world.bundle() / "manifest.json");
      CliProcess process =
          has_begun ? world.start({"matrix", "--resume", world.bundle().string()}, slow)
                    : world.start(world.matrix({"--rounds", std::to_string(kNumRounds)}), slow);
      if (num_kills >= kNumSchedulerKills) {
        const CliResult result = process.wait();
        ASSERT_EQ(result.exit_code, 0) << result.err;
        break;
      }
      sleep_s(longest_s * random.uniform());
      std::vector<int> workers = children_of(process.pid());
      process.send(SIGKILL);
      const CliResult result = process.wait();
      if (result.signal != SIGKILL) {  // It was done before.
        ASSERT_EQ(result.exit_code, 0) << result.err;
        break;
      }
      ++num_kills;
      for (const int worker : workers) {
        EXPECT_TRUE(eventually([&] { return !is_running(worker); })) << "an orphan";
      }
      EXPECT_LE(num_in_flight(world), 1);
      const std::set<std::string> after = published(world);
      for (const std::string& name : before)
        EXPECT_TRUE(after.contains(name)) << name << " is lost";
      longest_s = after.size() > before.size() ? 0.08 : longest_s * 1.3;
      before = after;
      if (fs::exists(world.bundle() / "manifest.json")) expect_sound(world);
    }
    // Nothing that was finished ran again: there are as many blocks as without any kill.
    EXPECT_EQ(world.manifest().blocks.size(), kNumBlocks);
    expect_whole(world);
    if (HasFailure()) return;
  }
  EXPECT_EQ(num_kills, kNumSchedulerKills);
}

std::size_t num_good_blocks(const CliWorld& world) {
  if (!fs::exists(world.bundle() / "manifest.json")) return 0;
  const std::vector<BlockEntry> blocks = world.manifest().blocks;
  return static_cast<std::size_t>(
      std::ranges::count(blocks, BlockStatus::kOk, &BlockEntry::status));
}

TEST(Kill, OfTheWorkerCostsOneRepetition) {
  SplitMix64 random(20240602);
  int num_kills = 0;
  for (int bundle = 0; num_kills < kNumWorkerKills; ++bundle) {
    ASSERT_LT(bundle, 100);
    CliWorld world;
    CliProcess process = world.start(world.matrix({"--rounds", std::to_string(kNumRounds)}),
                                     {{"STEPLENS_FAKE_SLEEP_MS", "10"}});
    std::optional<CliResult> result;
    std::size_t num_good = 0;
    while (!(result = process.poll())) {
      sleep_s(0.03 * random.uniform());
      // The same slot must not be hit twice: that would rightly be the end of its arm.
      if (num_good_blocks(world) <= num_good && num_good > 0) continue;
      const std::vector<int> workers = children_of(process.pid());
      if (workers.empty()) continue;
      num_good = num_good_blocks(world);
      if (num_good == 0) continue;
      ::kill(workers.front(), SIGKILL);
      ++num_kills;
    }
    ASSERT_EQ(result->exit_code, 0) << result->err;
    expect_whole(world);
    for (const BlockRecord& block : open_bundle(world.bundle()).blocks) {
      if (block.status == BlockStatus::kOk) continue;
      EXPECT_EQ(block.status, BlockStatus::kCrash);
      EXPECT_NE(block.reason.find("SIGKILL"), std::string::npos) << block.reason;
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace steplens
