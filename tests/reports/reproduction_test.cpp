#include "reports/reproduction.h"

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "reports/history.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

BundleBuilder two_arms(const std::vector<std::int64_t>& fused, double speed = 1) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  const EightRounds steps;
  const auto scaled = [&](std::vector<std::int64_t> values) {
    for (std::int64_t& value : values)
      value = static_cast<std::int64_t>(static_cast<double>(value) / speed);
    return values;
  };
  builder.add_rounds({{"baseline", scaled(steps.base)}, {"optimizer=fused", scaled(fused)}});
  return builder;
}

const ReproducedArm& arm_of(const Reproduction& reproduction, std::string_view name) {
  for (const ReproducedArm& arm : reproduction.arms) {
    if (arm.name == name) return arm;
  }
  throw std::out_of_range(std::string(name));
}

TEST(CompareReproduction, AgreesWhereIntervalsOverlapWhateverTheRates) {
  const EightRounds steps;
  // Half as fast a machine: the same 3 %.
  const Reproduction reproduction =
      compare_reproduction(two_arms(steps.fast).bundle(), two_arms(steps.fast, 0.5).bundle());
  EXPECT_TRUE(reproduction.is_reproduced());
  const ReproducedArm& arm = arm_of(reproduction, "optimizer=fused");
  EXPECT_EQ(arm.agreement, Agreement::kAgrees);
  EXPECT_NEAR(*arm.original_rate_per_s / *arm.copy_rate_per_s, 2, 1e-5);
  EXPECT_EQ(arm_of(reproduction, "baseline").agreement, Agreement::kNotCompared);
  EXPECT_THAT(reproduction_text(reproduction), HasSubstr("Reproduced: 1 of 1 effects agree"));
}

TEST(CompareReproduction, DiffersWhereIntervalsDoNotOverlap) {
  const EightRounds steps;
  const Reproduction reproduction =
      compare_reproduction(two_arms(steps.fast).bundle(), two_arms(steps.same).bundle());
  EXPECT_FALSE(reproduction.is_reproduced());
  EXPECT_EQ(arm_of(reproduction, "optimizer=fused").agreement, Agreement::kDiffers);
  EXPECT_THAT(reproduction_text(reproduction), HasSubstr("NOT REPRODUCED: 0 of 1"));
  const nlohmann::json json = to_json(reproduction);
  EXPECT_EQ(json["arms"][1]["agreement"], "differs");
  EXPECT_EQ(json["is_reproduced"], false);
}

TEST(CompareReproduction, SaysWhyAnArmIsNotCompared) {
  const EightRounds steps;
  BundleBuilder failing = two_arms(steps.fast);
  failing.manifest().failed_arms["optimizer=fused"] = "crashed twice";
  for (int round = 0; round < 8; ++round) {
    failing.block("optimizer=fused", round).status = BlockStatus::kCrash;
  }
  const Reproduction reproduction =
      compare_reproduction(two_arms(steps.fast).bundle(), failing.bundle());
  EXPECT_EQ(arm_of(reproduction, "optimizer=fused").agreement, Agreement::kNotCompared);
  EXPECT_THAT(arm_of(reproduction, "optimizer=fused").reason, HasSubstr("here: crashed twice"));
  EXPECT_FALSE(reproduction.is_reproduced()) << "nothing was compared";

  BundleBuilder other;
  other.add_arm("attention", "math");
  other.add_rounds({{"baseline", steps.base}, {"attention=math", steps.base}});
  EXPECT_EQ(
      arm_of(compare_reproduction(two_arms(steps.fast).bundle(), other.bundle()), "optimizer=fused")
          .reason,
      "the copy does not have it");
}

TEST(CompareReproduction, NamesWhatDiffersAndNotWhatNamesTheRun) {
  const EightRounds steps;
  BundleBuilder original = two_arms(steps.fast);
  BundleBuilder copy = two_arms(steps.fast);
  original.manifest().environment = {
      {"gpu", {{"name", "NVIDIA H200"}, {"uuid", "GPU-1"}, {"driver_version", "580"}}}};
  copy.manifest().environment = {
      {"gpu", {{"name", "NVIDIA H200"}, {"uuid", "GPU-2"}, {"driver_version", "570"}}}};
  original.manifest().data = {{"sha256", "abc"}};
  copy.manifest().data = {{"sha256", "def"}};
  copy.manifest().created_utc = "2027-01-02T03:04:05.000Z";
  EXPECT_THAT(
      compare_reproduction(original.bundle(), copy.bundle()).differences,
      ElementsAre("gpu.driver_version: 580 there, 570 here", "data.sha256: abc there, def here"));
  EXPECT_THAT(compare_reproduction(original.bundle(), original.bundle()).differences, IsEmpty());
}

// ---- History. ----

TEST(HistoryOf, OrdersBundlesByTimeAndSaysWhatChanged) {
  const EightRounds steps;
  const TemporaryFolder folder;
  BundleBuilder late = two_arms(steps.same);
  late.manifest().created_utc = "2026-03-01T00:00:00.000Z";
  late.write(folder.path() / "a-late");
  two_arms(steps.fast).write(folder.path() / "nightly" / "early");
  const History history = history_of(folder.path());
  EXPECT_EQ(history.num_bundles, 2);
  ASSERT_THAT(history.rows, SizeIs(4));
  EXPECT_EQ(history.rows[2].arm, "optimizer=fused");
  EXPECT_EQ(history.rows[2].bundle, "nightly/early");
  EXPECT_FALSE(history.rows[2].has_changed);
  EXPECT_EQ(history.rows[3].bundle, "a-late");
  EXPECT_TRUE(history.rows[3].has_changed) << "from +3 % to none";
  const Table table = history_table(history);
  EXPECT_EQ(table.rows[3].back(), "CHANGED");
  EXPECT_EQ(to_json(history)["rows"][3]["has_changed"], true);
  const std::string svg = history_svg(history);
  EXPECT_THAT(svg, HasSubstr("optimizer=fused (nano on cpu)"));
  EXPECT_THAT(svg, HasSubstr("2026-03-01 a-late"));
}

TEST(HistoryOf, LeavesOutWhatItCannotRead) {
  const EightRounds steps;
  const TemporaryFolder folder;
  two_arms(steps.fast).write(folder.path() / "good");
  fs::create_directories(folder.path() / "bad");
  write_file_atomically(folder.path() / "bad" / "manifest.json", "{");
  const History history = history_of(folder.path());
  EXPECT_EQ(history.num_bundles, 1);
  EXPECT_THAT(history.unreadable, ElementsAre(HasSubstr("bad: ")));
  EXPECT_EQ(history_verb({.folder = folder.path(), .is_json = true}), 1);
  EXPECT_THROW(history_of(folder.path() / "none"), ConfigError);
  fs::create_directories(folder.path() / "empty");
  EXPECT_THROW(history_of(folder.path() / "empty"), ConfigError);
}

}  // namespace
}  // namespace steplens
