#include "harness/plan.h"

#include "tests/harness/plan_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing_support::cpu_baseline;
using testing_support::vocabulary;

MatrixRequest request_of(std::string_view toggles) {
  return {.baseline = cpu_baseline(), .toggles = parse_toggle_choices(toggles)};
}

std::vector<std::string> names(const Plan& plan) {
  std::vector<std::string> result;
  for (const Arm& arm : plan.arms) result.push_back(arm.name);
  return result;
}

const Arm& arm_of(const Plan& plan, std::string_view name) {
  for (const Arm& arm : plan.arms) {
    if (arm.name == name) return arm;
  }
  throw std::runtime_error("no such arm");
}

// ---- What is written. ----

TEST(ParseToggleChoices, ReadsLevelsAndBareToggles) {
  EXPECT_THAT(parse_toggle_choices("attention=math|cudnn, graph"),
              ElementsAre(ToggleChoice{"attention", {"math", "cudnn"}}, ToggleChoice{"graph", {}}));
}

TEST(ParseToggleChoices, JoinsTheLevelsOfAToggleNamedTwice) {
  EXPECT_THAT(parse_toggle_choices("a=x,b,a=y"),
              ElementsAre(ToggleChoice{"a", {"x", "y"}}, ToggleChoice{"b", {}}));
  // One of the two asked for all levels.
  EXPECT_THAT(parse_toggle_choices("a=x,a"), ElementsAre(ToggleChoice{"a", {}}));
}

TEST(ParseToggleChoices, RefusesTwoVariablesInOneArm) {
  for (const char* text :
       {"attention=flash+optimizer=fused", "attention=flash+fused", "attention=math=flash"}) {
    EXPECT_THAT([&] { parse_toggle_choices(text); },
                ThrowsMessage<ConfigError>(
                    AllOf(HasSubstr(text), HasSubstr("two variables"), HasSubstr("--grid"))));
  }
}

TEST(ParseToggleChoices, RefusesEmptyParts) {
  for (const char* text : {"", "a,", ",a", "a=", "a=x|", "=x"}) {
    EXPECT_THROW(parse_toggle_choices(text), ConfigError) << text;
  }
}

TEST(ParseExternalArms, TakesKnownNamesAndPathsAndDropsTheBaseline) {
  EXPECT_THAT(
      parse_external_arms("baseline,torch-eager,mine=/a=b/run"),
      ElementsAre(ExternalArmChoice{"torch-eager", {}}, ExternalArmChoice{"mine", "/a=b/run"}));
}

TEST(ParseExternalArms, TakesArmsWithSeveralKeysSetAndWritesThemBack) {
  const std::vector<ExternalArmChoice> arms =
      parse_external_arms("best: attention=math + graph=on, mine=/x:y");
  ASSERT_EQ(arms.size(), 2u);
  EXPECT_EQ(arms[0].name, "best");
  EXPECT_THAT(arms[0].settings,
              ElementsAre(std::pair("attention", "math"), std::pair("graph", "on")));
  EXPECT_EQ(arms[1].path, "/x:y");
  EXPECT_EQ(text_of(arms[0]), "best:attention=math+graph=on");
  EXPECT_EQ(text_of(arms[1]), "mine=/x:y");
  EXPECT_EQ(text_of({.name = "torch-eager"}), "torch-eager");
}

TEST(ParseExternalArms, RefusesNamesThatWouldCollide) {
  for (const char* text : {"baseline=/x", "aa-01", "a b", "x,x", "mine=", "../x",
                           "best:", "best:graph", "best:graph=on+", "baseline:graph=on"}) {
    EXPECT_THROW(parse_external_arms(text), ConfigError) << text;
  }
}

TEST(ParseSetting, SplitsAtTheFirstEqualsSign) {
  EXPECT_EQ(parse_setting("a = b=c"), (std::pair<std::string, std::string>("a", "b=c")));
  EXPECT_THROW(parse_setting("a"), ConfigError);
  EXPECT_THROW(parse_setting("=b"), ConfigError);
}

TEST(ParseRatio, ReadsPlainNumbersAndPercent) {
  EXPECT_DOUBLE_EQ(parse_ratio("x", "0.002"), 0.002);
  EXPECT_DOUBLE_EQ(parse_ratio("x", "0.2 %"), 0.002);
  for (const char* text : {"", "%", "abc", "0.2%%", "inf", "1 2"}) {
    EXPECT_THROW(parse_ratio("x", text), ConfigError) << text;
  }
}

// ---- Toggles. ----

TEST(MakePlan, RunsAllOtherLevelsOfABareToggle) {
  const Plan plan = make_plan(request_of("optimizer"), vocabulary());
  EXPECT_THAT(names(plan), ElementsAre("baseline", "optimizer=loop", "optimizer=fused"));
  EXPECT_TRUE(plan.arms[0].is_baseline);
  EXPECT_EQ(plan.arms[0].reference, "");
}

TEST(MakePlan, ChangesOneKeyAnArm) {
  const Plan plan = make_plan(request_of("optimizer,attention=math,accumulation=2"), vocabulary());
  for (std::size_t i = 1; i < plan.arms.size(); ++i) {
    EXPECT_EQ(differing_fields(plan.baseline, plan.arms[i].config).size(), 1U) << plan.arms[i].name;
    EXPECT_EQ(plan.arms[i].reference, "baseline");
    EXPECT_TRUE(plan.arms[i].is_single_variable);
  }
}

TEST(MakePlan, LeavesOutTheBaselinesOwnLevel) {
  EXPECT_THAT(names(make_plan(request_of("attention=flash|math"), vocabulary())),
              ElementsAre("baseline", "attention=math"));
  EXPECT_THAT([] { make_plan(request_of("attention=flash"), vocabulary()); },
              ThrowsMessage<ConfigError>(HasSubstr("the baseline stands there already")));
}

TEST(MakePlan, TakesTheDefaultTogglesIfNothingIsNamed) {
  const Plan plan = make_plan({.baseline = cpu_baseline()}, vocabulary());
  EXPECT_THAT(names(plan),
              ElementsAre("baseline", "attention=math", "attention=cudnn", "graph=on"));
}

TEST(MakePlan, ListsWhatCannotRunWithItsReason) {
  const Plan plan = make_plan({.baseline = cpu_baseline()}, vocabulary());
  EXPECT_EQ(arm_of(plan, "attention=cudnn").not_applicable_reason, "needs a CUDA device");
  EXPECT_EQ(arm_of(plan, "graph=on").not_applicable_reason, "CUDA graphs need a CUDA device");
  EXPECT_EQ(arm_of(plan, "attention=math").not_applicable_reason, "");
}

TEST(MakePlan, ListsBatchArithmeticThatDoesNotDivideAsNotApplicable) {
  const Plan plan = make_plan(request_of("accumulation"), vocabulary());
  // A global batch of 8 rows cannot be cut into 3 micro-batches.
  EXPECT_THAT(arm_of(plan, "accumulation=3").not_applicable_reason, HasSubstr("global_batch=8"));
  EXPECT_EQ(arm_of(plan, "accumulation=4").not_applicable_reason, "");
}

TEST(MakePlan, UsesTheReasonOfTheWholeConfigToo) {
  MatrixRequest request = request_of("optimizer=loop|fused");
  request.baseline.num_accumulation = 4;
  const Plan plan = make_plan(request, vocabulary());
  EXPECT_EQ(arm_of(plan, "optimizer=loop").not_applicable_reason,
            "loop and accumulation 4 exclude each other");
}

TEST(MakePlan, RefusesIfNothingIsLeftToCompare) {
  EXPECT_THAT([] { make_plan(request_of("graph"), vocabulary()); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("nothing to compare"),
                                               HasSubstr("CUDA graphs need a CUDA device"))));
}

TEST(MakePlan, CopiesTheEvidenceOfTheLevelAndDevice) {
  const Arm arm = make_plan(request_of("attention=math"), vocabulary()).arms[1];
  ASSERT_EQ(arm.proof_claims.size(), 1U);
  EXPECT_EQ(arm.proof_claims[0].counter, "sdpa_math");
  EXPECT_EQ(arm.proof_claims[0].claim, Claim::kPresent);
}

TEST(MakePlan, TakesTheContractOfTheArmsConfig) {
  MatrixRequest request = request_of("accumulation=2");
  EXPECT_EQ(make_plan(request, vocabulary()).arms[1].contract, Contract::kSameMaths);
  request.baseline.accumulation_holds = AccumulationHolds::kMicroBatch;
  EXPECT_EQ(make_plan(request, vocabulary()).arms[1].contract, Contract::kSameTokens);
}

TEST(MakePlan, NamesTheNearestToggleAndLevel) {
  EXPECT_THAT([] { make_plan(request_of("atention"), vocabulary()); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("unknown toggle atention"),
                                               HasSubstr("did you mean attention?"))));
  EXPECT_THAT([] { make_plan(request_of("attention=mth"), vocabulary()); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("did you mean math?"), HasSubstr("math | flash | cudnn"))));
}

TEST(MakePlan, SaysThatAKeyIsNoToggle) {
  EXPECT_THAT([] { make_plan(request_of("sequence_length=256"), vocabulary()); },
              ThrowsMessage<ConfigError>(HasSubstr("--set sequence_length=")));
}

TEST(MakePlan, RefusesABaselineThatCannotRun) {
  MatrixRequest request = request_of("attention");
  request.baseline.global_batch_size = 0;
  EXPECT_THAT([&] { make_plan(request, vocabulary()); },
              ThrowsMessage<ConfigError>(HasSubstr("global_batch=0")));
  request = request_of("attention");
  request.baseline.optimizer = Optimizer::kLoop;
  request.baseline.num_accumulation = 4;
  EXPECT_THAT([&] { make_plan(request, vocabulary()); },
              ThrowsMessage<ConfigError>(HasSubstr("the baseline cannot run")));
  request = request_of("attention");
  request.baseline.world_size = 5'000;
  request.baseline.global_batch_size = 5'000;
  EXPECT_THAT([&] { make_plan(request, vocabulary()); },
              ThrowsMessage<ConfigError>(HasSubstr("ranks=5000")));
}

// ---- Grid. ----

TEST(MakePlan, CrossesTwoTogglesAndComparesNeighbours) {
  MatrixRequest request{.baseline = cpu_baseline(),
                        .grid = parse_toggle_choices("optimizer=fused,accumulation=2|4")};
  const Plan plan = make_plan(request, vocabulary());
  EXPECT_THAT(names(plan),
              ElementsAre("baseline", "optimizer=fused", "accumulation=2", "accumulation=4",
                          "optimizer=fused+accumulation=2", "optimizer=fused+accumulation=4"));
  for (const Arm& arm : plan.arms) {
    if (arm.is_baseline) continue;
    EXPECT_EQ(differing_fields(arm_of(plan, arm.reference).config, arm.config).size(), 1U)
        << arm.name;
  }
  const Arm& cell = arm_of(plan, "optimizer=fused+accumulation=4");
  EXPECT_EQ(cell.reference, "accumulation=4");
  EXPECT_EQ(cell.toggle, "optimizer");
  EXPECT_EQ(cell.level, "fused");
}

TEST(MakePlan, ComparesAGridCellWithTheNeighbourThatCanRun) {
  // accumulation=3 cannot run at a global batch of 8; it can where the micro-batch is held, but
  // here no neighbour of the cell does.
  MatrixRequest request{.baseline = cpu_baseline(),
                        .grid = parse_toggle_choices("optimizer=fused,accumulation=3")};
  const Plan plan = make_plan(request, vocabulary());
  EXPECT_THAT(arm_of(plan, "optimizer=fused+accumulation=3").not_applicable_reason,
              HasSubstr("global_batch=8"));
  // loop excludes accumulation=4, so that cell goes, and its neighbours stay.
  request.grid = parse_toggle_choices("optimizer=loop,accumulation=2|4");
  const Plan other = make_plan(request, vocabulary());
  EXPECT_EQ(arm_of(other, "optimizer=loop+accumulation=4").not_applicable_reason,
            "loop and accumulation 4 exclude each other");
  EXPECT_EQ(arm_of(other, "optimizer=loop+accumulation=2").not_applicable_reason, "");
}

TEST(MakePlan, RefusesAGridOfOneToggleOrOfItself) {
  MatrixRequest request{.baseline = cpu_baseline(), .grid = parse_toggle_choices("optimizer")};
  EXPECT_THROW(make_plan(request, vocabulary()), ConfigError);
  request.grid = {{"optimizer", {"fused"}}, {"optimizer", {"loop"}}};
  EXPECT_THROW(make_plan(request, vocabulary()), ConfigError);
}

// ---- A/A and external arms. ----

TEST(MakePlan, ChainsTheArmsOfAnAa) {
  const Plan plan = make_plan({.baseline = cpu_baseline(), .num_aa = 3}, vocabulary());
  EXPECT_THAT(names(plan), ElementsAre("aa-00", "aa-01", "aa-02", "aa-03"));
  EXPECT_EQ(plan.arms[0].reference, "");
  EXPECT_EQ(plan.arms[1].reference, "aa-00");
  EXPECT_EQ(plan.arms[3].reference, "aa-02");
  for (const Arm& arm : plan.arms) {
    EXPECT_TRUE(arm.is_baseline);
    EXPECT_THAT(differing_fields(arm.config, plan.baseline), IsEmpty());
  }
  EXPECT_EQ(plan.num_aa, 3);
}

TEST(MakePlan, RefusesAnAaWithToggles) {
  MatrixRequest request = request_of("attention");
  request.num_aa = 2;
  EXPECT_THAT([&] { make_plan(request, vocabulary()); },
              ThrowsMessage<ConfigError>(HasSubstr("A/A")));
}

TEST(MakePlan, AddsExternalArmsWithoutTheirFolders) {
  MatrixRequest request{.baseline = cpu_baseline(),
                        .external_arms = parse_external_arms("baseline,shell,mine=/bin/cat")};
  const Plan plan = make_plan(request, vocabulary());
  EXPECT_THAT(names(plan), ElementsAre("baseline", "shell", "mine"));
  EXPECT_THAT(plan.arms[2].command, ElementsAre("cat"));
  EXPECT_TRUE(plan.arms[2].is_users_program);
  EXPECT_FALSE(plan.arms[1].is_users_program);
  EXPECT_THAT(plan.commands.at("mine"), ElementsAre("/bin/cat"));
  EXPECT_THAT(plan.commands.at("shell"), ElementsAre("/bin/sh"));
  // Another program differs in more than one key.
  EXPECT_FALSE(plan.arms[1].is_single_variable);
}

TEST(MakePlan, ClaimsOnlyWhatCanBeSeenInBothArms) {
  static constexpr EvidenceRule kRules[] = {
      {"fused", Device::kCpu, "everywhere", Claim::kPresent},
      {"fused", Device::kCpu, "alone", Claim::kAbsent, Sight::kOutsidePackages},
      {"fused", Device::kCpu, "compared", Claim::kFewerThanReference, Sight::kOutsidePackages},
      {"fused", Device::kCpu, "inside", Claim::kPresent, Sight::kInPackages},
  };
  const std::vector<Toggle> toggles = {
      {.name = "optimizer",
       .key = "optimizer",
       .levels = testing_support::kOptimizer,
       .evidence = kRules},
      {.name = "compile", .key = "compile", .levels = testing_support::kCompile}};
  PlanVocabulary small = vocabulary();
  small.toggles = toggles;
  const auto claimed = [&](Compile reference, std::string_view arms) {
    MatrixRequest request{.baseline = cpu_baseline(), .external_arms = parse_external_arms(arms)};
    request.baseline.compile = reference;
    request.baseline.optimizer = Optimizer::kLoop;
    std::vector<std::string> counters;
    const Plan plan = make_plan(request, small);
    for (const ProofClaim& claim : plan.arms[1].proof_claims) {
      counters.push_back(claim.counter);
    }
    return counters;
  };
  EXPECT_THAT(claimed(Compile::kOff, "a:optimizer=fused"),
              ElementsAre("everywhere", "alone", "compared"));
  EXPECT_THAT(claimed(Compile::kAoti, "a:optimizer=fused"), ElementsAre("everywhere", "inside"));
  EXPECT_THAT(claimed(Compile::kAoti, "a:optimizer=fused+compile=off"),
              ElementsAre("everywhere", "alone"));
  EXPECT_THAT(claimed(Compile::kOff, "a:optimizer=fused+compile=aoti"),
              ElementsAre("everywhere", "inside"));
}

TEST(MakePlan, SetsSeveralKeysInOneArmAndProvesEachToggleOfThem) {
  MatrixRequest request{
      .baseline = cpu_baseline(),
      .external_arms = parse_external_arms("both:attention=math+optimizer=loop+num_threads=2")};
  const Plan plan = make_plan(request, vocabulary());
  EXPECT_THAT(names(plan), ElementsAre("baseline", "both"));
  const Arm& both = plan.arms[1];
  EXPECT_EQ(both.config.attention, Attention::kMath);
  EXPECT_EQ(both.config.optimizer, Optimizer::kLoop);
  EXPECT_EQ(both.config.num_threads, 2);
  EXPECT_FALSE(both.is_single_variable);
  EXPECT_TRUE(both.command.empty());
  EXPECT_EQ(both.reference, "baseline");
  std::size_t num_claims = 0;
  for (const char* one : {"attention=math", "optimizer=loop"}) {
    num_claims += make_plan(request_of(one), vocabulary()).arms[1].proof_claims.size();
  }
  EXPECT_GT(num_claims, 0u);
  EXPECT_EQ(both.proof_claims.size(), num_claims);

  request.external_arms = parse_external_arms("same:attention=flash");
  EXPECT_THAT([&] { make_plan(request, vocabulary()); },
              ThrowsMessage<ConfigError>(HasSubstr("same:attention=flash is the baseline itself")));
  request.external_arms = parse_external_arms("wrong:attention=flsh");
  EXPECT_THAT([&] { make_plan(request, vocabulary()); },
              ThrowsMessage<ConfigError>(HasSubstr("flsh")));
  request.external_arms = parse_external_arms("wrong:attentio=flash");
  EXPECT_THAT([&] { make_plan(request, vocabulary()); },
              ThrowsMessage<ConfigError>(HasSubstr("did you mean attention?")));
}

TEST(MakePlan, RunsOnSeveralRanksOnlyTheArmsThatTakeTheirPlace) {
  MatrixRequest request{.baseline = cpu_baseline(),
                        .external_arms = parse_external_arms("shell,env,mine=/bin/cat")};
  request.baseline.world_size = 2;
  PlanVocabulary words = vocabulary();
  words.external_arms.push_back({.name = "env", .script = "env", .runs_on_ranks = true});
  const Plan plan = make_plan(request, words);
  EXPECT_THAT(names(plan), ElementsAre("baseline", "shell", "env", "mine"));
  EXPECT_EQ(plan.arms[1].not_applicable_reason, "this arm runs on one rank");
  EXPECT_EQ(plan.arms[2].not_applicable_reason, "");
  EXPECT_EQ(plan.arms[3].not_applicable_reason, "this arm runs on one rank");
}

TEST(MakePlan, RefusesUnknownAndUnusableExternalArms) {
  MatrixRequest request{.baseline = cpu_baseline(), .external_arms = parse_external_arms("shel")};
  EXPECT_THAT([&] { make_plan(request, vocabulary()); },
              ThrowsMessage<ConfigError>(HasSubstr("did you mean shell?")));
  request.external_arms = parse_external_arms("mine=/nowhere/at/all");
  EXPECT_THAT([&] { make_plan(request, vocabulary()); },
              ThrowsMessage<ConfigError>(HasSubstr("/nowhere/at/all")));
}

TEST(MakePlan, GivesAnExternalArmItsContract) {
  MatrixRequest request{.baseline = cpu_baseline(),
                        .external_arms = parse_external_arms("shell,env,mine=/bin/cat")};
  PlanVocabulary words = vocabulary();
  words.external_arms.push_back(
      {.name = "env", .script = "env", .contract = Contract::kForwardOnly});
  const Plan plan = make_plan(request, words);
  EXPECT_EQ(plan.arms[1].contract, Contract::kSameMaths);
  EXPECT_EQ(plan.arms[2].contract, Contract::kForwardOnly);
  EXPECT_EQ(plan.arms[3].contract, Contract::kSameMaths);
}

// ---- Numbers. ----

TEST(MakePlan, RunsTwelveRoundsAndMoreUntilAHalfwidth) {
  MatrixRequest request = request_of("attention");
  EXPECT_EQ(make_plan(request, vocabulary()).num_rounds, 12);
  request.until_halfwidth_ratio = 0.002;
  EXPECT_EQ(make_plan(request, vocabulary()).num_rounds, 60);
}

TEST(MakePlan, RefusesNumbersOutOfRange) {
  const auto refuses = [](auto change) {
    MatrixRequest request = request_of("attention");
    change(request);
    EXPECT_THROW(make_plan(request, vocabulary()), ConfigError);
  };
  refuses([](MatrixRequest& r) { r.num_rounds = 0; });
  refuses([](MatrixRequest& r) { r.num_rounds = -3; });
  refuses([](MatrixRequest& r) { r.equivalence_ratio = 1.0; });
  refuses([](MatrixRequest& r) { r.until_halfwidth_ratio = 0.0; });
  refuses([](MatrixRequest& r) {
    r.until_halfwidth_ratio = 0.01;
    r.num_rounds = 12;  // It looks from round 12 on: never before the end.
  });
  refuses([](MatrixRequest& r) { r.num_warmup_steps = -1; });
}

TEST(MakePlan, RoundsGivenStepsSoThatAllArmsShareTheRows) {
  MatrixRequest request = request_of("accumulation=2|4");
  request.baseline.accumulation_holds = AccumulationHolds::kMicroBatch;
  request.num_warmup_steps = 5;
  request.num_measured_steps = 9;
  const Plan plan = make_plan(request, vocabulary());
  EXPECT_EQ(plan.num_warmup_steps, 8);
  EXPECT_EQ(plan.num_measured_steps, 12);
}

TEST(MakePlan, RefusesAWarmupThatEndsBeforeTheCapture) {
  MatrixRequest request = request_of("graph,optimizer");
  request.baseline.device = Device::kCuda;
  request.num_warmup_steps = 5;
  EXPECT_THAT([&] { make_plan(request, vocabulary()); },
              ThrowsMessage<ConfigError>(testing::AllOf(testing::StartsWith("warmup=5:"),
                                                        testing::HasSubstr("arm graph=on"),
                                                        testing::HasSubstr("at least 6"))));
  request.num_warmup_steps = 6;
  EXPECT_NO_THROW(make_plan(request, vocabulary()));
  request.toggles = parse_toggle_choices("optimizer");
  request.num_warmup_steps = 1;  // Nothing is captured: what was asked for.
  EXPECT_NO_THROW(make_plan(request, vocabulary()));
}

// ---- Resume. ----

Manifest manifest_of(const Plan& plan) {
  return {.baseline = plan.baseline,
          .arms = plan.arms,
          .num_aa = plan.num_aa,
          .seed = plan.seed,
          .num_rounds_planned = plan.num_rounds,
          .until_halfwidth_ratio = plan.until_halfwidth_ratio,
          .equivalence_ratio = plan.equivalence_ratio,
          .num_warmup_steps = plan.num_warmup_steps,
          .num_measured_steps = plan.num_measured_steps};
}

TEST(RefuseOtherPlan, AcceptsTheSameRequest) {
  const Plan plan = make_plan(request_of("attention,optimizer"), vocabulary());
  Manifest manifest = manifest_of(plan);
  EXPECT_NO_THROW(refuse_other_plan(plan, manifest));
  EXPECT_NO_THROW(refuse_other_plan(plan_of(manifest), manifest));
  // What pilots decided is no difference.
  manifest.num_warmup_steps = 40;
  EXPECT_NO_THROW(refuse_other_plan(plan, manifest));
}

TEST(RefuseOtherPlan, NamesTheFieldThatDiffers) {
  const Manifest manifest = manifest_of(make_plan(request_of("attention"), vocabulary()));
  const auto expect_field = [&](std::string_view field, auto change) {
    MatrixRequest request = request_of("attention");
    change(request);
    EXPECT_THAT([&] { refuse_other_plan(make_plan(request, vocabulary()), manifest); },
                ThrowsMessage<ConfigError>(testing::StartsWith(std::string(field) + ":")));
  };
  expect_field("seed", [](MatrixRequest& r) { r.seed = 2; });
  expect_field("rounds", [](MatrixRequest& r) { r.num_rounds = 13; });
  expect_field("sequence_length", [](MatrixRequest& r) { r.baseline.sequence_length = 32; });
  expect_field("arms", [](MatrixRequest& r) { r.toggles = parse_toggle_choices("optimizer"); });
  expect_field("equivalence", [](MatrixRequest& r) { r.equivalence_ratio = 1.02; });
  expect_field("warmup", [](MatrixRequest& r) { r.num_warmup_steps = 7; });
}

}  // namespace
}  // namespace steplens
