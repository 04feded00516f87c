#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/trace/range_names.h"
#include "harness/trace/trace.h"
#include "reports/breakdown/host_facts.h"
#include "reports/breakdown/idle.h"
#include "reports/breakdown/intervals.h"
#include "reports/breakdown/kernel_patterns.h"

/// Where a step's time goes on the device: a trace's rows become times that add up.
///
/// **Steps on the device's clock.** They tile the window: a step runs from the start of its first
/// operation to the start of the next step's first one. Copies and sets of the data phase do not
/// open a step, for a loader may send them a step ahead. The last step ends with its last
/// operation, or with the end of a range "fence" that began behind it; without a fence it is open,
/// lacks the idle time that follows it, and does not count for the means (unless it is the only
/// one). Steps of which nothing ran on the device have no length.
///
/// **Exclusive time.** Every moment in which something ran belongs to exactly one operation:
/// computation before communication before copies, and within these the one that began first. So
/// exclusive times sum to the union, whatever overlaps.
namespace steplens {

/// What a moment counts as, best first.
enum class DeviceWork : std::uint8_t {
  kCompute,        // Kernels, graphs and operators,
  kCommunication,  // except those whose name is one of communication.
  kCopy,           // Copies and sets by the copy engines.
};
inline constexpr std::size_t kNumDeviceWorks = 3;

inline constexpr std::size_t kNumPhases = 7;

/// Of one step, or a sum over steps:
/// compute + communication_exposed + copy_exposed + idle = step.
struct StepTimes {
  std::int64_t step_ns = 0;
  std::int64_t compute_ns = 0;                // Unions: what runs at the same time counts once.
  std::int64_t communication_ns = 0;          // With what computation hides.
  std::int64_t communication_exposed_ns = 0;  // Without it.
  std::int64_t copy_ns = 0;
  std::int64_t copy_exposed_ns = 0;  // Hidden neither by computation nor by communication.
  std::int64_t idle_ns = 0;
  IdleTimes idle_by_class_ns = {};  // Sums to idle_ns.
  std::int64_t num_kernels = 0;     // Graphs and operators too; counted where they begin.
  std::int64_t num_copies = 0;      // And sets.

  std::int64_t busy_ns() const { return compute_ns + communication_exposed_ns + copy_exposed_ns; }
  std::int64_t communication_overlapped_ns() const {
    return communication_ns - communication_exposed_ns;
  }
  std::int64_t copy_overlapped_ns() const { return copy_ns - copy_exposed_ns; }
  StepTimes& operator+=(const StepTimes& other);
  bool operator==(const StepTimes&) const = default;
};

struct StepBreakdown {
  std::int32_t step_index = -1;  // Row of Trace::steps.
  Interval device;
  bool is_closed = true;  // The next step or a fence says where it ended.
  StepTimes times;
};

/// How much of something there was.
struct Usage {
  std::int64_t exclusive_ns = 0;
  std::int64_t summed_ns = 0;  // Sum of the durations: what overlaps counts again.
  std::int64_t num_operations = 0;

  Usage& operator+=(const Usage& other);
  bool operator==(const Usage&) const = default;
};

/// Operations that have something in common.
struct UsageGroup {
  std::string key;                                   // "none" where the trace does not say.
  std::string display;                               // For people.
  KernelCategory category = KernelCategory::kOther;  // Of kernels.
  Usage total;                                       // Over the counted steps.
  std::array<std::int64_t, kNumPhases> exclusive_by_phase_ns = {};  // Of `total`, by Phase.
  std::vector<Usage> by_step;  // As Breakdown::steps, the ones that are not counted too.
};

struct Breakdown {
  Interval window;
  std::vector<StepBreakdown> steps;  // In order; they tile the window.
  bool has_steps = true;             // Else the trace names none, and the whole window is one.
  std::int64_t num_counted_steps = 0;
  StepTimes total;  // Over the counted steps.

  // Longest exclusive time first.
  std::vector<UsageGroup> phases;
  std::vector<UsageGroup> modules;       // "block 3/attention"; the phase where it has none.
  std::vector<UsageGroup> module_kinds;  // "block/attention"
  std::vector<UsageGroup> categories;
  std::vector<UsageGroup> kernels;  // By name; `key` is as in the trace.

  HostFacts host;  // What the host did besides launching.

  // Of the operations in the window, by summed durations.
  std::int64_t operation_ns = 0;
  // With a phase and, in forward and backward and but for communication, a module.
  std::int64_t covered_ns = 0;
  bool has_whole_graphs = false;  // A row a graph launch: what lies in it has no phase of its own.

  std::int64_t num_operations = 0;  // In the window. Not among them:
  std::int64_t num_zero_timestamps = 0;
  std::int64_t num_end_before_start = 0;
  std::int64_t num_outside_window = 0;
  std::int64_t num_other_devices = 0;
  std::int64_t num_unattributed = 0;            // Among them.
  std::int64_t num_without_launch = 0;          // Among them: kernels without a row of the call.
  std::int64_t num_idle_steps = 0;              // Steps of which nothing ran on the device.
  std::int64_t max_imbalance_ns = 0;            // Largest |step - sum of its parts|.
  std::map<std::string, std::int64_t> quality;  // As recorded.
  bool has_lost_data = false;

  /// Do the parts of every step sum to it, within 1 us?
  bool is_consistent() const { return max_imbalance_ns <= 1000; }
  /// Of a total over the counted steps, the mean a step; 0 without steps.
  double per_step(std::int64_t total) const;
  double mean_step_ns() const { return per_step(total.step_ns); }
  std::optional<double> busy_ratio() const;  // busy / step
  /// covered / operation; only ranges count. Absent with whole graphs.
  std::optional<double> coverage_ratio() const;
};

/// Breaks down what one device of the trace did. Never throws for what a trace may hold; a trace
/// without a single usable operation gives a breakdown without steps. Rows whose timestamps are
/// zero (both 0, or both the clock's zero) or reversed are left out and counted. Whole-graph rows
/// are left out where the trace also has the kernels of graphs.
Breakdown compute_breakdown(const Trace& trace, std::uint8_t device = 0);

/// For results.json. Times without "total" or a step's index are means over the counted steps.
nlohmann::json to_json(const Breakdown& breakdown);

}  // namespace steplens
