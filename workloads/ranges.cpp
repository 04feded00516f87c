#include "workloads/ranges.h"

#include <atomic>
#include <vector>

#include "harness/ranks/rank_progress.h"
#include "harness/trace/range_names.h"

namespace steplens {
namespace {

std::atomic<bool> is_on{true};
std::atomic<std::int64_t> num_opened{0};
std::atomic<RangesObserver> observer{nullptr};
thread_local std::vector<std::string> open_names;
thread_local std::uint64_t version = 0;

void tell_observer() {
  const RangesObserver function = observer.load(std::memory_order_relaxed);
  if (function != nullptr) function();
}

}  // namespace

void enable_ranges(bool is_enabled) { is_on = is_enabled; }
bool ranges_are_enabled() { return is_on.load(std::memory_order_relaxed); }
std::int64_t num_ranges_opened() { return num_opened.load(); }

std::string open_modules() {
  std::string modules;
  for (const std::string& name : open_names) {
    if (is_structure_range_name(name)) {
      modules.clear();
    } else {
      modules += modules.empty() ? name : "/" + name;
    }
  }
  return modules;
}

Phase open_phase() {
  for (auto it = open_names.rbegin(); it != open_names.rend(); ++it) {
    const Phase phase = phase_of_range_name(*it);
    if (phase != Phase::kNone) return phase;
  }
  return Phase::kNone;
}

std::uint64_t open_ranges_version() { return version; }

void observe_ranges(RangesObserver function) { observer = function; }

ScopedRange::ScopedRange(const char* name) : is_open_(ranges_are_enabled()) {
  if (!is_open_) return;
  nvtxRangePushA(name);
  note_range(name);
  open_names.emplace_back(name);
  ++version;
  num_opened.fetch_add(1, std::memory_order_relaxed);
  tell_observer();
}

ScopedRange::~ScopedRange() {
  if (!is_open_) return;
  open_names.pop_back();
  ++version;
  nvtxRangePop();
  tell_observer();
}

}  // namespace steplens
