#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "harness/bundle.h"
#include "reports/advice/finding.h"
#include "reports/breakdown/traced_arm.h"
#include "reports/counters/counter_use.h"
#include "reports/memory/memory_account.h"
#include "reports/results.h"

namespace steplens {

/// All that is known of one arm. Everything but its name may be missing: a lone trace has no rows
/// of a matrix, a block without a GPU no counters. Pointers outlive the advice.
struct AdviceInput {
  std::string arm;
  const RunConfig* config = nullptr;
  const RunConfig* reference_config = nullptr;  // Of the arm that it is compared with.
  const Results* results = nullptr;             // Of its bundle,
  const ArmResult* row = nullptr;               // and its row there.
  const TracedArm* trace = nullptr;
  const CounterSummary* counters = nullptr;
  const MemoryUse* memory = nullptr;
  std::optional<double> max_sm_clock_mhz;
  std::optional<std::int64_t> device_memory_bytes;
};

/// The input in the numbers that rules speak of: means a step, in nanoseconds.
///
/// **Distorted traces.** Where tracing made steps more than 10 % longer, the host's share of them
/// is overstated. There the device's idle time counts only as far as it fits into the step that was
/// not traced: step without trace - time in which the device was busy. All classes shrink alike.
class ArmFacts {
 public:
  explicit ArmFacts(const AdviceInput& input);

  const AdviceInput& input() const { return input_; }
  bool has_trace() const { return breakdown_ != nullptr; }
  const Breakdown& breakdown() const { return *breakdown_; }
  /// Did a GPU do the work? Operators of a CPU arm are their own launches.
  bool is_gpu() const { return is_gpu_; }

  /// Length that bounds are taken of: the traced step, or the one without trace where that is
  /// distorted; without a trace the one of the matrix. 0: unknown.
  double step_ns() const { return step_ns_; }
  double idle_ns(IdleClass idle) const;
  double category_ns(KernelCategory category) const;
  double phase_ns(Phase phase) const;
  double per_step(std::int64_t total) const;
  /// `ns` / step; 0 without a step.
  double share(double ns) const { return step_ns_ > 0 ? ns / step_ns_ : 0; }

  /// Value of a config key as text; empty where the config is unknown.
  std::string value_of(std::string_view key) const;
  bool is(std::string_view key, std::string_view value) const { return value_of(key) == value; }

  /// step / (step - removable): the rate's bound if that much time went. Absent if nothing would be
  /// left, or without a step.
  std::optional<double> gain_without(double removable_ns) const;

  // Evidence with its number in words.
  Evidence idle_evidence(IdleClass idle) const;
  Evidence category_evidence(KernelCategory category) const;
  Evidence kernel_evidence(const UsageGroup& kernel) const;
  Evidence phase_evidence(Phase phase) const;
  /// "4.371 ms a step, 3.6 %"
  std::string amount_text(double ns) const;

 private:
  AdviceInput input_;
  const Breakdown* breakdown_ = nullptr;
  bool is_gpu_ = true;
  double step_ns_ = 0;
  double idle_scale_ = 1;  // Below 1 in a distorted trace.
};

}  // namespace steplens
