#include "harness/package_export.h"

#include "tests/harness/scheduler_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using namespace testing_support;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kExport = "/opt/export_step.py";

// A world in which `process` answers the export and blocks run as ever.
struct ExportWorld : FakeWorld {
  ProcessResult process{.end = ProcessEnd::kExited, .wall_s = 93.2, .last_lines = {"x", ""}};
  std::vector<BlockConfig> exported;
  std::string (*name_of)(const RunConfig& config) = nullptr;

  RunOutcome start_with_export(RunConfig baseline, std::string_view toggles,
                               bool is_resume = false) {
    const Plan plan = make_plan({.baseline = std::move(baseline),
                                 .toggles = parse_toggle_choices(toggles),
                                 .num_rounds = 2},
                                vocabulary());
    RunSite here = site();
    here.run_process = [this, run = here.run_process](const ProcessSpec& spec,
                                                      const auto& stop_request) {
      if (spec.command != std::vector<std::string>{kExport}) return run(spec, stop_request);
      EXPECT_EQ(spec.environment.front().first, "STEPLENS_BLOCK_CONFIG");
      exported.push_back(block_config_from_json(read_json(spec.environment.front().second)));
      return process;
    };
    RunOptions run_options = options(is_resume);
    stop = StopRequest::kNone;
    run_options.package_export = {.command = {kExport}, .name_of = name_of};
    Progress progress(output, false, false);
    return run_plan(plan, run_options, here, progress);
  }
};

TEST(ExportPackages, RunsOnceForEachArmThatNeedsOneBeforeTheFirstBlock) {
  ExportWorld world;
  world.answer = [&](const BlockConfig&, int) {
    EXPECT_EQ(world.exported.size(), 1U);
    return FakeBlock{};
  };
  EXPECT_EQ(world.start_with_export(cpu_baseline(), "attention=math,compile=aoti").end,
            RunEnd::kDone);
  ASSERT_EQ(world.exported.size(), 1U);
  EXPECT_EQ(world.exported.front().config.compile, Compile::kAoti);
  EXPECT_THAT(world.open().manifest.notes,
              Contains(AllOf(HasSubstr("compile=aoti"), HasSubstr("93.2 s (x)"))));
  // The export's time is no block's time: nothing of it lies in the bundle's blocks.
  for (const BlockEntry& entry : world.open().manifest.blocks) EXPECT_LT(entry.duration_s, 93);
}

TEST(ExportPackages, ARunThatGoesOnNotesOnlyWhatWasMadeAnew) {
  ExportWorld world;
  const auto num_notes = [&] {
    return std::ranges::count_if(world.open().manifest.notes, [](const std::string& note) {
      return note.find("was made sure of") != std::string::npos;
    });
  };
  interrupt_block(world, 3);
  EXPECT_EQ(world.start_with_export(cpu_baseline(), "compile=aoti").end, RunEnd::kInterrupted);
  EXPECT_EQ(num_notes(), 1);
  interrupt_block(world, 5);
  world.process.last_lines = {"name: there already"};
  const auto go_on = [&] {
    return world.start_with_export(cpu_baseline(), "compile=aoti", true).end;
  };
  EXPECT_EQ(go_on(), RunEnd::kInterrupted);
  EXPECT_EQ(num_notes(), 1) << "found again";
  world.answer = [](const BlockConfig&, int) { return FakeBlock{}; };
  world.process.last_lines = {"name: exported in 80.1 s"};
  EXPECT_EQ(go_on(), RunEnd::kDone);
  EXPECT_EQ(num_notes(), 2) << "made anew";
}

// What was noted once is not noted again by these words of the script.
TEST(ExportPackages, TheScriptSaysThereAlready) {
  EXPECT_THAT(read_file(STEPLENS_SOURCE_DIR "/scripts/arms/export_step.py"),
              HasSubstr("return f\"{name}: there already\""));
}

TEST(ExportPackages, ArmWithoutPackageIsNotAvailableAndTheRestGoesOn) {
  ExportWorld world;
  world.process.exit_code = 4;
  world.process.last_lines = {"warning", "this Python has no package triton"};
  EXPECT_EQ(world.start_with_export(cpu_baseline(), "attention=math,compile=aoti").end,
            RunEnd::kDone);
  const Manifest manifest = world.open().manifest;
  EXPECT_EQ(manifest.failed_arms.at("compile=aoti"),
            "not available: this Python has no package triton");
  EXPECT_FALSE(manifest.failed_arms.contains("attention=math"));
  for (const BlockConfig& block : world.ran) EXPECT_EQ(block.config.compile, Compile::kOff);
}

// One package for each attention, whatever the rest of the config says.
std::string name_by_attention(const RunConfig& config) {
  return std::string(name_of(config.attention));
}

RunConfig compiled_baseline() {
  RunConfig baseline = cpu_baseline();
  baseline.compile = Compile::kAoti;
  return baseline;
}

TEST(ExportPackages, ArmsThatShareAPackageAskForItOnce) {
  ExportWorld world;
  world.name_of = name_by_attention;
  EXPECT_EQ(world.start_with_export(compiled_baseline(), "attention=math,optimizer=loop").end,
            RunEnd::kDone);
  ASSERT_EQ(world.exported.size(), 2U);
  EXPECT_EQ(world.exported[0].arm, "baseline");
  EXPECT_EQ(world.exported[1].arm, "attention=math");
  EXPECT_THAT(world.open().manifest.notes,
              Contains(HasSubstr("package of baseline and 1 more arm was made sure of in 93.2 s")));
}

TEST(ExportPackages, APackageThatCannotBeMadeFailsEveryArmThatSharesIt) {
  ExportWorld world;
  world.name_of = name_by_attention;
  world.process.exit_code = 4;
  world.process.last_lines = {"PyTorch finds no GPU here"};
  const RunOutcome outcome =
      world.start_with_export(compiled_baseline(), "optimizer=loop,compile=off");
  EXPECT_EQ(outcome.end, RunEnd::kBaselineFailed);
  EXPECT_EQ(world.exported.size(), 1U);
  const Manifest manifest = world.open().manifest;
  EXPECT_EQ(manifest.failed_arms.at("optimizer=loop"), "not available: PyTorch finds no GPU here");
  EXPECT_EQ(manifest.failed_arms.at("compile=off"),
            "its reference baseline failed, so there is nothing to compare it with");
}

TEST(ExportPackages, BaselineWithoutPackageEndsTheRun) {
  ExportWorld world;
  world.process = {.end = ProcessEnd::kNotStarted, .why_not_started = "no such file"};
  const RunOutcome outcome = world.start_with_export(compiled_baseline(), "attention=math");
  EXPECT_EQ(outcome.end, RunEnd::kBaselineFailed);
  EXPECT_THAT(outcome.reason, HasSubstr("not available: no such file"));
  EXPECT_TRUE(world.ran.empty());
}

TEST(ExportPackages, NothingIsRunWhereNoArmCompiles) {
  ExportWorld world;
  EXPECT_EQ(world.start_with_export(cpu_baseline(), "attention=math").end, RunEnd::kDone);
  EXPECT_TRUE(world.exported.empty());
}

}  // namespace
}  // namespace steplens
