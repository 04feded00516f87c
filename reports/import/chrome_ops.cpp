#include "reports/import/chrome_ops.h"

#include <algorithm>
#include <string_view>

#include "reports/export/op_names.h"
#include "reports/import/trace_assembler.h"

namespace steplens {
namespace {

CopyKind copy_kind_in(std::string_view name) {
  for (const CopyKind kind :
       {CopyKind::kHostToDevice, CopyKind::kDeviceToHost, CopyKind::kDeviceToDevice,
        CopyKind::kPeerToPeer, CopyKind::kHostToHost}) {
    if (name.find(copy_title(kind)) != std::string_view::npos) return kind;
  }
  return CopyKind::kOther;
}

MemoryKind memory_kind_in(std::string_view name) {
  for (const MemoryKind kind : {MemoryKind::kPageable, MemoryKind::kPinned, MemoryKind::kDevice,
                                MemoryKind::kManaged, MemoryKind::kArray}) {
    if (name.find(memory_title(kind)) != std::string_view::npos) return kind;
  }
  return MemoryKind::kUnknown;
}

}  // namespace

std::uint32_t id_32(std::int64_t value) {
  return value < 0 ? 0 : static_cast<std::uint32_t>(value);
}

void read_transfer(const ChromeEvent& event, bool is_ours, GpuOp& op) {
  if (is_ours) {
    op.copy_kind = enum_of(event.argument("copy_kind"), CopyKind::kOther);
    op.source_memory = enum_of(event.argument("source_memory"), MemoryKind::kArray);
    op.target_memory = enum_of(event.argument("target_memory"), MemoryKind::kArray);
    return;
  }
  const std::string_view name = event.text("name");
  const std::size_t arrow = std::min(name.find("->"), name.size());
  if (op.kind == GpuOpKind::kCopy) {
    op.copy_kind = copy_kind_in(name.substr(0, name.find('(')));
    op.source_memory = memory_kind_in(name.substr(0, arrow));
    op.target_memory = memory_kind_in(name.substr(arrow));
  } else if (op.kind == GpuOpKind::kSet) {
    op.target_memory = memory_kind_in(name);
  }
}

std::optional<LaunchShape> launch_shape_in(const ChromeEvent& event) {
  const ChromeValue* grid = event.find_argument("grid");
  const ChromeValue* block = event.find_argument("block");
  if (grid == nullptr || block == nullptr || grid->integers.size() != 3 ||
      block->integers.size() != 3) {
    return std::nullopt;
  }
  const std::uint32_t dynamic_bytes = id_32(event.argument_or("dynamic_shared_bytes", 0));
  const std::uint32_t shared_bytes = id_32(event.argument_or("shared memory", 0));
  return LaunchShape{.grid_x = id_32(grid->integers[0]),
                     .grid_y = id_32(grid->integers[1]),
                     .grid_z = id_32(grid->integers[2]),
                     .block_x = id_32(block->integers[0]),
                     .block_y = id_32(block->integers[1]),
                     .block_z = id_32(block->integers[2]),
                     .registers_per_thread = id_32(event.argument_or("registers per thread", 0)),
                     // Kineto has only the sum.
                     .static_shared_bytes = shared_bytes - std::min(shared_bytes, dynamic_bytes),
                     .dynamic_shared_bytes = dynamic_bytes};
}

}  // namespace steplens
