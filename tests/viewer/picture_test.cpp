// Golden pictures: what is drawn without a display, with the built-in font, against
// tests/viewer/golden. STEPLENS_UPDATE_GOLDEN=1 writes them anew.

#include <algorithm>
#include <cstdlib>
#include <set>

#include "tests/viewer/sample_bundle.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "harness/files.h"
#include "viewer/app/offscreen.h"
#include "viewer/app/png.h"
#include "viewer/app/session.h"
#include "viewer/panels/panel.h"

// Read by the sanitizers where the test is built with one. Mesa's drivers keep what they allocate,
// and their threads are not instrumented.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

namespace steplens {
namespace {

namespace fs = std::filesystem;

// Between machines the rasteriser rounds other pixels at the ends of lines.
constexpr int kChannelTolerance = 24;
constexpr double kMaxDifferentRatio = 0.002;
constexpr std::size_t kMinColours = 16;       // Fewer: something was not drawn.
constexpr std::size_t kMinColoursOfText = 6;  // The built-in font has no grey edges.

std::size_t num_colours(const Picture& picture) {
  std::set<std::array<std::uint8_t, 3>> colours;
  for (std::size_t i = 0; i + 2 < picture.pixels.size(); i += 3) {
    colours.insert({picture.pixels[i], picture.pixels[i + 1], picture.pixels[i + 2]});
  }
  return colours.size();
}

double different_ratio(const Picture& left, const Picture& right) {
  if (left.width != right.width || left.height != right.height) return 1;
  std::size_t num_different = 0;
  for (std::size_t i = 0; i + 2 < left.pixels.size(); i += 3) {
    bool is_different = false;
    for (std::size_t c = i; c < i + 3; ++c) {
      is_different |= std::abs(left.pixels[c] - right.pixels[c]) > kChannelTolerance;
    }
    num_different += is_different ? 1U : 0U;
  }
  return static_cast<double>(num_different) / static_cast<double>(left.pixels.size() / 3);
}

/// Works in a folder of its own, so that no picture shows a path of this machine.
class Pictures : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      const Offscreen probe(16, 16);
    } catch (const DeviceError& error) {
      GTEST_SKIP() << error.what();
    }
    before_ = fs::current_path();
    write_sample_bundle(folder_.path() / "sample");
    write_sample_sweep(folder_.path() / "sweep");
    fs::current_path(folder_.path());
  }
  void TearDown() override {
    if (!before_.empty()) fs::current_path(before_);
  }

  Picture draw(ViewerOptions options, int expected_exit_code = 0) {
    options.screenshot = folder_.path() / "picture.png";
    options.dump_state = folder_.path() / "state.json";
    options.only_built_in_font = true;
    if (options.width == 0) options.width = 1200;
    if (options.height == 0) options.height = 700;
    EXPECT_EQ(run_offscreen(options), expected_exit_code);
    return read_png(options.screenshot);
  }
  nlohmann::json state() const { return read_json(folder_.path() / "state.json"); }

  void play(ViewerOptions& options, std::string_view script) {
    options.script = folder_.path() / "script.txt";
    write_file_atomically(options.script, script);
  }

  static void expect_golden(const Picture& picture, const std::string& name,
                            std::size_t min_colours = kMinColours) {
    EXPECT_GE(num_colours(picture), min_colours) << name;
    const fs::path path = fs::path(STEPLENS_SOURCE_DIR) / "tests/viewer/golden" / (name + ".png");
    if (std::getenv("STEPLENS_UPDATE_GOLDEN") != nullptr) {
      fs::create_directories(path.parent_path());
      write_png(path, picture);
    }
    const double ratio = different_ratio(picture, read_png(path));
    if (ratio <= kMaxDifferentRatio) return;
    const fs::path seen = fs::temp_directory_path() / ("steplens-seen-" + name + ".png");
    write_png(seen, picture);
    ADD_FAILURE() << name << ": " << 100 * ratio
                  << " % of the pixels differ; what was drawn: " << seen;
  }

  TemporaryFolder folder_;
  fs::path before_;
};

TEST_F(Pictures, OfEveryPanelInBothThemesAreTheGoldenOnes) {
  for (const auto& panel : make_panels()) {
    for (const ThemeKind theme : {ThemeKind::kDark, ThemeKind::kLight}) {
      const std::string key(panel->key());
      const fs::path path = key == "sweep" ? "sweep" : "sample";
      expect_golden(draw({.paths = {path}, .panel = key, .theme = theme}),
                    fmt::format("{}_{}", key, name_of(theme)));
      EXPECT_EQ(state().at("panel"), key);
      EXPECT_EQ(state().at("is_busy"), false);
    }
  }
}

TEST_F(Pictures, OfNothingSayWhatToDo) {
  expect_golden(draw({}), "start_page", kMinColoursOfText);
  EXPECT_EQ(state().at("shows_start_page"), true);
}

TEST_F(Pictures, OfAMissingFileSaySo) {
  expect_golden(draw({.paths = {"nowhere"}}, 2), "missing_file", kMinColoursOfText);
  EXPECT_EQ(state().at("error"), "nowhere: does not exist");
}

TEST_F(Pictures, OfAForeignFileSaySo) {
  write_file_atomically("notes.txt", "Nothing that a profiler wrote.");
  draw({.paths = {"notes.txt"}}, 2);
  EXPECT_THAT(state().at("error").get<std::string>(), ::testing::HasSubstr("notes.txt"));
  EXPECT_TRUE(state().at("document").is_null());
  EXPECT_EQ(state().at("recent"), nlohmann::json::array());
}

TEST_F(Pictures, OfACutTraceHaveABanner) {
  const fs::path trace = [] {
    const fs::path paths[] = {"sample"};
    return open_document(paths).traces.front().path;
  }();
  const std::string content = read_file(trace);
  write_file_atomically("cut.slt", std::string_view(content).substr(0, content.size() * 3 / 5));
  draw({.paths = {"cut.slt"}, .panel = "timeline"});
  EXPECT_EQ(state().at("error"), "");
  EXPECT_FALSE(state().at("banners").empty());
}

TEST_F(Pictures, GrowWithTheScale) {
  const Picture picture =
      draw({.paths = {"sample"}, .panel = "matrix", .width = 2000, .height = 1200, .scale = 2});
  expect_golden(picture, "matrix_scaled");
}

TEST_F(Pictures, ArmAndStepsComeFromTheCommandLine) {
  draw({.paths = {"sample"},
        .panel = "breakdown",
        .arm = "checkpoint=full",
        .against = "optimizer=fused",
        .steps = StepRange{1, 2}});
  const nlohmann::json selection = state().at("selection");
  EXPECT_EQ(selection.at("arm_a"), "optimizer=fused");
  EXPECT_EQ(selection.at("arm_b"), "checkpoint=full");
  EXPECT_EQ(selection.at("steps"), (nlohmann::json{{"first", 1}, {"last", 2}}));
  // GEMM: 15 us more, 9 times a step; the optimizer 40 us more.
  EXPECT_EQ(state().at("panels").at("breakdown").at("waterfall").at("difference_ns"), 175'000);
}

TEST_F(Pictures, AnUnknownArmIsNamed) {
  draw({.paths = {"sample"}, .arm = "attention=none"}, 2);
  EXPECT_EQ(
      state().at("error"),
      "arm: 'attention=none' is unknown; allowed: baseline, optimizer=fused, checkpoint=full");
}

TEST_F(Pictures, AScriptLeadsFromTheMatrixToOneCategorysKernels) {
  ViewerOptions options = {.paths = {"sample"}, .panel = "matrix"};
  play(options, "double_click matrix/checkpoint=full\nclick waterfall.gemm\n");
  draw(options);
  EXPECT_EQ(state().at("panel"), "breakdown");
  EXPECT_EQ(state().at("selection").at("arm_b"), "checkpoint=full");
  EXPECT_EQ(state().at("selection").at("highlight"),
            (nlohmann::json{{"kind", "category"}, {"key", "gemm"}}));
  EXPECT_EQ(state().at("panels").at("breakdown").at("num_kernels"), 1);
}

TEST_F(Pictures, OfASweepLeadFromAPointToItsMatrix) {
  ViewerOptions options = {.paths = {"sweep"}};
  draw(options);
  EXPECT_EQ(state().at("panel"), "sweep");
  EXPECT_EQ(state().at("panels").at("sweep").at("value"), "512");
  EXPECT_EQ(state().at("panels").at("sweep").at("values").size(), 4U);

  play(options, "click sweep/optimizer=fused/2048\nwait\n");
  draw(options);
  EXPECT_EQ(state().at("panel"), "sweep");
  EXPECT_EQ(state().at("panels").at("sweep").at("value"), "2048");
  EXPECT_EQ(state().at("document").at("title"), "sweep, sequence_length=2048");
  EXPECT_EQ(state().at("selection").at("arm_b"), "optimizer=fused");

  play(options, "double_click sweep/1024\nwait\n");
  draw(options);
  EXPECT_EQ(state().at("panel"), "matrix");
  EXPECT_EQ(state().at("document").at("title"), "sweep, sequence_length=1024");

  // Its matrix has not begun.
  play(options, "click sweep/4096\nwait\n");
  draw(options);
  EXPECT_EQ(state().at("panels").at("sweep").at("value"), "512");
  EXPECT_EQ(state().at("notice"), "sequence_length=4096 is not measured yet");
}

TEST_F(Pictures, OfABundleHaveNoTabForSweeps) {
  ViewerOptions options = {.paths = {"sample"}, .panel = "sweep"};
  play(options, "key 2\nwait\n");
  draw(options);
  EXPECT_EQ(state().at("panel"), "breakdown");  // The second of the tabs that are there.
  EXPECT_FALSE(state().at("marks").contains("tab.sweep"));
}

TEST_F(Pictures, HelpAndSearchAnswerToTheirKeys) {
  ViewerOptions options = {.paths = {"sample"}, .panel = "run"};
  play(options, "key slash\nwait\nwait\nwait\ntype fused\nwait\n");
  draw(options);
  EXPECT_EQ(state().at("panels").at("run").at("search"), "fused");
  EXPECT_EQ(state().at("panels").at("run").at("num_blocks"), 9);  // 8 rounds and a trace.
  play(options, "type ?\nwait\n");
  expect_golden(draw(options), "help");
  EXPECT_EQ(state().at("shows_help"), true);
}

}  // namespace
}  // namespace steplens
