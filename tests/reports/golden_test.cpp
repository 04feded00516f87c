#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "tests/reports/bundle_builder.h"
#include <gtest/gtest.h>

#include "harness/files.h"
#include "reports/verbs.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

// Without the lines that list the whole configuration: a key that is added changes no report.
std::string without_config(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    std::string_view key = std::string_view(line).substr(0, line.find('='));
    key.remove_prefix(key.rfind('>') == std::string_view::npos ? 0 : key.rfind('>') + 1);
    if (line.find('=') == std::string::npos || find_config_field(key) == nullptr)
      kept += line + "\n";
  }
  return kept;
}

// A report's chapters by what `begin` is followed by, up to the next line; what is before the first
// one is "".
std::map<std::string, std::string> chapters_of(const std::string& text, std::string_view begin,
                                               std::string_view end) {
  std::map<std::string, std::string> chapters;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t next = std::min(text.find(begin, at + 1), text.size());
    std::string chapter = text.substr(at, next - at);
    if (at > 0 && !end.empty()) chapter = chapter.substr(0, chapter.find(end));
    const std::string key = at == 0 ? std::string() : chapter.substr(0, chapter.find('\n', 1));
    chapters[key] = std::move(chapter);
    at = next;
  }
  return chapters;
}

// All words and numbers of the report of a fixed bundle, in the chapters that the golden files
// have: one that is new, or new words of the style sheet, need no new files. After a wanted change
// look at the difference that STEPLENS_UPDATE_GOLDEN=1 makes.
TEST(GoldenReport, IsWhatItWas) {
  const TemporaryFolder folder;
  const fs::path bundle = folder.path() / "example";
  BundleBuilder builder = eight_rounds();
  builder.add_arm("attention", "math");
  builder.add_failure("attention=math", 0, BlockStatus::kOom, "out of memory: 1 GiB asked for");
  builder.manifest().failed_arms["attention=math"] = "out of memory twice";
  builder.manifest().environment = {{"gpu", {{"name", "NVIDIA H200"}}},
                                    {"host", {{"cpu_model", "A <CPU> & more"}}}};
  builder.edit_blocks("optimizer=fused", [](BlockRecord& block) {
    block.memory["peak_allocated_bytes"] = 3'000'000'000;
    block.samples["mean_sm_clock_mhz"] = 1980;
  });
  builder.write(bundle);
  write_report(bundle);
  const fs::path golden = fs::path(STEPLENS_SOURCE_DIR) / "tests/reports/golden";
  for (const char* name : {"results.json", "report.md", "report.html"}) {
    if (std::getenv("STEPLENS_UPDATE_GOLDEN") != nullptr) {
      fs::copy_file(bundle / name, golden / name, fs::copy_options::overwrite_existing);
    }
  }
  EXPECT_EQ(read_file(bundle / "results.json"), read_file(golden / "results.json"));
  const auto expect_chapters = [&](const char* name, std::string_view begin, std::string_view end) {
    const auto chapters = chapters_of(without_config(read_file(bundle / name)), begin, end);
    const auto expected = chapters_of(without_config(read_file(golden / name)), begin, end);
    EXPECT_GT(expected.size(), 8U);
    for (const auto& [key, chapter] : expected) {
      // Style and contents, which name the new chapters too, and the list of all metrics.
      if (key.empty() || key.find("\"metrics\"") != std::string::npos) continue;
      const auto it = chapters.find(key);
      EXPECT_EQ(it == chapters.end() ? "missing" : it->second, chapter) << name << key;
    }
  };
  expect_chapters("report.md", "\n## ", "");
  expect_chapters("report.html", "\n<section aria-labelledby=", "</section>");
}

}  // namespace
}  // namespace steplens
