#include "workloads/attention.h"

#include "tests/workloads/tiny_config.h"
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

AttentionChoice choice_of(const RunConfig& config) {
  force_attention(config.attention);
  return choose_attention(config);
}

TEST(ChooseAttention, TakesTheForcedBackendWhereItRuns) {
  for (const Attention attention : {Attention::kMath, Attention::kFlash}) {
    RunConfig config = tiny_config();
    config.attention = attention;
    const AttentionChoice choice = choice_of(config);
    EXPECT_EQ(choice.chosen, name_of(attention));
    EXPECT_EQ(choice.why_not, "");
    EXPECT_EQ(choice.would_choose, "");
    EXPECT_EQ(why_attention_cannot_run(config, choice), "");
    const nlohmann::json json = to_json(config, choice);
    EXPECT_EQ(json.at("wanted"), name_of(attention));
    EXPECT_EQ(json.at("head_dim"), config.shape.head_dim);
    EXPECT_EQ(json.at("sequence_length"), config.sequence_length);
    EXPECT_EQ(json.at("mask"), "causal");
    EXPECT_TRUE(json.at("why_not").is_null());
  }
}

// A CPU has neither cuDNN nor the memory-efficient kernel: the dispatcher says so when it is asked.
TEST(ChooseAttention, SaysWhyAndWhatTheLibraryWouldTake) {
  RunConfig config = tiny_config();
  config.attention = Attention::kCudnn;
  const AttentionChoice choice = choice_of(config);
  EXPECT_EQ(choice.chosen, "none");
  EXPECT_EQ(choice.would_choose, "flash");
  EXPECT_NE(choice.why_not, "");
  EXPECT_THAT(choice.why_not, Not(HasSubstr("\n")));
  const std::string reason = why_attention_cannot_run(config, choice);
  EXPECT_THAT(reason, HasSubstr("attention=cudnn cannot run with Float, head_dim "));
  EXPECT_THAT(reason, HasSubstr("a causal mask and sequence_length "));
  EXPECT_THAT(reason, HasSubstr("; the library would take flash"));
  EXPECT_EQ(to_json(config, choice).at("would_choose"), "flash");
  // The question changed nothing: only the forced backend is allowed again.
  EXPECT_TRUE(at::globalContext().userEnabledCuDNNSDP());
  EXPECT_FALSE(at::globalContext().userEnabledFlashSDP());
  EXPECT_FALSE(at::globalContext().userEnabledMathSDP());
}

}  // namespace
}  // namespace steplens
