// Time in which the device waits: for data, for launches, for the host's own waits, for other
// ranks.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/advice/rules.h"
#include "reports/format.h"

namespace steplens {
namespace {

// Below these shares of a step the finding would cost more of a reader's time than it gives back:
// they are near what a matrix of six rounds can prove (0.2 to 0.5 % on an H200).
constexpr double kMinDataWaitShare = 0.01;
constexpr double kMinLateLaunchShare = 0.02;
constexpr double kMinGapShare = 0.01;
constexpr double kMinWaitShare = 0.005;
constexpr double kMinCompilationShare = 0.01;
constexpr double kMinCommunicationShare = 0.02;

// A kernel takes the GPU 2 to 5 us to begin; one that runs for less than this is mostly that.
constexpr double kShortKernelNs = 10'000;
constexpr std::int64_t kManyKernels = 200;  // A step: fewer are launched in no time.

double mean_ns(const UsageGroup& kernel) {
  return static_cast<double>(kernel.total.summed_ns) /
         static_cast<double>(std::max<std::int64_t>(1, kernel.total.num_operations));
}

Evidence short_kernels(const ArmFacts& facts) {
  std::int64_t num_short = 0;
  std::int64_t num_kernels = 0;
  for (const UsageGroup& kernel : facts.breakdown().kernels) {
    num_kernels += kernel.total.num_operations;
    if (mean_ns(kernel) < kShortKernelNs) num_short += kernel.total.num_operations;
  }
  return {
      .kind = EvidenceKind::kStep,
      .key = "num_kernels",
      .text = fmt::format("{} operations a step, {} of them shorter than {} on average",
                          format_mean_count(facts.per_step(num_kernels)),
                          format_percent(num_kernels == 0 ? 0
                                                          : static_cast<double>(num_short) /
                                                                static_cast<double>(num_kernels)),
                          format_duration_ns(kShortKernelNs))};
}

// What a captured step needs of the rest of the config.
bool can_capture(const ArmFacts& facts) {
  return facts.is("graph", "off") && !facts.is("optimizer", "loop") &&
         !facts.is("sync_every_micro_step", "on") &&
         (facts.value_of("batching").empty() || facts.is("batching", "packed")) &&
         (facts.value_of("world_size").empty() || facts.is("world_size", "1"));
}

}  // namespace

std::optional<Finding> find_data_wait(const ArmFacts& facts) {
  const double idle_ns = facts.idle_ns(IdleClass::kDataWait);
  const ArmResult* row = facts.input().row;
  const double host_share = row == nullptr ? 0 : row->data_wait_ratio.value_or(0);
  const bool is_seen_in_trace = facts.share(idle_ns) >= kMinDataWaitShare;
  if (!is_seen_in_trace && (facts.has_trace() || host_share < kMinDataWaitShare)) {
    return std::nullopt;
  }
  Finding finding;
  finding.message = "Steps wait for their batch: the loader is slower than the device.";
  const double removable_ns = is_seen_in_trace ? idle_ns : host_share * facts.step_ns();
  if (is_seen_in_trace) {
    finding.evidence.push_back(facts.idle_evidence(IdleClass::kDataWait));
    finding.bound = "the step without the device's idle time in data wait";
  } else {
    finding.bound = "the step without the host's data wait, as if none of it were hidden";
  }
  if (host_share > 0) {
    finding.evidence.push_back({.kind = EvidenceKind::kStep,
                                .key = "data_wait_ratio",
                                .text = fmt::format("the host waits {} of its steps for data",
                                                    format_percent(host_share))});
  }
  finding.max_gain_ratio = facts.gain_without(removable_ns);
  const bool is_best = facts.is("data", facts.is_gpu() ? "pinned" : "prefetch");
  if (!is_best) {
    finding.toggle = "data";
    finding.level = facts.is_gpu() ? "pinned" : "prefetch";
  } else {
    finding.message +=
        " It is already made ahead in a thread: look at the storage or at the "
        "tokenizing, or prepare the data beforehand.";
  }
  return finding;
}

std::optional<Finding> find_launch_bound(const ArmFacts& facts) {
  const double late_ns = facts.idle_ns(IdleClass::kLateLaunch);
  if (!facts.is_gpu() || facts.share(late_ns) < kMinLateLaunchShare) return std::nullopt;
  Finding finding;
  finding.message =
      "The device is done before the host has launched what comes next. Fewer or larger kernels, "
      "or a step that is launched at once, help; a faster kernel does not.";
  finding.evidence = {facts.idle_evidence(IdleClass::kLateLaunch), short_kernels(facts)};
  finding.max_gain_ratio = facts.gain_without(late_ns);
  finding.bound = "the step without the device's idle time in late launch";
  if (can_capture(facts)) {
    finding.toggle = "graph";
    finding.level = "on";
  } else if (facts.is("sync_every_micro_step", "on")) {
    finding.toggle = "sync_every_micro_step";
    finding.level = "off";
  } else if (facts.is("optimizer", "loop")) {
    finding.toggle = "optimizer";
    finding.level = "fused";
  }
  return finding;
}

std::optional<Finding> find_kernel_gaps(const ArmFacts& facts) {
  const double gap_ns = facts.idle_ns(IdleClass::kDependency);
  if (!facts.is_gpu() || facts.share(gap_ns) < kMinGapShare || !can_capture(facts) ||
      facts.per_step(facts.breakdown().total.num_kernels) < kManyKernels) {
    return std::nullopt;
  }
  Finding finding;
  finding.message =
      "Between kernels that were launched in time the device pauses for a microsecond or two, "
      "over a thousand times a step. A captured graph has shorter pauses; fused kernels have "
      "fewer.";
  finding.evidence = {facts.idle_evidence(IdleClass::kDependency), short_kernels(facts)};
  finding.max_gain_ratio = facts.gain_without(gap_ns);
  finding.bound = "the step without any pause between kernels";
  finding.toggle = "graph";
  finding.level = "on";
  return finding;
}

std::optional<Finding> find_waiting_calls(const ArmFacts& facts) {
  if (!facts.has_trace()) return std::nullopt;
  const HostFacts& host = facts.breakdown().host;
  const auto num_micro_steps = std::max(host.num_micro_steps, host.num_steps);
  const double cost_ns = facts.idle_ns(IdleClass::kSync) + facts.idle_ns(IdleClass::kLateLaunch);
  const bool is_each_micro_step = num_micro_steps > 0 && host.num_waits >= num_micro_steps;
  // A loop that is told to wait does; in any other, waits that cost nothing are of no concern.
  const bool is_told_to = facts.is("sync_every_micro_step", "on");
  if (!is_each_micro_step || facts.idle_ns(IdleClass::kSync) <= 0 ||
      facts.share(cost_ns) < kMinWaitShare) {
    return std::nullopt;
  }
  // Without the waits' own share, late launches are another rule's.
  if (!is_told_to && facts.share(facts.idle_ns(IdleClass::kSync)) < kMinWaitShare) {
    return std::nullopt;
  }
  Finding finding;
  finding.message =
      "The host waits for the device in every micro-step (reading a loss, copying without async), "
      "so it cannot launch ahead. Read losses once in many steps.";
  finding.evidence = {
      {.kind = EvidenceKind::kCall,
       .key = host.longest_wait,
       .text = fmt::format(
           "{} waiting calls a micro-step, most of the time in {}{}",
           format_significant(
               static_cast<double>(host.num_waits) / static_cast<double>(num_micro_steps), 2),
           host.longest_wait,
           host.wait_range.empty() ? "" : fmt::format(" in range {}", host.wait_range))},
      facts.idle_evidence(IdleClass::kSync),
      facts.idle_evidence(IdleClass::kLateLaunch)};
  finding.max_gain_ratio = facts.gain_without(cost_ns);
  finding.bound = "the step without the device's idle time in sync and late launch";
  if (is_told_to) {
    finding.toggle = "sync_every_micro_step";
    finding.level = "off";
  }
  return finding;
}

std::optional<Finding> find_recompilation(const ArmFacts& facts) {
  if (!facts.has_trace()) return std::nullopt;
  const HostFacts& host = facts.breakdown().host;
  if (host.num_steps == 0 || host.num_compilations == 0) return std::nullopt;
  const double cost_ns =
      static_cast<double>(host.compilation_ns) / static_cast<double>(host.num_steps);
  if (facts.share(cost_ns) < kMinCompilationShare) return std::nullopt;
  Finding finding;
  finding.message =
      "Code is compiled or loaded within measured steps: shapes that change make a compiler start "
      "anew. Hold the shapes (pack, or bucket by length), or warm up until every shape was seen.";
  finding.evidence = {
      {.kind = EvidenceKind::kCall,
       .key = host.longest_compilation,
       .text = fmt::format("{} of them in {} steps, {}; most of it {}",
                           format_count(host.num_compilations), format_count(host.num_steps),
                           facts.amount_text(cost_ns), host.longest_compilation)}};
  finding.max_gain_ratio = facts.gain_without(cost_ns);
  finding.bound = "the step without the time of these calls, as if the device waited for all of it";
  if (facts.is("batching", "padded") || facts.is("batching", "bucketed")) {
    finding.toggle = "batching";
    finding.level = "packed";
  }
  return finding;
}

std::optional<Finding> find_exposed_communication(const ArmFacts& facts) {
  if (!facts.has_trace()) return std::nullopt;
  const StepTimes& total = facts.breakdown().total;
  const double exposed_ns = facts.per_step(total.communication_exposed_ns);
  if (facts.share(exposed_ns) < kMinCommunicationShare) return std::nullopt;
  Finding finding;
  finding.message =
      "Ranks exchange data while nothing computes. Larger buckets send it in fewer pieces, smaller "
      "ones begin earlier; one reduction a step instead of one a micro-step sends less.";
  finding.evidence = {
      {.kind = EvidenceKind::kCategory,
       .key = std::string(name_of(KernelCategory::kCommunication)),
       .text = fmt::format(
           "communication that nothing hides: {}; hidden: {}", facts.amount_text(exposed_ns),
           facts.amount_text(facts.per_step(total.communication_overlapped_ns())))}};
  finding.max_gain_ratio = facts.gain_without(exposed_ns);
  finding.bound = "the step with all communication hidden behind computation";
  const bool accumulates =
      !facts.value_of("accumulation").empty() && !facts.is("accumulation", "1");
  finding.toggle = accumulates && facts.is("no_sync", "off") ? "no_sync" : "bucket_mb";
  finding.level = finding.toggle == "no_sync" ? "on" : "100";
  if (facts.input().config == nullptr || facts.is("bucket_mb", finding.level)) {
    finding.toggle.clear();
    finding.level.clear();
  }
  return finding;
}

std::optional<Finding> find_many_all_reduces(const ArmFacts& facts) {
  if (!facts.has_trace()) return std::nullopt;
  const Breakdown& breakdown = facts.breakdown();
  const auto it = std::ranges::find(breakdown.categories, name_of(KernelCategory::kCommunication),
                                    &UsageGroup::key);
  if (it == breakdown.categories.end()) return std::nullopt;
  const double num_reductions = facts.per_step(it->total.num_operations);
  // A bucket of 25 MiB and more keeps the bandwidth of NVLink; gradients are fp32.
  constexpr double kGoodBucketBytes = 25.0 * (1 << 20);
  double num_needed = 50;  // Without a config: what 300 M parameters need.
  const RunConfig* config = facts.input().config;
  if (config != nullptr) {
    num_needed =
        std::ceil(4.0 * static_cast<double>(num_parameters(config->shape)) / kGoodBucketBytes) +
        1;  // The first bucket is small.
  }
  if (num_reductions < 2 * num_needed) return std::nullopt;
  Finding finding;
  const double communication_ns = facts.category_ns(KernelCategory::kCommunication);
  const double removable_ns = std::min(facts.per_step(breakdown.total.communication_exposed_ns),
                                       communication_ns * (1 - num_needed / num_reductions));
  finding.message =
      "Gradients are reduced in more pieces than they need: each has a start-up cost and runs "
      "below "
      "the link's bandwidth.";
  finding.evidence = {
      {.kind = EvidenceKind::kCategory,
       .key = std::string(name_of(KernelCategory::kCommunication)),
       .text =
           fmt::format("{} reductions a step, {} would do; {}", format_mean_count(num_reductions),
                       format_mean_count(num_needed), facts.amount_text(communication_ns))}};
  finding.max_gain_ratio = facts.gain_without(removable_ns);
  finding.bound =
      finding.max_gain_ratio
          ? "the step without the share of the reductions that is not needed, as far as "
            "nothing hides it"
          : "none: all of it is hidden behind computation";
  if (config != nullptr && config->num_accumulation > 1 && !config->no_sync) {
    finding.toggle = "no_sync";
    finding.level = "on";
  } else if (config != nullptr && config->bucket_mb < 100) {
    finding.toggle = "bucket_mb";
    finding.level = "100";
  }
  return finding;
}

}  // namespace steplens
