#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "viewer/data/trace_model.h"

namespace steplens {

/// Durations in bins of equal ratio, 16 an octave: the same bins in every trace, so that two can be
/// laid over each other.
struct DurationHistogram {
  int first_bin = 0;
  std::vector<std::uint32_t> counts;  // Neither the first nor the last is 0.

  static int bin_of(std::int64_t duration_ns);
  static double lower_ns(int bin);
};

/// All operations of one name, copies and sets included.
struct KernelStats {
  NameId name = 0;
  KernelCategory category = KernelCategory::kOther;
  std::int64_t count = 0;
  std::int64_t total_ns = 0;  // What overlaps counts again.
  std::int64_t min_ns = 0;
  std::int64_t p50_ns = 0;  // Nearest rank, here and below.
  std::int64_t p90_ns = 0;
  std::int64_t p99_ns = 0;
  std::int64_t max_ns = 0;
  std::uint32_t longest_row = kNoRow;  // Of Trace::gpu_ops.
  double share_ratio = 0;              // Of the total of all.
  DurationHistogram histogram;

  double mean_ns() const { return static_cast<double>(total_ns) / static_cast<double>(count); }
};

struct StepSpan {
  int first = 0;  // Rows of Trace::steps, both included.
  int last = 0;
  bool operator==(const StepSpan&) const = default;
};

struct KernelTable {
  std::vector<KernelStats> kernels;  // Longest total first.
  std::int64_t total_ns = 0;
  int num_steps = 1;  // That the rows cover; 1 of a trace without steps.

  double per_step(double value) const { return value / num_steps; }
};

/// Of some steps, or of everything. Linear in the number of operations; ends early, with what it
/// has, once `is_cancelled` is true.
KernelTable compute_kernel_table(const TraceModel& model, std::optional<StepSpan> steps,
                                 const std::atomic<bool>* is_cancelled = nullptr);

/// One kernel in two arms, by its name in the trace.
struct KernelPair {
  const KernelStats* a = nullptr;  // One of the two may be missing.
  const KernelStats* b = nullptr;
  double change_ns = 0;  // Total a step of b less that of a; 0 counts for a missing one.
};

/// Largest change first; the tables must stay. `names_*`: of the models.
std::vector<KernelPair> pair_kernels(const KernelTable& a, const NameTable& names_a,
                                     const KernelTable& b, const NameTable& names_b);

}  // namespace steplens
