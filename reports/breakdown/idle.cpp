#include "reports/breakdown/idle.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>

#include "reports/breakdown/modules.h"

namespace steplens {
namespace {

// Moves the moments of `rest` that are in `taken` to the class; what is left stays in `rest`.
void take(Intervals& rest, const Intervals& taken, IdleClass idle, IdleTimes& times) {
  if (rest.empty() || taken.empty()) return;
  const Interval span = {.start_ns = rest.front().start_ns, .end_ns = rest.back().end_ns};
  const Intervals near = clip(taken, span);
  if (near.empty()) return;
  Intervals left = subtract(rest, near);
  times[static_cast<std::size_t>(idle)] += total_ns(rest) - total_ns(left);
  rest = std::move(left);
}

// The answer for every distinct name of a table: names repeat, and text is slow to compare.
std::vector<bool> matching_names(const Trace& trace, bool (*matches)(std::string_view)) {
  std::vector<bool> result(trace.strings.size(), false);
  std::vector<bool> is_known(trace.strings.size(), false);
  for (const Api& api : trace.apis) {
    if (is_known[api.name]) continue;
    is_known[api.name] = true;
    result[api.name] = matches(trace.text(api.name));
  }
  return result;
}

}  // namespace

std::string_view name_of(IdleClass idle) {
  switch (idle) {
    case IdleClass::kProfiler: return "profiler";
    case IdleClass::kAllocator: return "allocator";
    case IdleClass::kDataWait: return "data_wait";
    case IdleClass::kSync: return "sync";
    case IdleClass::kLateLaunch: return "late_launch";
    case IdleClass::kDependency: return "dependency";
    case IdleClass::kUnknown: return "unknown";
  }
  return "unknown";
}

std::string_view label_of(IdleClass idle) {
  switch (idle) {
    case IdleClass::kDataWait: return "data wait";
    case IdleClass::kLateLaunch: return "late launch";
    default: return name_of(idle);
  }
}

bool is_allocator_call(std::string_view name) {
  // Also the Async, Pitch, Managed, ... forms and versioned names such as cuMemAlloc_v2.
  constexpr std::array<std::string_view, 14> kPrefixes = {
      "cudaMalloc",         "cudaFree",      "cudaHostAlloc", "cudaHostRegister",
      "cudaHostUnregister", "cuMemAlloc",    "cuMemFree",     "cuMemMap",
      "cuMemUnmap",         "cuMemCreate",   "cuMemRelease",  "cuMemAddressReserve",
      "cuMemAddressFree",   "cuMemSetAccess"};
  return std::ranges::any_of(kPrefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_waiting_call(std::string_view name) {
  if (name.find("Synchronize") != std::string_view::npos) return true;
  const bool is_copy = name.starts_with("cudaMemcpy") || name.starts_with("cuMemcpy");
  return is_copy && name.find("Async") == std::string_view::npos;
}

IdleClassifier::IdleClassifier(const Trace& trace) : trace_(trace) {
  for (std::uint32_t row = 0; row < trace.apis.size(); ++row) {
    if (trace.apis[row].correlation_id != 0) apis_by_correlation_.push_back(row);
  }
  std::ranges::sort(apis_by_correlation_, {}, [&](std::uint32_t row) {
    const Api& api = trace_.apis[row];
    return std::tuple(api.correlation_id, api.start_ns, -api.end_ns);
  });
  const std::vector<bool> is_host_thread = find_host_threads();
  collect_calls(is_host_thread);
  collect_ranges(is_host_thread);
}

const Api* IdleClassifier::launch_of(const GpuOp& op) const {
  if (op.correlation_id == 0) return nullptr;
  const auto it =
      std::ranges::lower_bound(apis_by_correlation_, op.correlation_id, {},
                               [&](std::uint32_t row) { return trace_.apis[row].correlation_id; });
  if (it == apis_by_correlation_.end()) return nullptr;
  const Api& api = trace_.apis[*it];
  return api.correlation_id == op.correlation_id ? &api : nullptr;
}

std::optional<Interval> IdleClassifier::launch_interval(std::uint32_t op) const {
  if (op == kNoRow) return std::nullopt;
  const GpuOp& row = trace_.gpu_ops[op];
  if (row.kind == GpuOpKind::kOperator) {
    return Interval{.start_ns = row.start_ns, .end_ns = row.end_ns};
  }
  const Api* api = launch_of(row);
  if (api == nullptr) return std::nullopt;
  return Interval{.start_ns = api->start_ns, .end_ns = api->end_ns};
}

std::vector<bool> IdleClassifier::find_host_threads() const {
  std::vector<bool> is_host_thread(trace_.threads.size(), false);
  const auto mark = [&](std::uint32_t thread) {
    if (thread < is_host_thread.size()) is_host_thread[thread] = true;
  };
  for (const RangeInstance& instance : trace_.range_instances) {
    if (instance.range < trace_.ranges.size() &&
        trace_.text(trace_.ranges[instance.range].name) == kStepRangeName) {
      mark(instance.thread);
    }
  }
  for (const GpuOp& op : trace_.gpu_ops) {
    if (op.step_index < 0) continue;
    if (op.kind == GpuOpKind::kOperator) {
      mark(op.stream_id);
    } else if (op.kind == GpuOpKind::kKernel || op.kind == GpuOpKind::kGraph) {
      const Api* api = launch_of(op);
      if (api != nullptr) mark(api->thread);
    }
  }
  return is_host_thread;
}

void IdleClassifier::collect_calls(const std::vector<bool>& is_host_thread) {
  const std::vector<bool> allocates = matching_names(trace_, &is_allocator_call);
  const std::vector<bool> waits = matching_names(trace_, &is_waiting_call);
  const auto is_host = [&](std::uint32_t thread) {
    return thread < is_host_thread.size() && is_host_thread[thread];
  };
  for (const Api& api : trace_.apis) {
    const Interval interval = {.start_ns = api.start_ns, .end_ns = api.end_ns};
    if (allocates[api.name]) allocator_.push_back(interval);
    if (waits[api.name] && is_host(api.thread)) waits_.push_back(interval);
  }
  for (const Sync& sync : trace_.syncs) {
    if (trace_.text(sync.name) == "stream wait event") continue;  // The host goes on.
    const Api* api = launch_of({.correlation_id = sync.correlation_id});
    // A trace with calls tells which thread waited; only one without them leaves it open.
    if (api != nullptr ? !is_host(api->thread) : !trace_.apis.empty()) continue;
    waits_.push_back({.start_ns = sync.start_ns, .end_ns = sync.end_ns});
  }
  allocator_ = normalised(std::move(allocator_));
  waits_ = normalised(std::move(waits_));
}

void IdleClassifier::collect_ranges(const std::vector<bool>& is_host_thread) {
  std::vector<bool> is_data(trace_.ranges.size(), false);
  std::vector<bool> is_profiler(trace_.ranges.size(), false);
  for (std::size_t row = 0; row < trace_.ranges.size(); ++row) {
    const Range& range = trace_.ranges[row];
    is_profiler[row] = trace_.text(range.domain) == kProfilerDomainName;
    is_data[row] = !is_profiler[row] && trace_.text(range.name) == kDataRange;
    if (range.parent < row) is_data[row] = is_data[row] || is_data[range.parent];
  }
  for (const RangeInstance& instance : trace_.range_instances) {
    if (instance.range >= trace_.ranges.size()) continue;
    const Interval interval = {.start_ns = instance.start_ns, .end_ns = instance.end_ns};
    if (is_profiler[instance.range]) profiler_.push_back(interval);
    if (is_data[instance.range] && instance.thread < is_host_thread.size() &&
        is_host_thread[instance.thread]) {
      data_.push_back(interval);
    }
  }
  profiler_ = normalised(std::move(profiler_));
  data_ = normalised(std::move(data_));
}

void IdleClassifier::classify(Interval idle, std::uint32_t next_op, IdleTimes& times) const {
  if (idle.is_empty()) return;
  const auto give_rest = [&](const Intervals& rest, IdleClass to) {
    times[static_cast<std::size_t>(to)] += total_ns(rest);
  };
  const std::optional<Interval> launch = launch_interval(next_op);
  Intervals rest = {idle};
  take(rest, profiler_, IdleClass::kProfiler, times);
  if (launch && launch->end_ns <= idle.start_ns) return give_rest(rest, IdleClass::kDependency);
  take(rest, allocator_, IdleClass::kAllocator, times);
  take(rest, data_, IdleClass::kDataWait, times);
  if (launch && launch->start_ns >= idle.start_ns && contains(waits_, idle.start_ns)) {
    return give_rest(rest, IdleClass::kSync);
  }
  take(rest, waits_, IdleClass::kSync, times);
  give_rest(rest, launch ? IdleClass::kLateLaunch : IdleClass::kUnknown);
}

}  // namespace steplens
