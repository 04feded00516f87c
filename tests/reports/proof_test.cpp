#include "reports/proof.h"

#include "tests/reports/bundle_builder.h"
#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "harness/temporary_folder.h"
#include "harness/trace/trace_writer.h"

namespace steplens {
namespace {

using ::testing::HasSubstr;

ProofResult prove_claims(std::vector<ProofClaim> claims,
                         const std::map<std::string, double>& candidate,
                         const std::map<std::string, double>& reference,
                         const std::string& key = "attention", const std::string& level = "math") {
  BundleBuilder builder;
  builder.add_arm(key, level).proof_claims = std::move(claims);
  builder.add_pilot("baseline", reference);
  builder.add_pilot(key + "=" + level, candidate);
  const Bundle bundle = builder.bundle();
  return prove(bundle, bundle.manifest.arms[1]);
}

TEST(Prove, WantsEveryClaimToHold) {
  const std::vector<ProofClaim> claims = {{"math", Claim::kPresent}, {"flash", Claim::kAbsent}};
  EXPECT_EQ(prove_claims(claims, {{"math", 12}}, {{"flash", 12}}).proof, Proof::kProven);
  EXPECT_EQ(prove_claims(claims, {{"math", 12}, {"flash", 1}}, {{"flash", 12}}).proof,
            Proof::kNoEffect);
  EXPECT_EQ(prove_claims(claims, {{"flash", 0}}, {{"flash", 12}}).proof, Proof::kNoEffect);
}

TEST(Prove, SaysWhichClaimFailedWithItsCounts) {
  const ProofResult result =
      prove_claims({{"flash", Claim::kAbsent}}, {{"flash", 24}}, {{"flash", 12}});
  EXPECT_EQ(result.reason, "claimed, but not so: flash absent: 24 a step against 12");
  ASSERT_EQ(result.checks.size(), 1U);
  EXPECT_EQ(result.checks[0].candidate_count, 24);
  EXPECT_EQ(result.checks[0].reference_count, 12);
  EXPECT_EQ(result.checks[0].holds, false);
}

TEST(Prove, ComparesACountWithTheLevel) {
  const std::vector<ProofClaim> claims = {{"forward_passes", Claim::kEqualsLevel}};
  EXPECT_EQ(
      prove_claims(claims, {{"forward_passes", 4}}, {{"forward_passes", 1}}, "accumulation", "4")
          .proof,
      Proof::kProven);
  EXPECT_EQ(
      prove_claims(claims, {{"forward_passes", 1}}, {{"forward_passes", 1}}, "accumulation", "4")
          .proof,
      Proof::kNoEffect);
}

TEST(Prove, ComparesCountsWithTheReferencesPilotStrictly) {
  const std::vector<ProofClaim> more = {{"n", Claim::kMoreThanReference}};
  const std::vector<ProofClaim> fewer = {{"n", Claim::kFewerThanReference}};
  EXPECT_EQ(prove_claims(more, {{"n", 5}}, {{"n", 4}}).proof, Proof::kProven);
  EXPECT_EQ(prove_claims(more, {{"n", 4}}, {{"n", 4}}).proof, Proof::kNoEffect);
  EXPECT_EQ(prove_claims(fewer, {{"n", 3}}, {{"n", 4}}).proof, Proof::kProven);
  EXPECT_EQ(prove_claims(fewer, {{"n", 4}}, {{"n", 4}}).proof, Proof::kNoEffect);
  const std::vector<ProofClaim> other = {{"n", Claim::kOtherThanReference}};
  EXPECT_EQ(prove_claims(other, {{"n", 3}}, {{"n", 4}}).proof, Proof::kProven);
  EXPECT_EQ(prove_claims(other, {{"n", 5}}, {{"n", 4}}).proof, Proof::kProven);
  EXPECT_EQ(prove_claims(other, {{"n", 4}}, {{"n", 4}}).proof, Proof::kNoEffect);
}

TEST(Prove, CountsACounterThatThePilotLacksAsZero) {
  EXPECT_EQ(prove_claims({{"n", Claim::kFewerThanReference}}, {{"other", 1}}, {{"n", 4}}).proof,
            Proof::kProven);
}

TEST(Prove, ChecksNothingWithoutAPilot) {
  BundleBuilder builder;
  builder.add_arm("attention", "math").proof_claims = {{"math", Claim::kPresent}};
  const Bundle bundle = builder.bundle();
  const ProofResult result = prove(bundle, bundle.manifest.arms[1]);
  EXPECT_EQ(result.proof, Proof::kNotChecked);
  EXPECT_EQ(result.reason, "no pilot of this arm has counters");
}

TEST(Prove, ChecksNothingWhereTheReferencesPilotIsMissing) {
  BundleBuilder builder;
  builder.add_arm("attention", "math").proof_claims = {{"n", Claim::kMoreThanReference}};
  builder.add_pilot("attention=math", {{"n", 3}});
  const Bundle bundle = builder.bundle();
  const ProofResult result = prove(bundle, bundle.manifest.arms[1]);
  EXPECT_EQ(result.proof, Proof::kNotChecked);
  EXPECT_THAT(result.reason, HasSubstr("a count is missing"));
}

TEST(Prove, ChecksNothingWithoutClaims) {
  EXPECT_EQ(prove_claims({}, {{"n", 1}}, {{"n", 1}}).proof, Proof::kNotChecked);
}

TEST(Prove, ReadsTheLastPilotThatWentWell) {
  BundleBuilder builder;
  builder.add_arm("attention", "math").proof_claims = {{"math", Claim::kPresent}};
  builder.add_pilot("attention=math", {{"flash", 1}});
  builder.manifest().blocks.back().is_superseded = true;
  builder.add_pilot("attention=math", {{"math", 1}});
  const Bundle bundle = builder.bundle();
  EXPECT_EQ(prove(bundle, bundle.manifest.arms[1]).proof, Proof::kProven);
}

TEST(ProofNames, ReadBack) {
  for (const Proof proof : {Proof::kProven, Proof::kNoEffect, Proof::kNotChecked}) {
    EXPECT_EQ(proof_from_name(name_of(proof)), proof);
  }
  EXPECT_THROW(proof_from_name("perhaps"), ConfigError);
}

TEST(Prove, HoldsAnArmWithATraceToWhatItsKernelsShow) {
  BundleBuilder builder;
  builder.add_arm("attention", "math").proof_claims = {
      {"math", Claim::kPresent},
      {"trace.attention_softmax", Claim::kPresent},
      {"trace.attention_flash", Claim::kAbsent},
      {"trace.kernels", Claim::kMoreThanReference}};
  builder.add_pilot("baseline", {{"flash", 12}});
  builder.add_pilot("attention=math", {{"math", 12}});
  const auto proof = [&] {
    const Bundle bundle = builder.bundle();
    return prove(bundle, bundle.manifest.arms[1]);
  };
  // Without a trace the pilots decide.
  EXPECT_EQ(proof().proof, Proof::kProven);
  EXPECT_EQ(proof().checks.size(), 1U);

  builder.add_block("baseline", BlockKind::kTrace, -1, 1'000'000).evidence["trace_counters"] = {
      {"kernels", 1000.0}, {"attention_flash", 24.0}};
  nlohmann::json& counters = builder.add_block("attention=math", BlockKind::kTrace, -1, 1'000'000)
                                 .evidence["trace_counters"];
  counters = {{"kernels", 1100.0}, {"attention_softmax", 12.0}};
  EXPECT_EQ(proof().proof, Proof::kProven);
  EXPECT_EQ(proof().checks.size(), 4U);
  counters["attention_flash"] = 12.0;  // The operator says math, the kernels say flash.
  EXPECT_EQ(proof().proof, Proof::kNoEffect);
  EXPECT_THAT(proof().reason, HasSubstr("trace.attention_flash absent: 12 a step against 24"));
}

// A step of 100 ns of computation and an all-reduce that ends with it or begins behind it.
Trace step_with_all_reduce(std::int64_t start_ns) {
  TraceBuilder builder;
  builder.trace().steps.push_back({.start_ns = 0, .end_ns = 200});
  builder.kernel("gemm", 0, 100, 0, "step/micro-step/backward");
  builder.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start_ns, start_ns + 40, 0,
                 "step/micro-step/backward");
  return std::move(builder.trace());
}

TEST(Prove, CountsInTheTracesWhatTheirProgramDidNotKnow) {
  BundleBuilder builder;
  builder.add_arm("overlap", "off").proof_claims = {
      {"trace.overlapped_communication", Claim::kFewerThanReference}};
  builder.add_pilot("baseline", {{"all_reduces", 1}});
  builder.add_pilot("overlap=off", {{"all_reduces", 1}});
  const TemporaryFolder folder;
  for (const char* arm : {"baseline", "overlap=off"}) {
    builder.add_block(arm, BlockKind::kTrace, -1, 1'000'000).evidence["trace_counters"] = {
        {"kernels", 2.0}};
  }
  const auto proof = [&] {
    Bundle bundle = builder.bundle();
    bundle.folder = folder.path();
    return prove(bundle, bundle.manifest.arms[1]);
  };
  // Without the files the counters are all there is.
  EXPECT_EQ(proof().proof, Proof::kNoEffect);

  builder.write(folder.path());
  const std::vector<BlockEntry> blocks = builder.manifest().blocks;  // The traces are the last.
  const auto file_of = [&](const BlockEntry& block) {
    return block_path(folder.path(), block).parent_path() / kTraceFileName;
  };
  write_trace(file_of(blocks[blocks.size() - 2]), step_with_all_reduce(60));
  write_trace(file_of(blocks.back()), step_with_all_reduce(110));
  EXPECT_EQ(proof().proof, Proof::kProven);
  EXPECT_THAT(proof().reason, HasSubstr("0 a step against 1"));
}

TEST(Prove, SaysWhyAnArmThatNeverRanHasNoCounters) {
  BundleBuilder builder;
  builder.add_arm("attention", "math").proof_claims = {{"math", Claim::kPresent}};
  builder.manifest().failed_arms["attention=math"] =
      "unsupported: attention=math cannot run with float32, head_dim 16";
  const Bundle bundle = builder.bundle();
  EXPECT_EQ(prove(bundle, bundle.manifest.arms[1]).reason,
            "no pilot of this arm has counters: unsupported: attention=math cannot run with "
            "float32, head_dim 16");
}

TEST(Prove, SaysWhatTheDispatcherSawWhereAttentionFellBack) {
  BundleBuilder builder;
  builder.add_arm("attention", "math").proof_claims = {{"math", Claim::kPresent}};
  builder.add_pilot("baseline", {{"flash", 12}});
  builder.add_pilot("attention=math", {{"flash", 12}});
  BlockRecord& block = builder.add_block("attention=math", BlockKind::kThroughput, 0, 1'000'000);
  block.evidence["attention"] = {{"wanted", "math"},        {"chosen", "none"},
                                 {"would_choose", "flash"}, {"why_not", "too long"},
                                 {"dtype", "float"},        {"head_dim", 16},
                                 {"num_heads", 4},          {"num_kv_heads", 2},
                                 {"mask", "causal"},        {"sequence_length", 512}};
  const auto reason = [&] {
    const Bundle bundle = builder.bundle();
    const ProofResult result = prove(bundle, bundle.manifest.arms[1]);
    EXPECT_EQ(result.proof, Proof::kNoEffect);
    return result.reason;
  };
  EXPECT_THAT(reason(), HasSubstr("; asked for math with float, head_dim 16, 4 heads over 2 "
                                  "key-value heads, a causal mask and sequence_length 512, the "
                                  "library takes flash: too long"));
  block.evidence["attention"]["chosen"] = "math";
  block.evidence["attention"]["would_choose"] = nullptr;
  block.evidence["attention"]["why_not"] = nullptr;
  EXPECT_THAT(reason(), HasSubstr("sequence_length 512, the library takes math"));
}

}  // namespace
}  // namespace steplens
