#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/bundle.h"

/// What tracing costs, from a matrix that has it as arms: `tracing=null` (CUPTI on, its records
/// thrown away), `tracing=full` (the collector), and PyTorch's torch.profiler beside its own
/// untraced step. Every cost is of pairs in the same round.
namespace steplens {

/// Step of one arm against that of another. JSON keys are the member names, unchanged; absent is
/// null.
struct TracingCost {
  std::string arm;
  std::string against;
  int num_rounds = 0;  // In which both have a usable block; at least 2.
  double cost_ratio =
      0;  // Mean step of `arm` / that of `against` - 1; its two-sided 95 % interval:
  double cost_low_ratio = 0;
  double cost_high_ratio = 0;
  double cost_upper_ratio = 0;  // One-sided: 95 % of such runs have the truth below it.
  double against_step_ns = 0;   // Mean over the rounds.
  std::optional<double> num_recorded_kernels;  // By `arm`, a step.
  std::optional<double> kernel_cost_ns;        // For each of them; absent where it may be nothing.
};

struct TracingCosts {
  std::vector<TracingCost> of_steplens;          // Arms tracing=null and tracing=full.
  std::optional<TracingCost> of_collector;       // tracing=full against tracing=null.
  std::optional<TracingCost> of_torch_profiler;  // torch-profiler against torch-eager.
  /// Summed durations of the kernels of a step as torch.profiler saw them: median over its blocks.
  std::optional<double> torch_profiler_kernel_ns;
  std::optional<double> torch_profiler_num_kernels;
};

/// Absent where the bundle has no such arms, or not two rounds of them.
std::optional<TracingCosts> compute_tracing_costs(const Bundle& bundle);

}  // namespace steplens
