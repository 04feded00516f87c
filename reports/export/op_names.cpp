#include "reports/export/op_names.h"

#include <array>

#include <fmt/format.h>

#include "reports/breakdown/kernel_names.h"

namespace steplens {

std::vector<std::string> range_paths(const Trace& trace) {
  std::vector<std::string> paths(trace.ranges.size());
  for (std::size_t row = 0; row < trace.ranges.size(); ++row) {
    const Range& range = trace.ranges[row];
    const std::string& name = trace.text(range.name);
    paths[row] = range.parent < row ? fmt::format("{}/{}", paths[range.parent], name) : name;
  }
  return paths;
}

std::string_view copy_title(CopyKind kind) {
  constexpr std::array<std::string_view, 7> kTitles = {"",     "HtoD", "DtoH", "DtoD",
                                                       "PtoP", "HtoH", "other"};
  return kTitles.at(static_cast<std::size_t>(kind));
}

std::string_view memory_title(MemoryKind kind) {
  constexpr std::array<std::string_view, 6> kTitles = {"Unknown", "Pageable", "Pinned",
                                                       "Device",  "Managed",  "Array"};
  return kTitles.at(static_cast<std::size_t>(kind));
}

std::string op_title(const Trace& trace, const GpuOp& op) {
  switch (op.kind) {
    case GpuOpKind::kCopy:
      return fmt::format("Memcpy {} ({} -> {})", copy_title(op.copy_kind),
                         memory_title(op.source_memory), memory_title(op.target_memory));
    case GpuOpKind::kSet: return fmt::format("Memset ({})", memory_title(op.target_memory));
    case GpuOpKind::kGraph: return op.name == 0 ? "CUDA graph" : trace.text(op.name);
    default: return kernel_display_name(trace.text(op.name));
  }
}

}  // namespace steplens
