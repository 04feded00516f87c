#include "viewer/app/loader.h"

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>

#include "tests/viewer/sample_bundle.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "viewer/data/trace_model.h"

namespace steplens {
namespace {

using ::testing::HasSubstr;

class LoaderTest : public ::testing::Test {
 protected:
  LoaderTest()
      : loader_([this] {
          const std::lock_guard lock(mutex_);
          ++num_wakes_;
          changed_.notify_all();
        }) {
    write_sample_bundle(folder_.path() / "sample");
  }

  // Until the loader calls for the event loop once more.
  void wait() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(60), [this] { return num_wakes_ > 0; }));
    --num_wakes_;
  }

  Document open_sample() {
    loader_.open({folder_.path() / "sample"});
    wait();
    return std::move(*loader_.take_opened()->document);
  }

  TemporaryFolder folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_wakes_ = 0;
  Loader loader_;  // Last: its thread uses the others.
};

TEST_F(LoaderTest, HandsADocumentOverOnce) {
  const Document document = open_sample();
  EXPECT_EQ(document.arms().size(), 3U);
  EXPECT_FALSE(loader_.take_opened().has_value());
  EXPECT_FALSE(loader_.is_busy());
}

TEST_F(LoaderTest, OpensAnotherPointOfASweepWhileATraceIsStillWanted) {
  write_sample_sweep(folder_.path() / "sweep");
  loader_.open({folder_.path() / "sweep"});
  wait();
  Document document = std::move(*loader_.take_opened()->document);
  ASSERT_NE(document.sweep, nullptr);
  loader_.open_point(document.sweep, 1);
  wait();
  const std::optional<Loader::Opened> other = loader_.take_opened();
  ASSERT_TRUE(other && other->document);
  EXPECT_EQ(other->document->sweep, document.sweep);
  EXPECT_EQ(other->document->bundle->bundle.manifest.baseline.sequence_length, 1024);

  // What runs for the document before is given up.
  Document sample = open_sample();
  sample.want_trace("baseline");
  loader_.serve(sample);
  loader_.open_point(document.sweep, 3);  // Not measured.
  std::optional<Loader::Opened> refused;
  while (!(refused = loader_.take_opened())) wait();
  EXPECT_FALSE(refused->document);
  EXPECT_THAT(refused->error, HasSubstr("sequence_length=4096: not measured yet"));
}

TEST_F(LoaderTest, SaysWhyNothingOpens) {
  loader_.open({folder_.path() / "nothing"});
  wait();
  const auto opened = loader_.take_opened();
  ASSERT_TRUE(opened.has_value());
  EXPECT_FALSE(opened->document.has_value());
  EXPECT_THAT(opened->error, HasSubstr("does not exist"));
}

TEST_F(LoaderTest, LoadsWhatPanelsWantAndNothingElse) {
  Document document = open_sample();
  loader_.serve(document);
  EXPECT_FALSE(loader_.is_busy());
  document.want_trace("optimizer=fused");
  document.want_breakdown("optimizer=fused");
  for (int i = 0; i < 2; ++i) {
    loader_.serve(document);
    EXPECT_TRUE(loader_.is_busy());
    wait();
  }
  loader_.serve(document);
  EXPECT_FALSE(loader_.is_busy());
  const TraceModel* model = document.want_trace("optimizer=fused");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->num_steps(), kSampleSteps);
  const TracedArm* breakdown = document.want_breakdown("optimizer=fused");
  ASSERT_NE(breakdown, nullptr);
  EXPECT_EQ(breakdown->reference, "baseline");
  EXPECT_EQ(document.find_trace("baseline")->model, nullptr);
}

TEST_F(LoaderTest, KeepsTheErrorOfADamagedTrace) {
  Document document = open_sample();
  std::ofstream(document.find_trace("baseline")->path) << "no trace";
  document.want_trace("baseline");
  loader_.serve(document);
  wait();
  loader_.serve(document);
  EXPECT_EQ(document.want_trace("baseline"), nullptr);
  EXPECT_THAT(document.find_trace("baseline")->error, HasSubstr("trace.slt"));
  EXPECT_FALSE(loader_.is_busy());  // It is not tried again.
}

TEST_F(LoaderTest, GivesUpWhenItIsTold) {
  // The thread may be faster than the call; not every time.
  for (int attempt = 0; attempt < 100; ++attempt) {
    Document document = open_sample();
    document.want_trace("baseline");
    loader_.serve(document);
    loader_.cancel();
    wait();
    loader_.serve(document);
    const TraceEntry& entry = *document.find_trace("baseline");
    ASSERT_NE(entry.model == nullptr, entry.error.empty());
    if (entry.model != nullptr) continue;
    EXPECT_THAT(entry.error, HasSubstr("cancel"));
    return;
  }
  FAIL() << "it was never given up";
}

TEST_F(LoaderTest, AnotherDocumentReplacesWhatIsLoading) {
  Document document = open_sample();
  document.want_trace("baseline");
  loader_.serve(document);
  loader_.open({folder_.path() / "nothing"});
  std::optional<Loader::Opened> opened;
  while (!opened) {
    wait();
    opened = loader_.take_opened();
  }
  EXPECT_THAT(opened->error, HasSubstr("does not exist"));
}

}  // namespace
}  // namespace steplens
