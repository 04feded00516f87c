#include "reports/export/csv.h"

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "reports/breakdown/kernel_names.h"
#include "reports/export/op_names.h"
#include "reports/export/output_file.h"
#include "reports/export/utf8.h"

namespace steplens {
namespace {

constexpr std::string_view kHeader =
    "start_ns,end_ns,duration_ns,kind,name,demangled_name,device_index,stream_id,correlation_id,"
    "graph_node_id,bytes,copy_kind,source_memory,target_memory,grid_x,grid_y,grid_z,block_x,"
    "block_y,block_z,registers_per_thread,static_shared_bytes,dynamic_shared_bytes,step_index,"
    "micro_step_index,phase,attribution,range\r\n";

struct Names {
  std::string title;
  std::string demangled;
};

class Writer {
 public:
  explicit Writer(const Trace& trace) : trace_(trace), names_(trace.strings.size()) {
    for (const std::string& path : range_paths(trace)) paths_.push_back(csv_field(path));
  }

  void append(std::string& csv, const GpuOp& op) {
    const bool is_transfer = op.kind == GpuOpKind::kCopy || op.kind == GpuOpKind::kSet;
    const auto out = std::back_inserter(csv);
    fmt::format_to(out, "{},{},{},{},", op.start_ns, op.end_ns, op.end_ns - op.start_ns,
                   name_of(op.kind));
    if (is_transfer) {
      fmt::format_to(out, "{},{},", csv_field(op_title(trace_, op)),
                     csv_field(trace_.text(op.name)));
    } else {
      const Names& names = names_of(op);
      fmt::format_to(out, "{},{},", names.title, names.demangled);
    }
    fmt::format_to(out, "{},{},", op.device, op.stream_id);
    append_unless(csv, op.correlation_id, 0U);
    append_unless(csv, op.graph_node_id, std::uint64_t{0});
    if (is_transfer) {
      fmt::format_to(out, "{},{},", op.bytes, name_of(op.copy_kind));
      csv += op.kind == GpuOpKind::kCopy ? name_of(op.source_memory) : "";
      fmt::format_to(out, ",{},", name_of(op.target_memory));
    } else {
      csv += ",,,,";
    }
    append_shape(csv, op);
    append_unless(csv, op.step_index, -1);
    append_unless(csv, op.micro_step_index, -1);
    fmt::format_to(out, "{},{},", name_of(op.phase), name_of(op.attribution));
    if (op.range != kNoRow) csv += paths_[op.range];
    csv += "\r\n";
  }

 private:
  template <class T>
  static void append_unless(std::string& csv, T value, T absent) {
    if (value != absent) fmt::format_to(std::back_inserter(csv), "{}", value);
    csv += ',';
  }

  void append_shape(std::string& csv, const GpuOp& op) const {
    if (op.launch_shape == kNoRow) {
      csv += ",,,,,,,,,";
      return;
    }
    const LaunchShape& shape = trace_.launch_shapes[op.launch_shape];
    fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{},{},{},", shape.grid_x,
                   shape.grid_y, shape.grid_z, shape.block_x, shape.block_y, shape.block_z,
                   shape.registers_per_thread, shape.static_shared_bytes,
                   shape.dynamic_shared_bytes);
  }

  const Names& names_of(const GpuOp& op) {
    Names& names = names_[op.name];
    if (names.title.empty()) {
      names = {.title = csv_field(op_title(trace_, op)),
               .demangled = csv_field(demangled(trace_.text(op.name)))};
    }
    return names;
  }

  const Trace& trace_;
  std::vector<Names> names_;  // Of each string, once it was asked for.
  std::vector<std::string> paths_;
};

}  // namespace

std::string csv_field(std::string_view text) {
  std::string valid = valid_utf8(text);
  if (valid.find_first_of(",\"\r\n") == std::string::npos) return valid;
  std::string field = "\"";
  for (const char c : valid) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

void write_csv(const std::filesystem::path& path, const Trace& trace, const RowProgress& progress) {
  OutputFile file(path);
  file.write(kHeader);
  Writer writer(trace);
  RowCounter counter(progress, static_cast<std::int64_t>(trace.gpu_ops.size()));
  std::string line;
  for (const GpuOp& op : trace.gpu_ops) {
    line.clear();
    writer.append(line, op);
    file.write(line);
    counter.count();
  }
  file.publish();
}

}  // namespace steplens
