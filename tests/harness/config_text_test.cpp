#include "harness/config_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/models.h"

namespace steplens {
namespace {

using ::testing::ElementsAre;

TEST(WordsOfConfig, SayNothingOfWhatIsTheModelsOwn) {
  EXPECT_THAT(words_of_config(baseline_config(Device::kCuda, "llama-1b")),
              ElementsAre("--device cuda", "--model llama-1b"));
  EXPECT_THAT(words_of_config(baseline_config(Device::kCpu, "nano")),
              ElementsAre("--device cpu", "--model nano"));
}

// What a key is by default elsewhere does not matter: the command must make this config.
TEST(WordsOfConfig, SayWhatIsOtherThanTheModelsOwn) {
  RunConfig config = baseline_config(Device::kCuda, "llama-1b");
  config.num_lr_warmup_steps = RunConfig{}.num_lr_warmup_steps;
  config.shape.num_layers = 3;
  config.world_size = 2;
  config.precision = RunConfig{}.precision;
  EXPECT_THAT(words_of_config(config),
              ::testing::UnorderedElementsAre("--device cuda", "--model llama-1b", "--ranks 2",
                                              "--set num_layers=3", "--set precision=fp32",
                                              "--set num_lr_warmup_steps=100"));
}

TEST(WordsOfConfig, OfAnUnknownModelSayWhatTheProgramsDefaultsDoNot) {
  RunConfig config;
  config.model = "it's mine";
  config.global_batch_size = 7;
  EXPECT_THAT(words_of_config(config),
              ElementsAre("--device cpu", R"(--model 'it'\''s mine')", "--set global_batch=7"));
}

TEST(ShellWord, QuotesWhatAShellWouldRead) {
  EXPECT_EQ(shell_word("attention=math,graph=on"), "attention=math,graph=on");
  EXPECT_EQ(shell_word("attention=math|cudnn"), "'attention=math|cudnn'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace steplens
