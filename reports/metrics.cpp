#include "reports/metrics.h"

#include <algorithm>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr std::string_view kEffectSource = "throughput blocks of complete rounds";
constexpr std::string_view kSteps = "block.json: steps";
constexpr std::string_view kMemory = "block.json: memory";
constexpr std::string_view kSamples = "block.json: samples (NVML)";
constexpr std::string_view kTrace = "trace.slt of a block of its own (CUPTI)";
constexpr std::string_view kDerived = "durations of trace.slt; work derived from the config";
constexpr std::string_view kTracker = "trace.slt of a memory block (allocator's recorder)";

constexpr Metric kMetrics[] = {
    // ---- Effects. ----
    {"effect_ratio", kArmRecord, "effect", "1",
     "Rate of the arm / rate of its reference; above 1 is faster.",
     "exp(mean over rounds of log(valid_tokens_per_s of arm / of reference))", kEffectSource},
    {"effect_low_ratio", kArmRecord, "effect, low", "1",
     "Lower end of the effect's interval, of this comparison alone.",
     "exp(mean - t * sd / sqrt(rounds)) of the log-ratios", kEffectSource},
    {"effect_high_ratio", kArmRecord, "effect, high", "1",
     "Upper end of the effect's interval, of this comparison alone.",
     "exp(mean + t * sd / sqrt(rounds)) of the log-ratios", kEffectSource},
    {"effect_per_cycle_ratio", kArmRecord, "per cycle", "1",
     "The effect had both run at one SM clock; only where the mean clocks differ by more than 1 %.",
     "effect_ratio / (mean SM clock of arm / of reference)", kSamples},
    {"p_value", kArmRecord, "raw p", "1",
     "Probability of an effect at least as large if the switch did nothing, of this comparison "
     "alone.",
     "share of sign flips of the log-ratios whose |sum| is at least the observed one",
     kEffectSource},
    {"p_adjusted", kArmRecord, "adj. p", "1",
     "The same with all comparisons of the matrix together.",
     "step-down max-T over sign flips of whole rounds", kEffectSource},
    {"min_detectable_ratio", kArmRecord, "smallest effect seen with 80 % power", "1",
     "Smallest effect that these rounds find in 80 % of runs; from 8 rounds on.",
     "exp((t(1 - 0.025 / k, n - 1) + t(0.8, n - 1)) * sd / sqrt(n)), k comparisons, n rounds",
     kEffectSource},
    {"num_rounds", kArmRecord, "rounds", "1", "Rounds that the estimate rests on.",
     "complete rounds with a usable block of arm and reference", "manifest.json: rounds"},
    {"num_failed_blocks", kArmRecord, "failed blocks", "1",
     "Blocks that ended other than ok, repeats included.", "count", "block.json: status"},
    {"block_sd_ratio", kArmRecord, "noise of a block", "1",
     "Standard deviation of the logarithm of one block's rate, slow drift taken out.",
     "sqrt(mean((difference of log rates of neighbouring rounds)^2) / 2)", kEffectSource},

    // ---- Rates and steps. ----
    {"valid_tokens_per_s", kArmRecord, "tokens/s", "tokens/s",
     "Rate of tokens that are no padding: what effects are about.",
     "geometric mean over blocks of sum(num_valid_tokens) / sum(step_wall_ns)", kSteps},
    {"positions_per_s", kArmRecord, "positions/s", "positions/s",
     "Rate of all processed positions, padding included.",
     "geometric mean over blocks of sum(num_positions) / sum(step_wall_ns)", kSteps},
    {"loss_tokens_per_s", kArmRecord, "loss tokens/s", "tokens/s",
     "Rate of tokens that the loss counts.",
     "geometric mean over blocks of sum(num_loss_tokens) / sum(step_wall_ns)", kSteps},
    {"step_wall_ns", kArmRecord, "step", "ns", "One optimizer step on the host's clock.",
     "geometric mean over blocks of mean(step_wall_ns)", kSteps},
    {"step_gpu_ns", kArmRecord, "step, GPU", "ns",
     "One optimizer step from event to event on the GPU.",
     "geometric mean over blocks of mean(step_gpu_ns)", kSteps},
    {"pooled_step_p50_ns", kArmRecord, "pooled p50", "ns",
     "Median of the steps of all blocks together; it describes and enters no test.",
     "50th percentile of step_wall_ns", kSteps},
    {"pooled_step_p90_ns", kArmRecord, "pooled p90", "ns", "The same, 90th percentile.",
     "90th percentile of step_wall_ns", kSteps},
    {"pooled_step_p99_ns", kArmRecord, "pooled p99", "ns", "The same, 99th percentile.",
     "99th percentile of step_wall_ns", kSteps},
    {"data_wait_ratio", kArmRecord, "data wait", "1",
     "Share of the step in which the host waits for the next batch; inside the clock.",
     "sum(data_wait_ns) / sum(step_wall_ns)", kSteps},
    {"compile_ns", kArmRecord, "compile", "ns",
     "Graph capture, compile and autotune time; outside the steps.", "median over blocks",
     "block.json: compile_ns"},
    {"mfu_causal_ratio", kArmRecord, "MFU", "1",
     "Share of the GPU's peak that the model's arithmetic uses, attention counted as the lower "
     "triangle.",
     "positions_per_s * (6 N + 6 L H hd T) / peak_flops_per_s", kSteps},
    {"mfu_full_ratio", kArmRecord, "MFU, full", "1",
     "The same, attention counted as the whole square.",
     "positions_per_s * (6 N + 12 L H hd T) / peak_flops_per_s", kSteps},
    {"peak_flops_per_s", kArmRecord, "peak", "FLOP/s", "Dense peak of the GPU that MFU rests on.",
     "table", "results.json: peak_source"},
    {"num_matmul_parameters", kArmRecord, "parameters in matrix products", "1",
     "Parameters that matrix products use (N): without the input embedding.", "count", "config"},

    // ---- Memory. ----
    {"peak_allocated_bytes", kArmRecord, "peak allocated", "bytes",
     "Largest memory in tensors since the end of the warm-up, graph pools included.",
     "median over blocks", kMemory},
    {"peak_reserved_bytes", kArmRecord, "peak reserved", "bytes",
     "Largest memory that the allocator held.", "median over blocks", kMemory},
    {"graph_pool_hidden_bytes", kArmRecord, "of it graph pools", "bytes",
     "Memory of captured graphs' pools that the allocator's own peak hides.", "median over blocks",
     kMemory},
    {"driver_used_bytes", kArmRecord, "driver's peak", "bytes",
     "Largest memory in use that the driver saw on the GPU.", "median over blocks",
     "block.json: samples (NVML)"},
    {"unaccounted_bytes", kArmRecord, "unaccounted", "bytes",
     "What the driver saw beyond the allocator: context, workspaces, others.",
     "driver_used_bytes - peak_reserved_bytes", kMemory},
    {"peak_rss_bytes", kArmRecord, "peak RSS", "bytes",
     "Largest resident memory of the process on the host.", "median over blocks", "/proc"},
    {"num_alloc_retries", kArmRecord, "retries", "1",
     "Allocations that succeeded only after the cache was emptied; they cost time.",
     "median over blocks", kMemory},

    // ---- Machine. ----
    {"energy_per_token_j", kArmRecord, "J per 1000 tokens", "J",
     "Energy of the GPU a valid token; reports show it for 1000. Of several ranks: of the GPUs "
     "that were read, and the tokens of their ranks. Where the samples cover more than "
     "the measured steps, the part that the steps take of them.",
     "sum(energy_j measured_wall_ns / duration_ns) / sum(num_valid_tokens)", kSamples},
    {"mean_power_watts", kArmRecord, "mean power", "W", "Mean power of the GPU, rank 0's.",
     "mean over blocks", kSamples},
    {"mean_sm_clock_mhz", kArmRecord, "mean SM clock", "MHz",
     "Mean clock of the multiprocessors of the GPU, rank 0's.", "mean over blocks", kSamples},
    {"max_temperature_celsius", kArmRecord, "max temperature", "C",
     "Highest temperature of the GPU.", "maximum over blocks", kSamples},
    {"cpu_time_ratio", kArmRecord, "CPUs used", "1",
     "CPU seconds of the process a second, all threads.", "sum(cpu_time_ns) / sum(duration_ns)",
     "/proc"},
    {"throttle_shares", kArmRecord, "clocks held back by", "1",
     "Share of the measured time in which each reason held the clocks back.",
     "mean over samples of each clock-event-reason bit", kSamples},

    // ---- Guards. ----
    {"loss_deviation_ratio", kArmRecord, "loss deviation", "1",
     "How far the loss leaves the reference's, worst round.",
     "max over rounds of mean |loss / reference's loss - 1| over the first 40 steps", kSteps},
    {"grad_norm_deviation_ratio", kArmRecord, "gradient-norm deviation", "1",
     "The same of the gradient norm before the clip.",
     "max over rounds of mean |grad_norm / reference's - 1| over the first 40 steps", kSteps},
    {"loss_tolerance_ratio", kArmRecord, "loss tolerance", "1",
     "What loss_deviation_ratio may be at most.", "table by precision", "reports/guards.h"},
    {"grad_norm_tolerance_ratio", kArmRecord, "gradient-norm tolerance", "1",
     "What grad_norm_deviation_ratio may be at most.", "table by precision", "reports/guards.h"},

    // ---- Traces. ----
    {"step_ns", kTraceRecord, "step", "ns",
     "One traced step on the device's clock: it explains an effect, and never measures one.",
     "mean over the counted steps", kTrace},
    {"compute_ns", kTraceRecord, "compute", "ns",
     "Time a step in which at least one kernel that is no communication ran.",
     "length of the union of kernels", kTrace},
    {"communication_exposed_ns", kTraceRecord, "communication", "ns",
     "Time a step in which only communication ran.", "union of communication without compute",
     kTrace},
    {"copy_exposed_ns", kTraceRecord, "copies", "ns",
     "Time a step in which only the copy engines ran.",
     "union of copies without compute and communication", kTrace},
    {"idle_ns", kTraceRecord, "idle", "ns", "Time a step in which nothing ran on the device.",
     "step_ns - compute_ns - communication_exposed_ns - copy_exposed_ns", kTrace},
    {"busy_ratio", kTraceRecord, "busy", "1", "Share of the step in which something ran.",
     "1 - idle_ns / step_ns", kTrace},
    {"num_kernels", kTraceRecord, "kernels", "1", "Kernels a step.", "mean over the counted steps",
     kTrace},
    {"coverage_ratio", kTraceRecord, "coverage", "1",
     "Share of the device's time whose phase, and in forward and backward module, a range tells.",
     "covered / summed durations of operations", kTrace},
    {"exclusive_ns", kTraceRecord, "time a step", "ns",
     "Time a step that belongs to these operations alone; what overlaps counts once, so these "
     "times sum up.",
     "mean over the counted steps", kTrace},

    // ---- Rates of kernels: measured durations, derived work. ----
    {"derived_flops", kTraceRecord, "FLOP a step", "FLOP",
     "Floating-point operations that the model's matrix products and attention need there; causal "
     "attention counts the lower triangle.",
     "sum of 2 m n k over the products, from the config", kDerived},
    {"least_bytes", kTraceRecord, "least bytes", "bytes",
     "What a perfect kernel moves: each operand read once, each result written once.",
     "sum over operands of elements * bytes an element, from the config", kDerived},
    {"achieved_flops_per_s", kTraceRecord, "TFLOP/s", "FLOP/s",
     "Rate at which derived FLOPs were done while these kernels ran.",
     "derived_flops / summed durations", kDerived},
    {"achieved_bytes_per_s", kTraceRecord, "GB/s", "bytes/s",
     "Rate of the least bytes: a kernel that moves more than it must gets a lower one than the "
     "memory saw.",
     "least_bytes / summed durations", kDerived},
    {"intensity_ratio", kTraceRecord, "FLOP/byte", "1", "Arithmetic that a byte is good for.",
     "derived_flops / least_bytes", kDerived},
    {"roof_share_ratio", kTraceRecord, "of its roof", "1",
     "Share of the best rate at that intensity: of the peak FLOP rate or of the bandwidth, "
     "whichever is the limit.",
     "achieved_flops_per_s / min(peak FLOP/s, intensity_ratio * peak bytes/s)", kDerived},

    // ---- What tracing costs. ----
    {"cost_ratio", kTracingRecord, "longer steps", "1",
     "How much longer a step is while it is traced.",
     "exp(mean over rounds of log(mean step of arm / of the arm it is against)) - 1",
     kEffectSource},
    {"cost_low_ratio", kTracingRecord, "longer steps, low", "1",
     "Lower end of that cost's two-sided 95 % interval.",
     "exp(mean - t * sd / sqrt(rounds)) - 1 of the log-ratios", kEffectSource},
    {"cost_high_ratio", kTracingRecord, "longer steps, high", "1",
     "Upper end of that cost's two-sided 95 % interval.",
     "exp(mean + t * sd / sqrt(rounds)) - 1 of the log-ratios", kEffectSource},
    {"cost_upper_ratio", kTracingRecord, "95 % upper bound", "1",
     "One-sided: 95 % of such runs have the true cost below it.",
     "exp(mean + t(0.95) * sd / sqrt(rounds)) - 1 of the log-ratios", kEffectSource},
    {"against_step_ns", kTracingRecord, "step without", "ns",
     "The step that the cost is a share of.", "mean over rounds of mean(step_wall_ns)", kSteps},
    {"num_recorded_kernels", kTracingRecord, "kernels a step", "1",
     "Kernels that the traced arm recorded, a step.", "median over its blocks",
     "block.json: evidence"},
    {"kernel_cost_ns", kTracingRecord, "a kernel", "ns",
     "The cost for each kernel recorded; absent where the interval holds 0.",
     "cost_ratio * against_step_ns / num_recorded_kernels", kEffectSource},

    // ---- Memory account. ----
    {"allocated_bytes", kMemoryRecord, "peak", "bytes",
     "What was allocated at the high-water mark: the sum of its owners.", "sum over owners",
     kTracker},
    {"cache_slack_bytes", kMemoryRecord, "cache slack", "bytes",
     "Reserved by the allocator but not allocated at that moment.",
     "reserved_bytes - allocated_bytes", kTracker},
    {"driver_used_peak_bytes", kMemoryRecord, "driver-used", "bytes",
     "Largest memory in use that the driver saw during that block.", "maximum", "NVML"},
};

}  // namespace

std::span<const Metric> all_metrics() { return kMetrics; }

const Metric* find_metric(std::string_view key) {
  const auto* const it = std::ranges::find(kMetrics, key, &Metric::key);
  return it == std::end(kMetrics) ? nullptr : it;
}

Column metric_column(std::string_view key) {
  const Metric* metric = find_metric(key);
  SL_CHECK(metric != nullptr);
  return metric_column(key, std::string(metric->title));
}

Column metric_column(std::string_view key, std::string title) {
  SL_CHECK(find_metric(key) != nullptr);
  return {.header = std::move(title), .align = Align::kRight, .metric = key};
}

}  // namespace steplens
