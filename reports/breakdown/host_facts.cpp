#include "reports/breakdown/host_facts.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/trace/range_names.h"
#include "reports/breakdown/idle.h"
#include "reports/breakdown/intervals.h"

namespace steplens {
namespace {

std::string_view range_name(const Trace& trace, std::uint32_t range) {
  if (range >= trace.ranges.size()) return {};
  return trace.text(trace.ranges[range].name);
}

// Moments of one kind of call, and which name took longest.
class Calls {
 public:
  void add(std::string_view name, Interval interval, std::string_view range = {}) {
    ++count_;
    intervals_.push_back(interval);
    by_name_[std::string(name)] += interval.length_ns();
    by_range_[std::string(range)] += interval.length_ns();
  }
  std::int64_t count() const { return count_; }
  std::int64_t total() const { return total_ns(normalised(intervals_)); }
  std::string longest_name() const { return longest(by_name_); }
  std::string longest_range() const { return longest(by_range_); }

 private:
  static std::string longest(const std::map<std::string, std::int64_t>& sums) {
    const auto it =
        std::ranges::max_element(sums, {}, [](const auto& entry) { return entry.second; });
    return it == sums.end() ? std::string() : it->first;
  }

  std::int64_t count_ = 0;
  Intervals intervals_;
  std::map<std::string, std::int64_t> by_name_;
  std::map<std::string, std::int64_t> by_range_;
};

class Host {
 public:
  explicit Host(const Trace& trace) : trace_(trace), is_host_(trace.threads.size(), false) {
    for (const RangeInstance& instance : trace.range_instances) {
      if (instance.thread < is_host_.size() &&
          range_name(trace, instance.range) == kStepRangeName) {
        is_host_[instance.thread] = true;
      }
    }
    for (const Step& step : trace.steps) steps_.push_back({step.start_ns, step.end_ns});
    steps_ = normalised(std::move(steps_));
  }

  bool is_host(std::uint32_t thread) const { return thread < is_host_.size() && is_host_[thread]; }
  bool is_in_step(std::int64_t time_ns) const { return contains(steps_, time_ns); }

  // Name of the innermost range open at the call.
  std::string_view range_of(const Api& api) const {
    if (api.range_instance < trace_.range_instances.size()) {
      return range_name(trace_, trace_.range_instances[api.range_instance].range);
    }
    return {};
  }

 private:
  const Trace& trace_;
  std::vector<bool> is_host_;
  Intervals steps_;
};

}  // namespace

bool is_compilation(std::string_view name) {
  constexpr std::array<std::string_view, 12> kParts = {"cuModuleLoad",
                                                       "cuLibraryLoad",
                                                       "nvrtcCompile",
                                                       "cudaLibraryLoad",
                                                       "cuLinkAdd",
                                                       "driver compiler",
                                                       "module loading",
                                                       "lazy function loading",
                                                       "compile_inner",
                                                       "frame_compile",
                                                       "CompiledFunction compile",
                                                       "cudaGraphInstantiate"};
  return std::ranges::any_of(
      kParts, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

HostFacts find_host_facts(const Trace& trace) {
  const Host host(trace);
  HostFacts facts{.num_steps = std::ssize(trace.steps)};
  Calls waits;
  Calls allocations;
  Calls compilations;
  for (const Api& api : trace.apis) {
    if (!host.is_in_step(api.start_ns)) continue;
    const std::string& name = trace.text(api.name);
    const Interval interval = {.start_ns = api.start_ns, .end_ns = api.end_ns};
    if (is_allocator_call(name)) allocations.add(name, interval);
    if (is_compilation(name)) compilations.add(name, interval);
    if (is_waiting_call(name) && host.is_host(api.thread)) {
      waits.add(name, interval, host.range_of(api));
    }
  }
  for (const RangeInstance& instance : trace.range_instances) {
    if (!host.is_in_step(instance.start_ns)) continue;
    const std::string_view name = range_name(trace, instance.range);
    if (name == kMicroStepRangeName || name == "micro_step") ++facts.num_micro_steps;
    if (is_compilation(name)) {
      compilations.add(name, {.start_ns = instance.start_ns, .end_ns = instance.end_ns});
    }
  }
  facts.num_waits = waits.count();
  facts.wait_ns = waits.total();
  facts.longest_wait = waits.longest_name();
  facts.wait_range = waits.longest_range();
  facts.num_allocator_calls = allocations.count();
  facts.allocator_ns = allocations.total();
  facts.num_compilations = compilations.count();
  facts.compilation_ns = compilations.total();
  facts.longest_compilation = compilations.longest_name();
  return facts;
}

}  // namespace steplens
