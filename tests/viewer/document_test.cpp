#include "viewer/data/document.h"

#include <fstream>

#include "tests/viewer/sample_bundle.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

Document open_one(const fs::path& path) {
  const fs::path paths[] = {path};
  return open_document(paths);
}

std::string error_of(const std::vector<fs::path>& paths) {
  try {
    open_document(paths);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(OpenDocument, FindsArmsTracesAndReferencesOfABundle) {
  const TemporaryFolder folder;
  write_sample_bundle(folder.path() / "run");
  Document document = open_one(folder.path() / "run");
  EXPECT_EQ(document.title, "run");
  EXPECT_THAT(document.arms(), ElementsAre("baseline", "optimizer=fused", "checkpoint=full"));
  EXPECT_EQ(document.reference_of("optimizer=fused"), "baseline");
  EXPECT_EQ(document.reference_of("baseline"), "");
  EXPECT_EQ(document.traces.size(), 4U);
  ASSERT_NE(document.find_trace("baseline", true), nullptr);
  EXPECT_EQ(document.find_trace("optimizer=fused", true), nullptr);
  EXPECT_THAT(document.bundle->banners, IsEmpty());
}

TEST(OpenDocument, TakesTheManifestForTheBundle) {
  const TemporaryFolder folder;
  write_sample_bundle(folder.path() / "run");
  EXPECT_NE(open_one(folder.path() / "run/manifest.json").bundle, nullptr);
}

TEST(OpenDocument, OpensASweepAtItsFirstValueAndThenAtAnother) {
  const TemporaryFolder folder;
  write_sample_sweep(folder.path() / "by-length");
  for (const char* name : {"by-length", "by-length/", "by-length/sweep.json"}) {
    const Document document = open_one(folder.path() / name);
    ASSERT_NE(document.sweep, nullptr) << name;
    EXPECT_EQ(document.title, "by-length, sequence_length=512") << name;
    EXPECT_EQ(document.bundle->bundle.manifest.baseline.sequence_length, 512);
    EXPECT_EQ(document.sweep->results.points.size(), 4U);

    const Document other = open_sweep_point(document.sweep, 2);
    EXPECT_EQ(other.sweep, document.sweep);
    EXPECT_EQ(other.point_index, 2U);
    EXPECT_EQ(other.bundle->bundle.manifest.baseline.sequence_length, 2048);
    EXPECT_THAT(other.arms(), ElementsAre("baseline", "optimizer=fused"));
    EXPECT_THAT([&] { open_sweep_point(document.sweep, 3); },
                ThrowsMessage<ConfigError>(HasSubstr("sequence_length=4096: not measured yet")));
  }
}

TEST(OpenDocument, SaysThatASweepHasNotBegun) {
  const TemporaryFolder folder;
  const fs::path sweep = folder.path() / "sweep";
  write_sample_sweep(sweep);
  for (const char* length : {"512", "1024", "2048"}) {
    fs::remove_all(sweep / fmt::format("sequence_length-{}", length));
  }
  EXPECT_THAT(error_of({sweep}), HasSubstr("none of this sweep's matrices has begun"));
}

TEST(OpenDocument, WantsNothingUntilItIsAsked) {
  const TemporaryFolder folder;
  write_sample_bundle(folder.path() / "run");
  Document document = open_one(folder.path() / "run");
  EXPECT_FALSE(document.find_trace("baseline")->is_wanted);
  EXPECT_EQ(document.want_trace("baseline"), nullptr);
  EXPECT_TRUE(document.find_trace("baseline")->is_wanted);
  EXPECT_EQ(document.want_breakdown("baseline"), nullptr);
  EXPECT_TRUE(document.find_trace("baseline")->is_breakdown_wanted);
}

TEST(OpenDocument, LeavesDamagedBlocksOutAndSaysSo) {
  const TemporaryFolder folder;
  write_sample_bundle(folder.path());
  const Document whole = open_one(folder.path());
  const auto& entries = whole.bundle->bundle.manifest.blocks;
  fs::remove(block_path(folder.path(), entries[1]));
  std::ofstream(block_path(folder.path(), entries[2])) << "{ not json";
  const Document damaged = open_one(folder.path());
  EXPECT_EQ(damaged.bundle->bundle.blocks.size(), entries.size() - 2);
  ASSERT_EQ(damaged.bundle->banners.size(), 1U);
  EXPECT_THAT(damaged.bundle->banners[0],
              HasSubstr(fmt::format("2 of {} blocks cannot be read", entries.size())));
}

TEST(OpenDocument, SaysThatAMatrixIsUnfinished) {
  const TemporaryFolder folder;
  BundleBuilder builder = eight_rounds();
  builder.manifest().stop_reason.clear();
  builder.manifest().num_rounds_planned = 12;
  builder.write(folder.path());
  const Document document = open_one(folder.path());
  ASSERT_EQ(document.bundle->banners.size(), 1U);
  EXPECT_THAT(document.bundle->banners[0], HasSubstr("8 of 12 rounds are complete"));
}

TEST(OpenDocument, NamesTracesByFileOrByBlock) {
  const TemporaryFolder folder;
  write_sample_bundle(folder.path() / "run");
  const Document bundle = open_one(folder.path() / "run");
  const fs::path trace = bundle.traces.front().path;
  fs::copy(trace, folder.path() / "eager.slt");
  const fs::path paths[] = {folder.path() / "eager.slt", trace.parent_path(),
                            folder.path() / "eager.slt"};
  const Document document = open_document(paths);
  EXPECT_THAT(document.arms(),
              ElementsAre("eager", trace.parent_path().filename().string(), "eager (2)"));
  EXPECT_EQ(document.reference_of("eager (2)"), "eager");
  EXPECT_TRUE(document.traces[0].is_wanted);
}

TEST(OpenDocument, SaysWhatIsWrongWithAPath) {
  const TemporaryFolder folder;
  write_sample_bundle(folder.path() / "run");
  fs::create_directories(folder.path() / "empty");
  std::ofstream(folder.path() / "a.slt") << "x";
  EXPECT_THAT(error_of({folder.path() / "none"}), HasSubstr("none: does not exist"));
  EXPECT_THAT(error_of({folder.path() / "empty"}), HasSubstr("neither a bundle"));
  // Steps of a recipe, and any other folder of runs.
  write_sample_bundle(folder.path() / "recipe" / "02-attention");
  write_sample_bundle(folder.path() / "recipe" / "01-precision");
  EXPECT_THAT(error_of({folder.path() / "recipe"}),
              HasSubstr("open one: " + (folder.path() / "recipe" / "01-precision").string() + ", " +
                        (folder.path() / "recipe" / "02-attention").string()));
  EXPECT_THAT(error_of({folder.path() / "run", folder.path() / "a.slt"}),
              HasSubstr("a bundle or a sweep opens alone"));
  EXPECT_THAT(error_of({}), HasSubstr("nothing to open"));
}

}  // namespace
}  // namespace steplens
