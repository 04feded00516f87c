#include "workloads/ranges.h"

#include <atomic>

namespace steplens {
namespace {

std::atomic<bool> is_on{true};
std::atomic<std::int64_t> num_opened{0};

}  // namespace

void enable_ranges(bool is_enabled) { is_on = is_enabled; }
bool ranges_are_enabled() { return is_on.load(std::memory_order_relaxed); }
std::int64_t num_ranges_opened() { return num_opened.load(); }

Range::Range(const char* name) : is_open_(ranges_are_enabled()) {
  if (!is_open_) return;
  nvtxRangePushA(name);
  num_opened.fetch_add(1, std::memory_order_relaxed);
}

Range::~Range() {
  if (is_open_) nvtxRangePop();
}

}  // namespace steplens
