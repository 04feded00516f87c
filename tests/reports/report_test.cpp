#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/effect_plot.h"
#include "reports/markdown.h"
#include "reports/section.h"

namespace steplens {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string report_of(const Bundle& bundle) {
  const Results results = compute_results(bundle);
  return report_markdown(make_document({.bundle = bundle, .results = results}));
}

// The text from one heading to the next.
std::string section_of(const std::string& report, const std::string& title) {
  const std::size_t begin = report.find("## " + title + "\n");
  if (begin == std::string::npos) return {};
  return report.substr(begin, report.find("\n## ", begin) - begin);
}

TEST(AllSections, ListsEveryFileInSectionsFolder) {
  std::set<std::string> files;
  const std::filesystem::path folder =
      std::filesystem::path(STEPLENS_SOURCE_DIR) / "reports" / "sections";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.insert(entry.path().stem().string());
  }
  std::set<std::string> keys;
  for (const Section& section : all_sections()) {
    keys.insert(std::string(section.key) + "_section");
  }
  EXPECT_EQ(keys, files);
  EXPECT_EQ(keys.size(), all_sections().size()) << "two sections have one key";
}

TEST(Report, BeginsWithTheAnswerAndTheBaseline) {
  EXPECT_THAT(
      report_of(eight_rounds().bundle()),
      StartsWith("# nano on the CPU: throughput matrix\n"
                 "\n"
                 "**Fastest: optimizer=fused, +3.08 % [3.02, 3.14] over the baseline.**\n"
                 "\n"
                 "Baseline: device=cpu, model=nano, precision=fp32, attention=flash, "
                 "optimizer=foreach, accumulation=1, graph=off, checkpoint=off, "
                 "data=prefetch, batching=packed, allocator=default: 999,100 tokens/s, 1.001 "
                 "ms a step.\n"));
}

TEST(Report, HoldsTheMatrixAndSaysWhatTheIntervalsMean) {
  const std::string matrix = section_of(report_of(eight_rounds().bundle()), "Matrix");
  EXPECT_THAT(matrix, HasSubstr("| optimizer=fused | 1,030,000 | 971.0 us | +3.08 % [3.02, 3.14] | "
                                "0.008 | FASTER |"));
  EXPECT_THAT(matrix, HasSubstr("per comparison: the intervals are not simultaneous"));
  EXPECT_THAT(matrix, HasSubstr("hold for all 2 comparisons together"));
}

TEST(Report, SaysThatNothingIsMeasuredWithoutACompleteRound) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.manifest().stop_reason = "";
  builder.manifest().num_measured_steps = 0;
  const std::string report = report_of(builder.bundle());
  EXPECT_THAT(report, HasSubstr("**Nothing is measured: no round is complete.**"));
  EXPECT_THAT(section_of(report, "What could be wrong with this"),
              HasSubstr("The matrix is unfinished: 0 of 12 rounds are complete."));
  EXPECT_EQ(section_of(report, "Effects"), "");
  EXPECT_EQ(section_of(report, "Steps"), "");
}

TEST(Report, SurvivesAnEmptyManifest) {
  EXPECT_THAT(report_of(Bundle{.folder = "x"}), HasSubstr("Nothing is measured"));
}

TEST(Report, ShowsCountsOfTheProof) {
  BundleBuilder builder = eight_rounds();
  builder.manifest().arms[1].proof_claims = {{"aten::_fused_adamw_", Claim::kPresent}};
  builder.add_pilot("baseline", {{"aten::_foreach_lerp_", 2}});
  builder.add_pilot("optimizer=fused", {{"aten::_fused_adamw_", 1}});
  const std::string proof = section_of(report_of(builder.bundle()), "Did each switch take effect?");
  EXPECT_THAT(proof, HasSubstr("| optimizer=fused | aten::_fused_adamw_ present | 1 | 0 | yes |"));
  EXPECT_THAT(proof,
              HasSubstr("Not checked, because its row claims nothing that a counter could show: "
                        "checkpoint=full"));
}

TEST(Report, ShowsWhatTheGuardsFound) {
  BundleBuilder builder = eight_rounds();
  for (double& loss : builder.block("optimizer=fused", 5).steps.loss) loss *= 1.003;
  const std::string guards = section_of(report_of(builder.bundle()), "Same work, same maths?");
  // Four of six steps deviate by 3e-3.
  EXPECT_THAT(guards, HasSubstr("| optimizer=fused | optimizer | same_maths | 2.0e-03 of 1.0e-05 | "
                                "0 of 1.0e-04 | FAIL |"));
  EXPECT_THAT(guards, HasSubstr("| checkpoint=full | checkpoint | same_maths | 0 of 1.0e-05 | "
                                "0 of 1.0e-04 | pass |"));
  EXPECT_THAT(guards, HasSubstr("- optimizer=fused, round 5: loss leaves that of baseline"));
}

TEST(Report, ShowsTheLastLinesOfWhatFailed) {
  BundleBuilder builder = eight_rounds();
  builder.add_failure("checkpoint=full", 8, BlockStatus::kCrash, "died of SIGSEGV")
      .evidence["last_output_lines"] = {"step 3", "Segmentation fault"};
  const std::string failures = section_of(report_of(builder.bundle()), "Blocks that failed");
  EXPECT_THAT(failures, HasSubstr("checkpoint=full (block 0024-checkpoint-full): crash: died of "
                                  "SIGSEGV"));
  EXPECT_THAT(failures, HasSubstr("```\nstep 3\nSegmentation fault\n```"));
}

TEST(Report, SaysWhatCouldHaveBeenSeen) {
  // 1.0009138988 by SciPy: 0.0914 %.
  EXPECT_THAT(section_of(report_of(eight_rounds().bundle()), "What this run could have seen"),
              HasSubstr("| optimizer=fused | 8 | 0.237 % | 0.0596 % | 0.008 | 0.0914 % |"));
}

TEST(Report, TellsHowItWasMeasured) {
  BundleBuilder builder = eight_rounds();
  builder.manifest().environment = {{"gpu", {{"driver_version", "580.159"}}},
                                    {"memory_bytes", 137438953472}};
  const std::string method = section_of(report_of(builder.bundle()), "How it was measured");
  EXPECT_THAT(method, HasSubstr("2 warm-up steps thrown away, 4 measured"));
  EXPECT_THAT(method, HasSubstr("drawn anew from seed 7"));
  EXPECT_THAT(method, HasSubstr("| gpu.driver_version | 580.159 |"));
  EXPECT_THAT(method, HasSubstr("| memory_bytes | 128 GiB |"));
  EXPECT_THAT(method, HasSubstr("| torch_version | 2.11.0 |"));
  EXPECT_THAT(method, HasSubstr("weight_decay=0.1"));
}

TEST(Report, NamesTheRankThatStandsOut) {
  BundleBuilder builder = eight_rounds();
  for (Arm& arm : builder.manifest().arms) arm.config.world_size = 2;
  builder.edit_blocks("baseline", [](BlockRecord& block) {
    block.world_size = 2;
    const auto num_steps = static_cast<std::int64_t>(block.steps.size());
    block.evidence["ranks"] = {{{"rank", 0},
                                {"data_wait_ns", 20'000 * num_steps},
                                {"mean_sm_clock_mhz", 1980},
                                {"peak_allocated_bytes", 3 << 20}},
                               {{"rank", 1},
                                {"data_wait_ns", 50'000 * num_steps},
                                {"mean_sm_clock_mhz", 1755},
                                {"peak_allocated_bytes", 3 << 20}}};
  });
  const std::string ranks = section_of(report_of(builder.bundle()), "Ranks");
  EXPECT_THAT(ranks, HasSubstr("| baseline | 1,755 MHz (rank 1) | 1,980 MHz (rank 0) | "
                               "50.00 us (rank 1) | 3.00 MiB |"));
  EXPECT_THAT(ranks, HasSubstr("of the rank out of 2"));
  EXPECT_THAT(ranks, Not(HasSubstr("optimizer=fused")));  // Its blocks say nothing of ranks.
}

TEST(Report, HasNoRanksForOne) {
  EXPECT_THAT(report_of(eight_rounds().bundle()), Not(HasSubstr("## Ranks")));
}

TEST(Report, PrintsTheCommandThatRepeatsIt) {
  BundleBuilder builder = eight_rounds();
  builder.add_arm("checkpoint", "off").name = "torch-eager";
  builder.manifest().arms.back().command = {"torch_step.py"};
  Arm& own = builder.add_arm("checkpoint", "off");
  own.name = "mine";
  own.command = {"step.sh"};
  own.is_users_program = true;
  Arm& both = builder.add_arm("checkpoint", "full");
  both.name = "both";
  both.toggle.clear();
  both.is_single_variable = false;
  both.config.num_accumulation = 2;
  const std::string reproduce =
      section_of(report_of(builder.bundle()), "How to check and repeat it");
  EXPECT_THAT(reproduce, HasSubstr("steplens verify example\n"));
  EXPECT_THAT(
      reproduce,
      HasSubstr(
          "steplens matrix \\\n"
          "  --device cpu \\\n"
          "  --model nano \\\n"
          "  --set num_layers=2 \\\n"
          "  --set d_model=64 \\\n"
          "  --set num_heads=4 \\\n"
          "  --set num_kv_heads=4 \\\n"
          "  --set head_dim=16 \\\n"
          "  --set ffn_width=128 \\\n"
          "  --set vocab_size=256 \\\n"
          "  --set global_batch=8 \\\n"
          "  --toggles optimizer=fused,checkpoint=full \\\n"
          "  --arms torch-eager,mine=/path/to/step.sh,both:accumulation=2+checkpoint=full \\\n"
          "  --rounds 8 \\\n"
          "  --seed 7 \\\n"
          "  --warmup 2 --steps 4\n"));
}

TEST(Report, PrintsAGridAndQuotesWhatTheShellWouldRead) {
  BundleBuilder builder;
  builder.manifest().until_halfwidth_ratio = 0.002;
  builder.manifest().equivalence_ratio = 1.02;
  builder.add_arm("attention", "math");
  builder.add_arm("attention", "mem_efficient");
  builder.add_arm("checkpoint", "full");
  for (const char* level : {"math", "mem_efficient"}) {
    Arm& cell = builder.add_arm("attention", level);
    cell.name += "+checkpoint=full";
    cell.reference = "checkpoint=full";
  }
  builder.add_arm("optimizer", "loop");
  builder.add_arm("optimizer", "fused");
  const std::string reproduce =
      section_of(report_of(builder.bundle()), "How to check and repeat it");
  EXPECT_THAT(reproduce, HasSubstr("--toggles 'optimizer=loop|fused' \\\n"
                                   "  --grid 'attention=math|mem_efficient,checkpoint=full' \\\n"));
  EXPECT_THAT(reproduce, HasSubstr("--until-halfwidth 0.002 \\\n  --equivalence 1.02 \\\n"));
}

TEST(Report, HoldsNoFolderOfThisMachine) {
  Bundle bundle = eight_rounds().bundle();
  bundle.folder = "/home/somebody/runs/example/";
  const std::string report = report_of(bundle);
  EXPECT_THAT(report, Not(HasSubstr("somebody")));
  EXPECT_THAT(report, HasSubstr("steplens verify example"));
}

TEST(EffectsSvg, DrawsARowForEveryInterval) {
  const std::string svg = effects_svg(compute_results(eight_rounds().bundle()));
  EXPECT_THAT(svg, StartsWith("<svg xmlns="));
  EXPECT_THAT(svg, HasSubstr(">optimizer=fused</text>"));
  EXPECT_THAT(svg, HasSubstr(">+3.08 % [3.02, 3.14]</text>"));
  // Faster: a filled blue circle. Names of 15 letters leave 16 + 15 x 8 = 136 on the left; the
  // axis runs over 420 from -0.1256 to 3.1441 and 4 % of that on both sides; the effect is 3.0845.
  EXPECT_THAT(svg, HasSubstr("<circle cx=\"533.4\" cy=\"43.0\" r=\"5\" fill=\"#0072B2\""));
  // Equivalent: a green square.
  EXPECT_THAT(svg, HasSubstr("width=\"9\" height=\"9\" fill=\"#009E73\""));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(EffectsSvg, EscapesNames) {
  Results results = compute_results(eight_rounds().bundle());
  results.arms[1].name = "a<b&c";
  EXPECT_THAT(effects_svg(results), HasSubstr(">a&lt;b&amp;c</text>"));
}

TEST(EffectsSvg, IsEmptyWithoutIntervals) {
  EXPECT_EQ(effects_svg(compute_results(BundleBuilder().bundle())), "");
}

}  // namespace
}  // namespace steplens
