#include <cstdlib>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "harness/temporary_folder.h"
#include "viewer/app/options.h"
#include "viewer/app/script.h"
#include "viewer/app/settings.h"
#include "viewer/draw/data_table.h"
#include "viewer/draw/search_field.h"
#include "viewer/panels/panel.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MakePanels, ListsEveryFileInPanelsFolder) {
  std::set<std::string> keys;
  for (const auto& panel : make_panels()) keys.insert(std::string(panel->key()));
  EXPECT_EQ(keys.size(), make_panels().size());
  for (const std::string& key : keys) {
    EXPECT_TRUE(fs::exists(fs::path(STEPLENS_SOURCE_DIR) / "viewer/panels" / (key + ".cpp")))
        << key;
  }
}

TEST(ParseRange, TakesOneStepOrSeveral) {
  EXPECT_EQ(parse_range("step:3"), (StepRange{3, 3}));
  EXPECT_EQ(parse_range("step:3-5"), (StepRange{3, 5}));
  for (const char* text :
       {"3", "step:", "step:-1", "step:5-3", "step:3-", "step:a", "steps:3", ""}) {
    EXPECT_THROW(parse_range(text), ConfigError) << text;
  }
}

TEST(Script, NamesTheLineThatIsWrong) {
  EXPECT_NO_THROW(
      Script("# nothing\n\nclick 10 20\ndrag 1 2 tab.run\nkey slash\ntype gemm\nwait\n", "s"));
  try {
    Script("click 10 20\nhop 3\n", "tour.txt");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tour.txt: line 2: 'hop 3'"));
  }
  for (const char* text : {"wheel x", "key nothing", "click", "drag 1 2", "move 1 2 3", "type"}) {
    EXPECT_THROW(Script(text, "s"), ConfigError) << text;
  }
}

TEST(ToCsv, QuotesWhatNeedsIt) {
  const std::vector<TableColumn> columns = {{.header = "kernel"}, {.header = "a,b"}};
  const std::vector<TableRow> rows = {
      {.cells = {{.text = "say \"x\""}, {.text = "1.2 ms", .exact = "1234567"}}},
      {.cells = {{.text = "two\nlines"}, {.text = "plain"}}}};
  EXPECT_EQ(to_csv(columns, rows),
            "kernel,\"a,b\"\n\"say \"\"x\"\"\",1234567\n\"two\nlines\",plain\n");
}

TEST(ContainsIgnoringCase, FindsAnywhere) {
  EXPECT_TRUE(contains_ignoring_case("sm90_XMMA_gemm", "xmma_G"));
  EXPECT_TRUE(contains_ignoring_case("anything", ""));
  EXPECT_FALSE(contains_ignoring_case("gem", "gemm"));
}

class SettingsFiles : public ::testing::Test {
 protected:
  SettingsFiles() {
    setenv("XDG_CONFIG_HOME", (folder_.path() / "config").c_str(), 1);
    setenv("XDG_STATE_HOME", (folder_.path() / "state").c_str(), 1);
  }
  ~SettingsFiles() override {
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("XDG_STATE_HOME");
  }
  TemporaryFolder folder_;
};

TEST_F(SettingsFiles, ComeBackAsTheyWere) {
  Settings settings;
  settings.theme = ThemeKind::kLight;
  settings.panel = "kernels";
  settings.window_width = 1000;
  settings.panels["timeline"] = {{"zoom", 2}};
  remember_recent(settings, "/first");
  remember_recent(settings, "/second");
  remember_recent(settings, "/first");
  EXPECT_EQ(write_settings(settings), "");
  const Settings read = read_settings();
  EXPECT_EQ(read.theme, ThemeKind::kLight);
  EXPECT_EQ(read.panel, "kernels");
  EXPECT_EQ(read.window_width, 1000);
  EXPECT_EQ(read.panels, settings.panels);
  EXPECT_THAT(read.recent, ElementsAre("/first", "/second"));
}

TEST_F(SettingsFiles, AreDefaultsWhereTheyAreDamaged) {
  fs::create_directories(settings_path().parent_path());
  std::ofstream(settings_path()) << R"({"theme": 3, "window_width": "wide", "panels": [1]})";
  const Settings read = read_settings();
  EXPECT_EQ(read.theme, ThemeKind::kDark);
  EXPECT_EQ(read.window_width, Settings().window_width);
  EXPECT_TRUE(read.panels.empty());
  std::ofstream(settings_path()) << "{";
  EXPECT_EQ(read_settings().panel, Settings().panel);
}

TEST_F(SettingsFiles, KeepTheLatestTen) {
  Settings settings;
  for (int i = 0; i < 15; ++i) remember_recent(settings, fs::path("/") / std::to_string(i));
  EXPECT_EQ(settings.recent.size(), kMaxRecent);
  EXPECT_EQ(settings.recent.front(), "/14");
}

}  // namespace
}  // namespace steplens
