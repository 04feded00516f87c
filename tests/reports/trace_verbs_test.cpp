#include "reports/trace_verbs.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/reports/export_fixture.h"
#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/trace/trace_reader.h"
#include "harness/trace/trace_writer.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

struct Output {
  int exit_code = -1;
  std::string out;
  std::string err;
};

Output run(std::vector<std::string> words) {
  CLI::App app("test", "steplens");
  app.require_subcommand(1);
  Output output;
  add_trace_verbs(app, output.exit_code);
  std::reverse(words.begin(), words.end());  // As CLI11 takes them from a vector.
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto finish = [&] {
    output.out = testing::internal::GetCapturedStdout();
    output.err = testing::internal::GetCapturedStderr();
  };
  try {
    app.parse(words);
  } catch (...) {
    finish();
    throw;
  }
  finish();
  return output;
}

class TraceVerbs : public testing::Test {
 protected:
  void SetUp() override { write_trace(trace(), two_launches()); }

  fs::path trace() const { return folder_.path() / "trace.slt"; }
  std::string in_folder(std::string_view name) const { return (folder_.path() / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(TraceVerbs, ExportWritesBesideTheTrace) {
  const Output output = run({"export", folder_.path().string()});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.out, HasSubstr("3 operations, 2 API calls, 2 ranges, 1 steps"));
  EXPECT_THAT(output.err, IsEmpty());
  EXPECT_TRUE(read_json(in_folder("trace.json")).contains("traceEvents"));
}

TEST_F(TraceVerbs, TheEndOfTheFileNamesTheFormat) {
  EXPECT_EQ(run({"export", trace().string(), "--out", in_folder("a.csv")}).exit_code, 0);
  EXPECT_THAT(read_file(in_folder("a.csv")), HasSubstr("start_ns,end_ns"));
  EXPECT_EQ(run({"export", trace().string(), "--out", in_folder("a.sqlite")}).exit_code, 0);
  EXPECT_THAT(read_file(in_folder("a.sqlite")), HasSubstr("SQLite format 3"));
  EXPECT_EQ(run({"export", trace().string(), "--format", "csv"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(in_folder("trace.csv")));
}

TEST_F(TraceVerbs, ErrorsNameWhatIsWrong) {
  EXPECT_THAT([&] { run({"export", trace().string(), "--format", "pdf"}); },
              ThrowsMessage<ConfigError>(HasSubstr("allowed: chrome, sqlite, csv")));
  EXPECT_THAT([&] { run({"export", trace().string(), "--out", in_folder("a.xyz")}); },
              ThrowsMessage<ConfigError>(HasSubstr(".sqlite")));
  EXPECT_THAT([&] { run({"export", in_folder("none.slt")}); },
              ThrowsMessage<ConfigError>(HasSubstr("none.slt")));
  EXPECT_THAT([&] { run({"export", trace().string(), "--out", in_folder("none/a.csv")}); },
              ThrowsMessage<ConfigError>(HasSubstr("cannot write")));
  EXPECT_THAT(
      [&] { run({"export", trace().string(), "--format", "csv", "--out", trace().string()}); },
      ThrowsMessage<ConfigError>(HasSubstr("is the input")));
  fs::create_directories(folder_.path() / "bundle/blocks/0001-trace-a");
  fs::copy_file(trace(), folder_.path() / "bundle/blocks/0001-trace-a/trace.slt");
  EXPECT_THAT([&] { run({"export", in_folder("bundle")}); },
              ThrowsMessage<ConfigError>(HasSubstr("0001-trace-a/trace.slt")));
  EXPECT_THAT([&] { run({"import", in_folder("none.json")}); },
              ThrowsMessage<ConfigError>(HasSubstr("none.json")));
}

TEST_F(TraceVerbs, ALossIsWrittenSaidAndFive) {
  Trace lossy = two_launches();
  lossy.quality = {{"dropped", 12}, {"unattributed", 3}};
  write_trace(trace(), lossy);
  const Output output = run({"export", trace().string()});
  EXPECT_EQ(output.exit_code, 5);
  EXPECT_THAT(output.err, HasSubstr("data lost in this trace: dropped=12\n"));
  EXPECT_TRUE(fs::exists(in_folder("trace.json")));
}

TEST_F(TraceVerbs, ImportReadsWhatExportWrote) {
  for (const std::string name : {"a.json", "a.json.gz", "a.sqlite"}) {
    ASSERT_EQ(run({"export", trace().string(), "--out", in_folder(name)}).exit_code, 0);
    EXPECT_EQ(run({"import", in_folder(name)}).exit_code, 0) << name;
    const Trace copy = read_trace(in_folder("a.slt"));
    EXPECT_THAT(copy.gpu_ops, SizeIs(3)) << name;
    EXPECT_THAT(copy.steps, SizeIs(1)) << name;
    fs::remove(in_folder("a.slt"));
  }
}

TEST_F(TraceVerbs, ImportOfACutFileIsFive) {
  std::ofstream(in_folder("cut.json"))
      << R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"a","ts":1,"dur":1},{"ph":"X","ca)";
  const Output output = run({"import", in_folder("cut.json"), "--out", in_folder("cut.slt")});
  EXPECT_EQ(output.exit_code, 5);
  EXPECT_THAT(output.err, HasSubstr("truncated=1"));
  EXPECT_THAT(read_trace(in_folder("cut.slt")).gpu_ops, SizeIs(1));
}

TEST_F(TraceVerbs, HelpShowsExamples) {
  CLI::App app;
  int exit_code = 0;
  add_trace_verbs(app, exit_code);
  for (const char* verb : {"export", "import"}) {
    EXPECT_THAT(app.get_subcommand(verb)->help(), HasSubstr("Examples:\n  ")) << verb;
  }
}

}  // namespace
}  // namespace steplens
