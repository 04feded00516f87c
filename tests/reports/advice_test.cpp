// One planted bottleneck a rule, in a step that is otherwise clean: the rule must find it, with the
// bound that the planted time gives, and no other rule may speak.

#include "reports/advice/advice.h"

#include <algorithm>
#include <functional>

#include "tests/reports/bundle_builder.h"
#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kUs = 1000;
constexpr int kNumSteps = 3;  // And one more, whose end nobody sees.

// How the host came to launch a kernel.
enum class Launch { kAhead, kLate, kAfterData, kAfterWait };

struct Kernel {
  std::string name;
  std::int64_t duration_ns = 0;
  std::string path;
  std::int64_t gap_ns = 0;  // Idle before it.
  Launch launch = Launch::kAhead;
  bool is_hidden = false;  // Runs on another stream, behind the kernel before it.
};

// 10 ms of products, cuDNN's attention, a fused update, and little else.
std::vector<Kernel> clean_step() {
  const std::string forward = "step/micro-step/forward/block 0/";
  const std::string backward = "step/micro-step/backward/block 0/";
  return {
      {"nvjet_tst_256x128", 2300 * kUs, forward + "mlp"},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma", 300 * kUs, forward + "attention"},
      {"vectorized_elementwise_kernel", 500 * kUs, forward + "mlp"},
      {"rms_norm_kernel", 200 * kUs, forward + "norm"},
      {"nvjet_tst_128x256", 4800 * kUs, backward + "mlp"},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma", 600 * kUs,
       backward + "attention"},
      {"elementwise_kernel", 800 * kUs, backward + "mlp"},
      {"rms_norm_backward_kernel", 400 * kUs, backward + "norm"},
      {"multi_tensor_apply_kernel<FusedAdamMathFunctor>", 100 * kUs, "step/optimizer"}};
}

Trace trace_of(const std::vector<Kernel>& step) {
  TraceBuilder builder;
  std::int64_t now_ns = 1'000'000;
  for (int i = 0; i <= kNumSteps; ++i) {
    const std::int64_t start_ns = now_ns;
    for (const Kernel& kernel : step) {
      const std::int64_t idle_ns = now_ns;
      now_ns += kernel.gap_ns;
      const std::int64_t begin_ns = kernel.is_hidden ? now_ns - kernel.duration_ns : now_ns;
      builder.kernel(kernel.name, begin_ns, begin_ns + kernel.duration_ns, i, kernel.path)
          .stream_id = kernel.is_hidden ? 9 : 7;
      switch (kernel.launch) {
        case Launch::kAhead: builder.launched(start_ns - 90 * kUs, start_ns - 80 * kUs); break;
        case Launch::kLate: builder.launched(now_ns - 20 * kUs, now_ns - 10 * kUs); break;
        case Launch::kAfterData:
          builder.open("step/data", idle_ns, now_ns);
          builder.launched(now_ns, now_ns + kUs);
          break;
        case Launch::kAfterWait:
          builder.launched(now_ns - 20 * kUs, now_ns - 10 * kUs);
          builder.api("cudaStreamSynchronize", idle_ns - 100 * kUs, idle_ns + 10 * kUs);
          break;
      }
      if (!kernel.is_hidden) now_ns += kernel.duration_ns;
    }
    builder.open("step", start_ns, now_ns);
    builder.open("step/micro-step", start_ns, now_ns);
    builder.trace().steps.push_back(
        {.start_ns = start_ns, .end_ns = now_ns, .first_step_number = i});
  }
  return std::move(builder.trace());
}

RunConfig clean_config() {
  RunConfig config = BundleBuilder::small_config();
  config.device = Device::kCuda;
  config.precision = Precision::kBf16;
  config.data = DataPath::kPinned;
  config.attention = Attention::kCudnn;
  config.optimizer = Optimizer::kFused;
  return config;
}

// Everything that is known of an arm, to plant something in.
struct Scene {
  RunConfig config = clean_config();
  std::vector<Kernel> step = clean_step();
  ArmResult row{.name = "baseline",
                .is_baseline = true,
                .positions_per_s = 1000,
                .valid_tokens_per_s = 1000,
                .peak_allocated_bytes = std::int64_t{60} << 30,
                .peak_reserved_bytes = std::int64_t{70} << 30,
                .num_alloc_retries = 0,
                .mean_sm_clock_mhz = 1980};
  CounterSummary counters;
  std::function<void(Trace&)> edit = [](Trace&) {};
  std::optional<double> throughput_step_ns;
  Results results;
  const RunConfig* reference = nullptr;

  std::vector<Finding> findings() {
    Trace trace = trace_of(step);
    edit(trace);
    const TracedArm traced = {.arm = "baseline",
                              .breakdown = compute_breakdown(trace),
                              .throughput_step_ns = throughput_step_ns};
    return advise({.arm = "baseline",
                   .config = &config,
                   .reference_config = reference,
                   .results = &results,
                   .row = &row,
                   .trace = &traced,
                   .counters = counters.counters.empty() ? nullptr : &counters,
                   .max_sm_clock_mhz = 1980,
                   .device_memory_bytes = std::int64_t{140} << 30});
  }

  // The only finding, which must be of that rule.
  Finding only(std::string_view rule) {
    const std::vector<Finding> all = findings();
    std::vector<std::string> rules;
    for (const Finding& finding : all) rules.push_back(finding.rule);
    EXPECT_THAT(rules, ElementsAre(rule));
    return all.empty() ? Finding{} : all.front();
  }

  Kernel& kernel(std::string_view part) {
    return *std::ranges::find_if(step, [&](const Kernel& candidate) {
      return candidate.name.find(part) != std::string::npos;
    });
  }
};

std::string test_of(const Finding& finding) { return test_text(finding); }

TEST(Advise, FindsNothingInACleanStep) { EXPECT_THAT(Scene().findings(), IsEmpty()); }

TEST(Advise, FindsNothingWhereNothingIsKnown) {
  EXPECT_THAT(advise({.arm = "baseline"}), IsEmpty());
}

TEST(AdviseDataWait, CostsTheIdleTimeInTheRangeData) {
  Scene scene;
  scene.config.data = DataPath::kSync;
  scene.step.front().gap_ns = 0;
  scene.step[4].gap_ns = 1000 * kUs;
  scene.step[4].launch = Launch::kAfterData;
  const Finding finding = scene.only("data_wait");
  EXPECT_NEAR(*finding.max_gain_ratio, 11.0 / 10.0, 1e-9);
  EXPECT_EQ(test_of(finding), "data=pinned");
  EXPECT_EQ(finding.evidence.front().key, "data_wait");
}

TEST(AdviseDataWait, WithoutATraceTheHostsWaitIsTheBound) {
  ArmResult row{.name = "baseline", .step_wall_ns = 1e6, .data_wait_ratio = 0.2};
  const RunConfig config = BundleBuilder::small_config();
  const std::vector<Finding> findings = advise({.arm = "baseline", .config = &config, .row = &row});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NEAR(*findings.front().max_gain_ratio, 1.25, 1e-9);
  EXPECT_EQ(findings.front().toggle, "") << "prefetch is on already";
}

TEST(AdviseLaunchBound, CostsTheIdleTimeOfLateLaunches) {
  Scene scene;
  scene.step[4].gap_ns = 1000 * kUs;
  scene.step[4].launch = Launch::kLate;
  const Finding finding = scene.only("launch_bound");
  EXPECT_NEAR(*finding.max_gain_ratio, 1.1, 1e-9);
  EXPECT_EQ(finding.severity, Severity::kHigh);
  EXPECT_EQ(test_of(finding), "graph=on");
  EXPECT_THAT(finding.command, HasSubstr("--toggles graph=on"));
  EXPECT_THAT(finding.command, HasSubstr("--set attention=cudnn"));
}

// A traced step of 11 ms that takes 10 ms untraced has room for no idle time at all.
TEST(AdviseLaunchBound, InADistortedTraceOnlyWhatFitsIntoTheUntracedStepCounts) {
  Scene scene;
  scene.step[4].gap_ns = 4000 * kUs;
  scene.step[4].launch = Launch::kLate;
  scene.throughput_step_ns = 10e6;
  EXPECT_THAT(scene.findings(), IsEmpty());
  scene.throughput_step_ns = 10.5e6;
  EXPECT_NEAR(*scene.only("launch_bound").max_gain_ratio, 10.5 / 10.0, 1e-9);
}

TEST(AdviseLaunchBound, ACaptureThatCannotBeIsNotSuggested) {
  Scene scene;
  scene.step[4].gap_ns = 1000 * kUs;
  scene.step[4].launch = Launch::kLate;
  scene.config.batching = Batching::kPadded;
  EXPECT_EQ(test_of(scene.only("launch_bound")), "-");
}

TEST(AdviseKernelGaps, CostThePausesBetweenMany) {
  Scene scene;
  scene.step.clear();
  for (int i = 0; i < 250; ++i) {
    scene.step.push_back(
        {"nvjet_tst_64x64", 38 * kUs, "step/micro-step/forward/block 0/mlp", i == 0 ? 0 : 2 * kUs});
  }
  const Finding finding = scene.only("kernel_gaps");
  // 249 pauses of 2 us in 9.998 ms.
  EXPECT_NEAR(*finding.max_gain_ratio, 9.998 / 9.5, 1e-9);
  EXPECT_EQ(test_of(finding), "graph=on");
}

TEST(AdviseWaitingCalls, CostWhatTheyKeepTheHostFromLaunchingAhead) {
  Scene scene;
  scene.config.sync_every_micro_step = true;
  scene.step[4].gap_ns = 150 * kUs;
  scene.step[4].launch = Launch::kAfterWait;
  const Finding finding = scene.only("waiting_calls");
  EXPECT_NEAR(*finding.max_gain_ratio, 10.15 / 10.0, 1e-9);
  EXPECT_EQ(test_of(finding), "sync_every_micro_step=off");
  EXPECT_THAT(finding.evidence.front().text, HasSubstr("1.0 waiting calls a micro-step"));
  EXPECT_EQ(finding.evidence.front().key, "cudaStreamSynchronize");
}

TEST(AdviseRecompilation, CostsTheCallsThatLoadCode) {
  Scene scene;
  scene.config.batching = Batching::kPadded;
  scene.edit = [](Trace& trace) {
    trace.strings.emplace_back("cuModuleLoadData");
    const auto name = static_cast<StringId>(trace.strings.size() - 1);
    for (const Step& step : std::vector<Step>(trace.steps)) {
      trace.apis.push_back({.start_ns = step.start_ns + 10 * kUs,
                            .end_ns = step.start_ns + 1010 * kUs,
                            .name = name,
                            .thread = 0});
    }
  };
  const Finding finding = scene.only("recompilation");
  EXPECT_NEAR(*finding.max_gain_ratio, 10.0 / 9.0, 1e-9);
  EXPECT_EQ(test_of(finding), "batching=packed");
}

TEST(AdviseCommunication, CostsWhatNothingHides) {
  Scene scene;
  scene.config.world_size = 2;
  scene.step.push_back(
      {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", 500 * kUs, "step/micro-step/backward"});
  const Finding finding = scene.only("exposed_communication");
  EXPECT_NEAR(*finding.max_gain_ratio, 10.5 / 10.0, 1e-9);
  EXPECT_EQ(test_of(finding), "bucket_mb=100");
}

TEST(AdviseManyAllReduces, CountsThemAgainstTheGradientsBytes) {
  Scene scene;
  scene.config.world_size = 2;
  scene.config.num_accumulation = 2;
  scene.row.peak_allocated_bytes = std::int64_t{100} << 30;
  for (int i = 0; i < 40; ++i) {
    scene.step.push_back({.name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                          .duration_ns = 2 * kUs,
                          .path = "step/micro-step/backward",
                          .is_hidden = true});
  }
  const Finding finding = scene.only("many_all_reduces");
  EXPECT_FALSE(finding.max_gain_ratio) << "all of it is hidden";
  EXPECT_EQ(test_of(finding), "no_sync=on");
  EXPECT_THAT(finding.evidence.front().text, HasSubstr("40 reductions a step, 2 would do"));
}

TEST(AdviseUnfusedAttention, CostsTheAttentionModules) {
  Scene scene;
  scene.config.attention = Attention::kMath;
  scene.kernel("fprop").name = "softmax_warp_forward";
  scene.kernel("bprop").name = "softmax_warp_backward";
  const Finding finding = scene.only("unfused_attention");
  EXPECT_NEAR(*finding.max_gain_ratio, 10.0 / 9.1, 1e-9);
  EXPECT_EQ(test_of(finding), "attention=flash");
}

TEST(AdviseAttentionShare, SuggestsAnotherFusedKernel) {
  Scene scene;
  scene.config.attention = Attention::kFlash;
  scene.kernel("fprop").name = "flash_fwd_kernel<Flash_fwd_kernel_traits>";
  scene.kernel("bprop").name = "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel";
  const Finding finding = scene.only("attention_share");
  EXPECT_NEAR(*finding.max_gain_ratio, 10.0 / 9.1, 1e-9);
  EXPECT_EQ(test_of(finding), "attention=cudnn");
}

TEST(AdviseTensorCores, CostsTheProductsInPlainFp32) {
  Scene scene;
  scene.config.precision = Precision::kFp32;
  scene.kernel("nvjet_tst_256").name = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8";
  const Finding finding = scene.only("idle_tensor_cores");
  EXPECT_NEAR(*finding.max_gain_ratio, 10.0 / 7.7, 1e-9);
  EXPECT_EQ(test_of(finding), "precision=bf16");
}

TEST(AdviseTensorCores, BelieveTheCounterWhereNamesSayNothing) {
  Scene scene;
  scene.counters.counters = {{.name = "tensor_active", .unit = "ratio", .mean = 0.02}};
  EXPECT_THAT(scene.only("idle_tensor_cores").evidence.back().text, HasSubstr("2"));
  scene.counters.counters.front().mean = 0.4;
  EXPECT_THAT(scene.findings(), IsEmpty());
}

TEST(AdviseMemoryBound, CostsThePassesOverMemory) {
  Scene scene;
  scene.kernel("vectorized_elementwise").duration_ns = 5500 * kUs;
  const Finding finding = scene.only("memory_bound");
  // 15 ms, of which 5.5 + 0.8 elementwise and 0.6 norms.
  EXPECT_NEAR(*finding.max_gain_ratio, 15.0 / (15.0 - 6.9), 1e-9);
  EXPECT_EQ(test_of(finding), "compile=aoti");
  scene.config.batching = Batching::kPadded;
  EXPECT_EQ(test_of(scene.only("memory_bound")), "mlp=fused") << "one package a shape";
  scene.config.mlp = Operators::kFused;
  EXPECT_EQ(test_of(scene.only("memory_bound")), "norm=fused");
}

TEST(AdviseOptimizer, CostsItsPhase) {
  Scene scene;
  scene.config.optimizer = Optimizer::kForeach;
  scene.kernel("FusedAdam").duration_ns = 600 * kUs;
  scene.kernel("FusedAdam").name = "multi_tensor_apply_kernel<BinaryOpListAlphaFunctor>";
  const Finding finding = scene.only("unfused_optimizer");
  EXPECT_NEAR(*finding.max_gain_ratio, 10.5 / 9.9, 1e-9);
  EXPECT_EQ(test_of(finding), "optimizer=fused");
}

TEST(AdviseRecompute, CostsASecondForwardPassWhereMemoryIsFree) {
  Scene scene;
  scene.config.checkpoint = Checkpoint::kFull;
  EXPECT_THAT(scene.findings(), IsEmpty()) << "70 of 140 GiB are in use";
  scene.row.peak_reserved_bytes = std::int64_t{20} << 30;
  const Finding finding = scene.only("needless_recompute");
  EXPECT_NEAR(*finding.max_gain_ratio, 10.0 / 6.7, 1e-9);
  EXPECT_EQ(test_of(finding), "checkpoint=off");
}

TEST(AdviseAllocator, ARetryIsFoundWithoutABound) {
  Scene scene;
  scene.row.num_alloc_retries = 3;
  const Finding finding = scene.only("allocator_retries");
  EXPECT_FALSE(finding.max_gain_ratio);
  EXPECT_EQ(finding.severity, Severity::kLow);
  EXPECT_EQ(test_of(finding), "allocator=expandable_segments");
}

TEST(AdviseMemoryShort, SpeaksBeforeTheDeviceIsFull) {
  Scene scene;
  scene.config.global_batch_size = 8;
  scene.row.peak_reserved_bytes = std::int64_t{130} << 30;
  const Finding finding = scene.only("memory_short");
  EXPECT_FALSE(finding.max_gain_ratio);
  EXPECT_EQ(test_of(finding), "accumulation=2");
  scene.config.global_batch_size = 1;
  EXPECT_EQ(test_of(scene.only("memory_short")), "checkpoint=full");
  scene.row.peak_reserved_bytes = std::int64_t{120} << 30;
  EXPECT_THAT(scene.findings(), IsEmpty());
}

TEST(AdviseMemoryToSpare, NamesTheFewestMicroStepsThatFit) {
  Scene scene;
  scene.config.num_accumulation = 8;
  scene.row.peak_allocated_bytes = std::int64_t{30} << 30;
  // 4 times 30 GiB is within 126 GiB, 8 times is not.
  EXPECT_EQ(test_of(scene.only("memory_to_spare")), "accumulation=2");
  scene.row.peak_allocated_bytes = std::int64_t{15} << 30;
  EXPECT_EQ(test_of(scene.only("memory_to_spare")), "accumulation=1");
  scene.row.peak_allocated_bytes = std::int64_t{64} << 30;
  EXPECT_THAT(scene.findings(), IsEmpty());
}

TEST(AdvisePadding, CostsThePositionsThatHoldNoToken) {
  Scene scene;
  scene.config.batching = Batching::kPadded;
  scene.row.valid_tokens_per_s = 800;
  const Finding finding = scene.only("padding");
  EXPECT_NEAR(*finding.max_gain_ratio, 1.25, 1e-9);
  EXPECT_EQ(test_of(finding), "batching=packed");
}

TEST(AdviseClock, CostsTheDistanceToTheHighestClock) {
  Scene scene;
  scene.row.throttle_shares = {{"sw_power_cap", 0.9}, {"gpu_idle", 0.5}};
  EXPECT_THAT(scene.findings(), IsEmpty()) << "a limit that takes nothing away";
  scene.row.mean_sm_clock_mhz = 1800;
  EXPECT_NEAR(*scene.only("low_clock").max_gain_ratio, 1.1, 1e-9);
}

// NVML may report the highest clock while the SMs run below it.
TEST(AdviseClock, BelievesTheCounterRatherThanNvml) {
  Scene scene;
  CounterUse clock{.name = "sm_clock", .unit = "MHz", .mean = 1900};
  clock.mean_by_phase[static_cast<std::size_t>(Phase::kBackward)] = 1760;
  scene.counters.counters = {clock};
  const Finding finding = scene.only("low_clock");
  EXPECT_NEAR(*finding.max_gain_ratio, 1.125, 1e-9);
  EXPECT_THAT(finding.evidence.front().text, HasSubstr("1,760 MHz of 1,980 MHz"));
  EXPECT_THAT(finding.evidence.front().text, HasSubstr("NVML says 1,980 MHz"));
}

TEST(Advise, PutsTheMostToGainFirstAndWhatWasRefutedLast) {
  Scene scene;
  scene.config.attention = Attention::kFlash;
  scene.config.batching = Batching::kPacked;
  scene.kernel("fprop").name = "flash_fwd_kernel";
  scene.kernel("bprop").name = "flash_bwd_kernel";
  scene.row.valid_tokens_per_s = 950;                // 1.053 at best.
  scene.row.num_alloc_retries = 1;                   // No bound.
  scene.results.arms = {{.name = "attention=cudnn",  // 1.099 at best, but measured.
                         .toggle = "attention",
                         .level = "cudnn",
                         .reference = "baseline",
                         .verdict = Verdict::kSlower,
                         .effect_ratio = 0.97,
                         .effect_low_ratio = 0.96,
                         .effect_high_ratio = 0.98}};
  std::vector<std::string> rules;
  const std::vector<Finding> findings = scene.findings();
  for (const Finding& finding : findings) rules.push_back(finding.rule);
  EXPECT_THAT(rules, ElementsAre("padding", "allocator_retries", "attention_share"));
  EXPECT_TRUE(findings.back().is_refuted);
  EXPECT_EQ(findings.back().severity, Severity::kLow);
  EXPECT_THAT(findings.back().measured, HasSubstr("SLOWER"));
  EXPECT_EQ(findings.back().command, "") << "it was run already";
}

TEST(Advise, SaysWhatTheArmItselfHasCost) {
  Scene scene;
  scene.config.sync_every_micro_step = true;
  scene.step[4].gap_ns = 150 * kUs;
  scene.step[4].launch = Launch::kAfterWait;
  const RunConfig reference = clean_config();
  scene.row.toggle = "sync_every_micro_step";
  scene.row.level = "on";
  scene.row.reference = "baseline";
  scene.row.verdict = Verdict::kSlower;
  scene.row.effect_ratio = 0.99;
  scene.reference = &reference;
  EXPECT_THAT(scene.only("waiting_calls").measured, HasSubstr("SLOWER against baseline"));
}

TEST(AdviceRules, EachHasAKeyOfItsOwn) {
  std::vector<std::string_view> keys;
  for (const AdviceRule& rule : all_advice_rules()) keys.push_back(rule.key);
  std::ranges::sort(keys);
  EXPECT_EQ(std::ranges::adjacent_find(keys), keys.end());
}

}  // namespace
}  // namespace steplens
