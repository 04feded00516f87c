// Memory, shapes and the machine: what no kernel can help.

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/advice/rules.h"
#include "reports/format.h"

namespace steplens {
namespace {

constexpr double kMinAllocatorShare = 0.005;
constexpr double kMaxFilledRatio = 0.9;    // Of the device's memory: the rest is the driver's.
constexpr double kNearlyFullRatio = 0.92;  // A longer sequence or a fragment more, and it ends.
constexpr double kMinPaddingShare = 0.03;
constexpr double kMinThrottleShare = 0.05;
constexpr double kMinClockLossRatio = 1.01;
// A kernel that runs for less than this does not fill 132 SMs for long: more rows make it longer by
// less than their number.
constexpr double kShortKernelNs = 20'000;

double short_kernels_ns(const ArmFacts& facts) {
  std::int64_t total_ns = 0;
  for (const UsageGroup& kernel : facts.breakdown().kernels) {
    const double mean_ns =
        static_cast<double>(kernel.total.summed_ns) /
        static_cast<double>(std::max<std::int64_t>(1, kernel.total.num_operations));
    if (mean_ns < kShortKernelNs) total_ns += kernel.total.exclusive_ns;
  }
  return facts.per_step(total_ns);
}

// The fewest micro-steps whose micro-batch fits, from a peak that grows no faster than the
// micro-batch. 0: none fits, or it is unknown.
std::int64_t fewest_micro_steps(const AdviceInput& input) {
  if (!input.row->peak_allocated_bytes || !input.device_memory_bytes) return 0;
  const std::int64_t now = input.config->num_accumulation;
  const auto peak = static_cast<double>(*input.row->peak_allocated_bytes);
  const double limit = kMaxFilledRatio * static_cast<double>(*input.device_memory_bytes);
  for (const std::int64_t fewer : {1, 2, 4, 8, 16}) {
    if (fewer >= now || now % fewer != 0) continue;
    const std::int64_t growth = now / fewer;
    if (peak * static_cast<double>(growth) <= limit) return fewer;
  }
  return 0;
}

const CounterUse* clock_counter(const AdviceInput& input) {
  if (input.counters == nullptr) return nullptr;
  const auto it = std::ranges::find(input.counters->counters, "sm_clock", &CounterUse::name);
  return it == input.counters->counters.end() || !it->mean ? nullptr : &*it;
}

// The clock while kernels ran, best knowledge first.
std::optional<double> loaded_clock_mhz(const AdviceInput& input) {
  if (const CounterUse* use = clock_counter(input)) {
    const auto backward = static_cast<std::size_t>(Phase::kBackward);
    return use->mean_by_phase[backward] ? use->mean_by_phase[backward] : use->mean;
  }
  return input.row == nullptr ? std::nullopt : input.row->mean_sm_clock_mhz;
}

Evidence clock_evidence(const AdviceInput& input, double clock_mhz) {
  const CounterUse* use = clock_counter(input);
  std::string text =
      fmt::format("SM clock: {} MHz of {} MHz{}", format_significant(clock_mhz),
                  format_significant(input.max_sm_clock_mhz.value_or(clock_mhz)),
                  use == nullptr ? "" : ", sampled every 100 us in the backward pass");
  if (use != nullptr && input.row != nullptr && input.row->mean_sm_clock_mhz) {
    text += fmt::format(" (NVML says {} MHz)", format_significant(*input.row->mean_sm_clock_mhz));
  }
  return {.kind = EvidenceKind::kCounter, .key = "sm_clock", .text = std::move(text)};
}

}  // namespace

std::optional<Finding> find_allocator_retries(const ArmFacts& facts) {
  const ArmResult* row = facts.input().row;
  const std::int64_t num_retries = row == nullptr ? 0 : row->num_alloc_retries.value_or(0);
  const double idle_ns = facts.idle_ns(IdleClass::kAllocator);
  if (num_retries == 0 && facts.share(idle_ns) < kMinAllocatorShare) return std::nullopt;
  Finding finding;
  finding.message =
      "The allocator asks the driver for memory within steps; each time the device may have to run "
      "empty, and a retry gives the whole cache back first. Memory is nearly full or fragmented.";
  if (num_retries > 0) {
    finding.evidence.push_back(
        {.kind = EvidenceKind::kMemory,
         .key = "num_alloc_retries",
         .text = fmt::format("{} allocations of a block failed at first and were tried again",
                             format_count(num_retries))});
  }
  if (facts.has_trace()) {
    finding.evidence.push_back(facts.idle_evidence(IdleClass::kAllocator));
    const HostFacts& host = facts.breakdown().host;
    if (host.num_allocator_calls > 0 && host.num_steps > 0) {
      finding.evidence.push_back(
          {.kind = EvidenceKind::kCall,
           .key = "cudaMalloc",
           .text = fmt::format("{} calls of cudaMalloc, cudaFree and the like a step",
                               format_significant(static_cast<double>(host.num_allocator_calls) /
                                                      static_cast<double>(host.num_steps),
                                                  2))});
    }
  }
  finding.max_gain_ratio = facts.gain_without(idle_ns);
  finding.bound = finding.max_gain_ratio
                      ? "the step without the device's idle time in the allocator"
                      : "none: no trace shows what the retries cost";
  if (facts.is("allocator", "default") && facts.is_gpu()) {
    finding.toggle = "allocator";
    finding.level = "expandable_segments";
  }
  return finding;
}

std::optional<Finding> find_memory_short(const ArmFacts& facts) {
  const AdviceInput& input = facts.input();
  if (!facts.is_gpu() || !input.device_memory_bytes || input.row == nullptr ||
      !input.row->peak_reserved_bytes) {
    return std::nullopt;
  }
  const auto reserved = static_cast<double>(*input.row->peak_reserved_bytes);
  const auto device = static_cast<double>(*input.device_memory_bytes);
  if (reserved < kNearlyFullRatio * device) return std::nullopt;
  Finding finding;
  finding.message =
      "The next larger batch, a longer row or one more fragment ends in an out-of-memory. More "
      "micro-steps or activation checkpoints hold the same global batch in less; `steplens plan` "
      "says how much less.";
  finding.evidence = {{.kind = EvidenceKind::kMemory,
                       .key = "peak_reserved_bytes",
                       .text = fmt::format("peak of the allocator's cache: {} of {}",
                                           format_bytes(reserved), format_bytes(device))}};
  if (input.row->peak_allocated_bytes) {
    finding.evidence.push_back(
        {.kind = EvidenceKind::kMemory,
         .key = "peak_allocated_bytes",
         .text = fmt::format("of it allocated: {}",
                             format_bytes(static_cast<double>(*input.row->peak_allocated_bytes)))});
  }
  finding.bound = "none: it costs nothing until it ends the run";
  const std::int64_t twice = input.config == nullptr ? 0 : 2 * input.config->num_accumulation;
  const bool can_split = twice > 0 && twice <= 16 &&
                         input.config->global_batch_size % (twice * input.config->world_size) == 0;
  if (can_split) {
    finding.toggle = "accumulation";
    finding.level = fmt::format("{}", twice);
  } else if (facts.is("checkpoint", "off")) {
    finding.toggle = "checkpoint";
    finding.level = "full";
  }
  return finding;
}

std::optional<Finding> find_memory_to_spare(const ArmFacts& facts) {
  const AdviceInput& input = facts.input();
  if (!facts.is_gpu() || !facts.has_trace() || input.config == nullptr ||
      input.config->num_accumulation <= 1 ||
      input.config->accumulation_holds != AccumulationHolds::kGlobalBatch ||
      !input.device_memory_bytes || input.row == nullptr || !input.row->peak_allocated_bytes) {
    return std::nullopt;
  }
  const std::int64_t fewer = fewest_micro_steps(input);
  if (fewer == 0) return std::nullopt;
  const double saved_share =
      1 - static_cast<double>(fewer) / static_cast<double>(input.config->num_accumulation);
  double idle_ns = 0;
  for (std::size_t i = 0; i < kNumIdleClasses; ++i) {
    idle_ns += facts.idle_ns(static_cast<IdleClass>(i));
  }
  const double short_ns = short_kernels_ns(facts);
  Finding finding;
  finding.message = fmt::format(
      "The step is cut into {} micro-steps, and memory would hold {}. Each one launches every "
      "kernel again, on fewer rows.",
      input.config->num_accumulation, fewer == 1 ? "all of it at once" : fmt::format("{}", fewer));
  finding.evidence = {
      {.kind = EvidenceKind::kMemory,
       .key = "peak_allocated_bytes",
       .text = fmt::format("peak memory: {} of {}",
                           format_bytes(static_cast<double>(*input.row->peak_allocated_bytes)),
                           format_bytes(static_cast<double>(*input.device_memory_bytes)))},
      {.kind = EvidenceKind::kStep,
       .key = "idle",
       .text = fmt::format("device idle: {}", facts.amount_text(idle_ns))},
      {.kind = EvidenceKind::kStep,
       .key = "short_kernels",
       .text = fmt::format("kernels shorter than {} on average: {}",
                           format_duration_ns(kShortKernelNs), facts.amount_text(short_ns))}};
  finding.max_gain_ratio = facts.gain_without(saved_share * (idle_ns + short_ns));
  finding.bound = fmt::format(
      "the step without {} of its idle time and of its short kernels, as micro-steps go; what "
      "longer "
      "kernels gain from more rows comes on top, and only a measurement tells it",
      format_percent(saved_share));
  finding.toggle = "accumulation";
  finding.level = fmt::format("{}", fewer);
  return finding;
}

std::optional<Finding> find_padding(const ArmFacts& facts) {
  const ArmResult* row = facts.input().row;
  if (row == nullptr || !row->positions_per_s || !row->valid_tokens_per_s ||
      *row->positions_per_s <= 0) {
    return std::nullopt;
  }
  const double padding_share = 1 - *row->valid_tokens_per_s / *row->positions_per_s;
  if (padding_share < kMinPaddingShare) return std::nullopt;
  Finding finding;
  finding.message = "Part of every batch is padding, which is computed and thrown away.";
  finding.evidence = {
      {.kind = EvidenceKind::kStep,
       .key = "valid_tokens_per_s",
       .text = fmt::format("{} of all positions are padding: {} valid of {} "
                           "processed tokens/s",
                           format_percent(padding_share), format_rate(*row->valid_tokens_per_s),
                           format_rate(*row->positions_per_s))}};
  finding.max_gain_ratio = *row->positions_per_s / *row->valid_tokens_per_s;
  finding.bound = "all positions valid at the same rate of positions";
  finding.toggle = "batching";
  finding.level = "packed";
  return finding;
}

std::optional<Finding> find_low_clock(const ArmFacts& facts) {
  const AdviceInput& input = facts.input();
  if (!facts.is_gpu()) return std::nullopt;
  std::vector<std::string> reasons;
  if (input.row != nullptr) {
    for (const auto& [reason, share] : input.row->throttle_shares) {
      if (share < kMinThrottleShare || reason == "gpu_idle" || reason == "applications_clocks") {
        continue;
      }
      reasons.push_back(fmt::format("{} {} of the time", reason, format_percent(share)));
    }
  }
  const std::optional<double> clock_mhz = loaded_clock_mhz(input);
  const bool is_low = clock_mhz && input.max_sm_clock_mhz && *clock_mhz > 0 &&
                      *input.max_sm_clock_mhz >= kMinClockLossRatio * *clock_mhz;
  const bool is_hardware = std::ranges::any_of(
      reasons, [](const std::string& reason) { return reason.starts_with("hw_"); });
  // A limit that takes no clock away, and a clock that nobody limits, ask for nothing.
  if (!is_hardware && (reasons.empty() || !is_low) &&
      !(is_low && clock_counter(input) != nullptr)) {
    return std::nullopt;
  }
  Finding finding;
  finding.message =
      is_hardware
          ? "The GPU slows itself down: cooling or power supply is at its end, and measurements "
            "made now say little."
          : "The GPU runs at its power limit and below its highest clock. That is how it is built; "
            "a switch that saves energy gains clock as well, and rates compare only under the same "
            "limit (the matrix marks such effects clock-mediated).";
  if (!reasons.empty()) {
    finding.evidence.push_back({.kind = EvidenceKind::kCounter,
                                .key = "throttle_shares",
                                .text = fmt::format("limits: {}", fmt::join(reasons, ", "))});
  }
  if (clock_mhz && input.max_sm_clock_mhz) {
    finding.evidence.push_back(clock_evidence(input, *clock_mhz));
  }
  if (input.row != nullptr && input.row->mean_power_watts) {
    finding.evidence.push_back(
        {.kind = EvidenceKind::kCounter,
         .key = "power_watts",
         .text = fmt::format("mean power {} W", format_significant(*input.row->mean_power_watts))});
  }
  if (is_low) {
    finding.max_gain_ratio = *input.max_sm_clock_mhz / *clock_mhz;
    finding.bound = "all time in proportion to the SM clock, at its highest; memory has its own";
  } else {
    finding.bound = "none: the clock is not known";
  }
  return finding;
}

}  // namespace steplens
