#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <imgui.h>

#include "viewer/draw/theme.h"

namespace steplens {

/// A column of a DataTable.
struct TableColumn {
  std::string header;
  bool is_number = false;  // Right-aligned; sorts the largest first.
  float width_units = 0;   // 0: takes its share of what is left.
  std::string tooltip;     // Of the header; empty: none.
};

/// A cell: what is read, what is sorted by, and what a spreadsheet gets.
struct TableCell {
  std::string text;
  double number = 0;  // Sort key of a number's column; NaN goes last.
  std::string exact;  // For CSV; empty: `text`.
  ImU32 colour = 0;   // 0: the theme's text.
};

/// What sorts last.
inline constexpr double kAbsentNumber = std::numeric_limits<double>::quiet_NaN();

/// Where there is no number.
TableCell absent_cell();

/// `format` makes the text of the value.
template <class Value, class Format>
TableCell number_cell(const std::optional<Value>& value, Format format) {
  if (!value) return absent_cell();
  return {.text = format(*value),
          .number = static_cast<double>(*value),
          .exact = fmt::format("{}", *value)};
}

struct TableRow {
  std::vector<TableCell> cells;  // One a column.
  std::string id;                // Unique; what a click reports.
  bool is_dimmed = false;
  bool is_pinned = false;  // Stays on top whatever the order.
};

/// What happened to a table in a frame.
struct TableEvents {
  const TableRow* clicked = nullptr;
  const TableRow* right_clicked = nullptr;
  const TableRow* double_clicked = nullptr;
  const TableRow* hovered = nullptr;
};

/// A sortable table with the house's looks, of which only visible rows cost anything. It keeps no
/// rows: the owner makes them when its data changes, and `draw` sorts them.
class DataTable {
 public:
  /// `id` must be unique in its window.
  DataTable(std::string id, std::vector<TableColumn> columns);

  const std::vector<TableColumn>& columns() const { return columns_; }

  /// Draws a cell itself where it returns true; else its text is drawn. `row` is null in the
  /// header.
  using CellPainter =
      std::function<bool(const TableRow* row, std::size_t column, ImVec2 low, ImVec2 high)>;

  /// `selected_ids`: rows on the ground of a selection. `size` 0: what is left of the window.
  TableEvents draw(const Theme& theme, std::vector<TableRow>& rows,
                   const std::vector<std::string>& selected_ids = {}, ImVec2 size = {0, 0},
                   const CellPainter& paint = {});

  /// Of a table that shows all of so many rows, as wide as what is left of the window.
  float height_of(const Theme& theme, std::size_t num_rows) const;
  /// The rows are other ones: sort them when they are drawn next.
  void invalidate_order() { needs_sort_ = true; }
  std::size_t sort_column() const { return sort_column_; }
  bool is_descending() const { return is_descending_; }
  void set_sort(std::size_t column, bool is_descending);

 private:
  void sort(std::vector<TableRow>& rows);

  std::string id_;
  std::vector<TableColumn> columns_;
  std::size_t sort_column_ = SIZE_MAX;  // As the owner gave them.
  bool is_descending_ = false;
  bool needs_sort_ = true;
};

/// RFC 4180, a header line first.
std::string to_csv(const std::vector<TableColumn>& columns, const std::vector<TableRow>& rows);

/// A button that puts the table into the clipboard as CSV. Returns what to tell the user if it was
/// pressed; else empty.
std::string copy_csv_button(const Theme& theme, const std::vector<TableColumn>& columns,
                            const std::vector<TableRow>& rows);

}  // namespace steplens
