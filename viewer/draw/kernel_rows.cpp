#include "viewer/draw/kernel_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "reports/format.h"
#include "viewer/draw/text.h"

namespace steplens {
namespace {

constexpr std::size_t kShareColumn = 4;
constexpr std::size_t kChangeColumn = 4;
constexpr std::size_t kChangeBarColumn = 5;

TableCell duration_cell(double duration_ns) {
  return {.text = format_duration_ns(duration_ns),
          .number = duration_ns,
          .exact = fmt::format("{:.1f}", duration_ns)};
}

TableCell count_cell(double count) {
  return {.text = format_mean_count(count), .number = count, .exact = fmt::format("{}", count)};
}

std::string change_text(double change_ns) {
  if (std::abs(change_ns) < 0.5) return "0";
  return (change_ns > 0 ? "+" : "-") + format_duration_ns(std::abs(change_ns));
}

TableCell category_cell(const Theme& theme, KernelCategory category) {
  return {.text = std::string(swatch_of(category).label), .colour = theme.colour_of(category)};
}

}  // namespace

std::vector<TableColumn> kernel_columns(bool has_two) {
  if (!has_two) {
    return {{.header = "Kernel"},
            {.header = "Category", .width_units = 118},
            {.header = "Count", .is_number = true, .width_units = 92, .tooltip = "A step"},
            {.header = "Total",
             .is_number = true,
             .width_units = 92,
             .tooltip = "A step; what overlaps counts again"},
            {.header = "Share",
             .is_number = true,
             .width_units = 150,
             .tooltip = "Of the total of all kernels and copies"},
            {.header = "Mean", .is_number = true, .width_units = 86},
            {.header = "Median", .is_number = true, .width_units = 86},
            {.header = "p90",
             .is_number = true,
             .width_units = 86,
             .tooltip = "90 % take at most so long"},
            {.header = "p99", .is_number = true, .width_units = 86},
            {.header = "Longest", .is_number = true, .width_units = 86}};
  }
  return {{.header = "Kernel"},
          {.header = "Category", .width_units = 118},
          {.header = "Total A", .is_number = true, .width_units = 92, .tooltip = "A step"},
          {.header = "Total B", .is_number = true, .width_units = 92, .tooltip = "A step"},
          {.header = "Change",
           .is_number = true,
           .width_units = 100,
           .tooltip = "Of the total a step, B less A"},
          {.header = "", .width_units = 150},
          {.header = "Count A", .is_number = true, .width_units = 76, .tooltip = "A step"},
          {.header = "Count B", .is_number = true, .width_units = 76, .tooltip = "A step"},
          {.header = "Mean A", .is_number = true, .width_units = 84},
          {.header = "Mean B", .is_number = true, .width_units = 84},
          {.header = "Mean change", .is_number = true, .width_units = 104}};
}

KernelRows kernel_rows(const Theme& theme, const KernelTable& table, const NameTable& names,
                       const KernelFilter& filter) {
  KernelRows made;
  made.largest_share_ratio =
      table.kernels.empty() ? 1 : std::max(1e-9, table.kernels[0].share_ratio);
  for (const KernelStats& stats : table.kernels) {
    const std::string& raw = names.raw(stats.name);
    if (!filter(raw, names.display(stats.name), stats.category)) continue;
    TableRow row{.id = raw};
    row.cells = {{.text = names.display(stats.name), .exact = raw},
                 category_cell(theme, stats.category),
                 count_cell(table.per_step(static_cast<double>(stats.count))),
                 duration_cell(table.per_step(static_cast<double>(stats.total_ns))),
                 {.text = format_percent(stats.share_ratio),
                  .number = stats.share_ratio,
                  .exact = fmt::format("{:.6f}", stats.share_ratio)},
                 duration_cell(stats.mean_ns())};
    for (const std::int64_t value_ns : {stats.p50_ns, stats.p90_ns, stats.p99_ns, stats.max_ns}) {
      row.cells.push_back(duration_cell(static_cast<double>(value_ns)));
    }
    made.rows.push_back(std::move(row));
  }
  return made;
}

KernelRows kernel_pair_rows(const Theme& theme, const KernelTable& a, const NameTable& names_a,
                            const KernelTable& b, const NameTable& names_b,
                            const KernelFilter& filter) {
  KernelRows made{.has_two = true};
  for (const KernelPair& pair : pair_kernels(a, names_a, b, names_b)) {
    const NameTable& names = pair.a != nullptr ? names_a : names_b;
    const KernelStats& any = pair.a != nullptr ? *pair.a : *pair.b;
    const std::string& raw = names.raw(any.name);
    if (!filter(raw, names.display(any.name), any.category)) continue;
    made.largest_change_ns = std::max(made.largest_change_ns, std::abs(pair.change_ns));
    const auto cell = [](const KernelTable& table, const KernelStats* stats, auto value) {
      return stats == nullptr ? absent_cell() : value(table, *stats);
    };
    const auto total = [](const KernelTable& table, const KernelStats& stats) {
      return duration_cell(table.per_step(static_cast<double>(stats.total_ns)));
    };
    const auto count = [](const KernelTable& table, const KernelStats& stats) {
      return count_cell(table.per_step(static_cast<double>(stats.count)));
    };
    const auto mean = [](const KernelTable&, const KernelStats& stats) {
      return duration_cell(stats.mean_ns());
    };
    TableCell mean_change = absent_cell();
    if (pair.a != nullptr && pair.b != nullptr) {
      const double ratio = pair.b->mean_ns() / pair.a->mean_ns();
      mean_change = {
          .text = format_change(ratio), .number = ratio, .exact = fmt::format("{:.6f}", ratio)};
    }
    TableRow row{.id = raw};
    row.cells = {{.text = names.display(any.name), .exact = raw},
                 category_cell(theme, any.category),
                 cell(a, pair.a, total),
                 cell(b, pair.b, total),
                 {.text = change_text(pair.change_ns),
                  .number = pair.change_ns,
                  .exact = fmt::format("{:.1f}", pair.change_ns),
                  .colour = pair.change_ns > 0 ? theme.bad : theme.good},
                 {.number = std::abs(pair.change_ns), .exact = " "},
                 cell(a, pair.a, count),
                 cell(b, pair.b, count),
                 cell(a, pair.a, mean),
                 cell(b, pair.b, mean),
                 std::move(mean_change)};
    made.rows.push_back(std::move(row));
  }
  return made;
}

bool paint_kernel_cell(const Theme& theme, const KernelRows& rows, const TableRow* row,
                       std::size_t column, ImVec2 low, ImVec2 high) {
  if (row == nullptr) return false;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float y = std::round((low.y + high.y) / 2);
  if (column == 1) {
    const TableCell& cell = row->cells[1];
    const float side = theme.px(9);
    list.AddRectFilled({low.x, y - side / 2}, {low.x + side, y + side / 2}, cell.colour,
                       theme.px(2));
    draw_text(list, low.x + side + theme.px(6), y - ImGui::GetTextLineHeight() / 2, theme.muted,
              cell.text);
    return true;
  }
  if (!rows.has_two && column == kShareColumn) {
    const TableCell& cell = row->cells[column];
    const float room = high.x - low.x - theme.px(62);
    list.AddRectFilled({low.x, y - theme.px(5)},
                       {low.x + room * static_cast<float>(cell.number / rows.largest_share_ratio),
                        y + theme.px(5)},
                       row->cells[1].colour, theme.px(1));
    draw_text(list, high.x, y - ImGui::GetTextLineHeight() / 2, theme.text, cell.text,
              HorizontalAlign::kRight);
    return true;
  }
  if (rows.has_two && column == kChangeBarColumn) {
    const double change_ns = row->cells[kChangeColumn].number;
    const float middle = (low.x + high.x) / 2;
    const float length =
        (high.x - low.x) / 2 * static_cast<float>(change_ns / rows.largest_change_ns);
    list.AddLine({middle, low.y}, {middle, high.y}, theme.border);
    list.AddRectFilled({std::min(middle, middle + length), y - theme.px(5)},
                       {std::max(middle, middle + length), y + theme.px(5)},
                       change_ns > 0 ? theme.bad : theme.good, theme.px(1));
    return true;
  }
  return false;
}

}  // namespace steplens
