#include "viewer/data/document.h"

#include <algorithm>

namespace steplens {

TraceEntry* Document::find_trace(std::string_view arm, bool is_memory_run) {
  const auto found = std::ranges::find_if(traces, [&](const TraceEntry& entry) {
    return entry.arm == arm && entry.is_memory_run == is_memory_run;
  });
  return found == traces.end() ? nullptr : &*found;
}

const TraceModel* Document::want_trace(std::string_view arm, bool is_memory_run) {
  TraceEntry* entry = find_trace(arm, is_memory_run);
  if (entry == nullptr) return nullptr;
  entry->is_wanted = true;
  return entry->model.get();
}

}  // namespace steplens
