#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/bundle.h"

/// What tracing costs, from a matrix that has it as arms: `tracing=null` (CUPTI on, its records
/// thrown away), `tracing=full` (the collector), and PyTorch's torch.profiler beside its own
/// untraced step. Every cost is of pairs in the same round.
namespace steplens {

/// Step of one arm against that of another.
struct TracingCost {
  std::string arm;
  std::string against;
  int num_rounds = 0;  // In which both have a usable block; at least 2.
  double ratio = 0;    // Mean step of `arm` / that of `against` - 1; its two-sided 95 % interval:
  double low_ratio = 0;
  double high_ratio = 0;
  double upper_ratio = 0;             // One-sided: 95 % of such runs have the truth below it.
  std::optional<double> num_kernels;  // That `arm` recorded, a step.
  double against_step_ns = 0;         // Mean over the rounds.

  /// Cost for each kernel recorded.
  std::optional<double> ns_per_kernel() const;
};

struct TracingCosts {
  std::vector<TracingCost> of_steplens;          // Arms tracing=null and tracing=full.
  std::optional<TracingCost> of_collector;       // tracing=full against tracing=null.
  std::optional<TracingCost> of_torch_profiler;  // torch-profiler against torch-eager.
  /// Summed durations of the kernels of a step as torch.profiler saw them: median over its blocks.
  std::optional<double> torch_profiler_kernel_ns;
  std::optional<double> torch_profiler_num_kernels;
};

/// Empty where the bundle has no such arms.
TracingCosts compute_tracing_costs(const Bundle& bundle);

}  // namespace steplens
