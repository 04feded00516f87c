#pragma once

#include <functional>
#include <string>
#include <vector>

#include "viewer/data/kernel_stats.h"
#include "viewer/draw/data_table.h"
#include "viewer/draw/theme.h"

/// The kernel table as rows of a DataTable: of one arm, or of two with what changed.
namespace steplens {

std::vector<TableColumn> kernel_columns(bool has_two);

/// Whether a kernel is shown, by its name in the trace, its display name and its category.
using KernelFilter =
    std::function<bool(const std::string& raw, const std::string& display, KernelCategory)>;

struct KernelRows {
  std::vector<TableRow> rows;  // `id`: the name in the trace.
  bool has_two = false;
  double largest_share_ratio = 1;  // What the longest bar stands for,
  double largest_change_ns = 1;    // of one arm and of two.
};

KernelRows kernel_rows(const Theme& theme, const KernelTable& table, const NameTable& names,
                       const KernelFilter& filter);

/// Totals and counts are those a step.
KernelRows kernel_pair_rows(const Theme& theme, const KernelTable& a, const NameTable& names_a,
                            const KernelTable& b, const NameTable& names_b,
                            const KernelFilter& filter);

/// A DataTable::CellPainter: category, share and change have squares and bars.
bool paint_kernel_cell(const Theme& theme, const KernelRows& rows, const TableRow* row,
                       std::size_t column, ImVec2 low, ImVec2 high);

}  // namespace steplens
