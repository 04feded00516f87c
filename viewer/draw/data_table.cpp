#include "viewer/draw/data_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "reports/format.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/text.h"

namespace steplens {

TableCell absent_cell() {
  return {.text = std::string(kNoNumber), .number = kAbsentNumber, .exact = " "};
}

namespace {

// NaN is behind everything in both directions.
bool is_before(const TableCell& left, const TableCell& right, bool is_number, bool is_descending) {
  if (!is_number) return is_descending ? right.text < left.text : left.text < right.text;
  if (std::isnan(left.number)) return false;
  if (std::isnan(right.number)) return true;
  return is_descending ? right.number < left.number : left.number < right.number;
}

void append_field(std::string& csv, std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) {
    csv += field;
    return;
  }
  csv += '"';
  for (const char c : field) {
    if (c == '"') csv += '"';
    csv += c;
  }
  csv += '"';
}

constexpr float kMinStretchedUnits = 150;

// So that no column is squeezed to nothing.
float min_width_of(const Theme& theme, const std::vector<TableColumn>& columns) {
  float width = 0;
  for (const TableColumn& column : columns) {
    width += theme.px(column.width_units > 0 ? column.width_units : kMinStretchedUnits) +
             2 * ImGui::GetStyle().CellPadding.x;
  }
  return width + ImGui::GetStyle().ScrollbarSize;
}

float row_height_of(const Theme& theme) { return ImGui::GetTextLineHeight() + theme.px(10); }

void draw_cell(const Theme& theme, const TableRow& row, const TableCell& cell, bool is_number,
               ImVec2 low, ImVec2 high) {
  if (cell.text.empty()) return;
  ImU32 colour = cell.colour != 0 ? cell.colour : theme.text;
  if (row.is_dimmed) colour = mix(theme.surface, colour, 0.5F);
  const float y = low.y + (high.y - low.y - ImGui::GetTextLineHeight()) / 2;
  const std::string text = fitted(cell.text, high.x - low.x);
  draw_text(*ImGui::GetWindowDrawList(), is_number ? high.x : low.x, y, colour, text,
            is_number ? HorizontalAlign::kRight : HorizontalAlign::kLeft);
}

}  // namespace

DataTable::DataTable(std::string id, std::vector<TableColumn> columns)
    : id_(std::move(id)),
      columns_(std::move(columns)) {}

void DataTable::set_sort(std::size_t column, bool is_descending) {
  sort_column_ = column;
  is_descending_ = is_descending;
  needs_sort_ = true;
}

float DataTable::height_of(const Theme& theme, std::size_t num_rows) const {
  const bool is_too_narrow = ImGui::GetContentRegionAvail().x < min_width_of(theme, columns_);
  return row_height_of(theme) * static_cast<float>(num_rows + 1) + theme.px(4) +
         (is_too_narrow ? ImGui::GetStyle().ScrollbarSize : 0);
}

void DataTable::sort(std::vector<TableRow>& rows) {
  needs_sort_ = false;
  if (sort_column_ >= columns_.size()) return;
  // Stable by hand of the ids: equal keys must not jump about.
  std::ranges::sort(rows, [&](const TableRow& left, const TableRow& right) {
    if (left.is_pinned != right.is_pinned) return left.is_pinned;
    const TableCell& a = left.cells[sort_column_];
    const TableCell& b = right.cells[sort_column_];
    const bool is_number = columns_[sort_column_].is_number;
    if (is_before(a, b, is_number, is_descending_)) return true;
    if (is_before(b, a, is_number, is_descending_)) return false;
    return left.id < right.id;
  });
}

TableEvents DataTable::draw(const Theme& theme, std::vector<TableRow>& rows,
                            const std::vector<std::string>& selected_ids, ImVec2 size,
                            const CellPainter& paint) {
  TableEvents events;
  ImGuiTableFlags flags = ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate |
                          ImGuiTableFlags_ScrollY | ImGuiTableFlags_Resizable |
                          ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_NoSavedSettings |
                          ImGuiTableFlags_NoBordersInBody | ImGuiTableFlags_PadOuterX;
  const auto num_columns = static_cast<int>(columns_.size());
  const float min_width = min_width_of(theme, columns_);
  const bool is_too_narrow = ImGui::GetContentRegionAvail().x < min_width;
  if (is_too_narrow) flags |= ImGuiTableFlags_ScrollX;
  if (!ImGui::BeginTable(id_.c_str(), num_columns, flags, size, is_too_narrow ? min_width : 0)) {
    return events;
  }
  for (const TableColumn& column : columns_) {
    ImGuiTableColumnFlags column_flags = column.width_units > 0
                                             ? ImGuiTableColumnFlags_WidthFixed
                                             : ImGuiTableColumnFlags_WidthStretch;
    if (column.is_number) column_flags |= ImGuiTableColumnFlags_PreferSortDescending;
    ImGui::TableSetupColumn(column.header.c_str(), column_flags,
                            column.width_units > 0 ? theme.px(column.width_units) : 1);
  }
  ImGui::TableSetupScrollFreeze(is_too_narrow ? 1 : 0, 1);

  const float row_height = row_height_of(theme);
  const ImVec2 padding = ImGui::GetStyle().CellPadding;
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers, row_height);
  for (int i = 0; i < num_columns; ++i) {
    if (!ImGui::TableSetColumnIndex(i)) continue;
    const TableColumn& column = columns_[static_cast<std::size_t>(i)];
    ImGui::PushID(i);
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() + theme.px(2));
    const ImVec2 low = ImGui::GetCursorScreenPos();
    const float right = low.x + ImGui::GetContentRegionAvail().x;
    // The widget sorts and resizes; its own label would stand at the left.
    ImGui::TableHeader("");
    mark(fmt::format("{}/{}", id_, column.header));
    const bool is_sorted = sort_column_ == static_cast<std::size_t>(i);
    const float arrow_room = is_sorted ? theme.px(14) : 0;
    const ImVec2 high = {right, low.y + ImGui::GetTextLineHeight()};
    if (!paint || !paint(nullptr, static_cast<std::size_t>(i), low, high)) {
      draw_text(*ImGui::GetWindowDrawList(), column.is_number ? right - arrow_room : low.x, low.y,
                is_sorted ? theme.text : theme.muted,
                fitted(column.header, right - low.x - arrow_room),
                column.is_number ? HorizontalAlign::kRight : HorizontalAlign::kLeft);
    }
    if (!column.tooltip.empty() && ImGui::IsItemHovered()) {
      ImGui::SetTooltip("%s", column.tooltip.c_str());
    }
    ImGui::PopID();
  }

  if (ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
      specs != nullptr && specs->SpecsDirty) {
    specs->SpecsDirty = false;
    // The first frame reports the table's own default, which is none.
    if (specs->SpecsCount > 0) {
      set_sort(static_cast<std::size_t>(specs->Specs[0].ColumnIndex),
               specs->Specs[0].SortDirection == ImGuiSortDirection_Descending);
    }
  }
  if (needs_sort_) sort(rows);

  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(rows.size()), row_height);
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const TableRow& row = rows[static_cast<std::size_t>(i)];
      ImGui::TableNextRow(0, row_height);
      ImGui::TableSetColumnIndex(0);
      ImGui::PushID(row.id.c_str());
      const bool is_selected = std::ranges::find(selected_ids, row.id) != selected_ids.end();
      const ImVec2 corner = ImGui::GetCursorScreenPos();
      if (ImGui::Selectable(
              "##row", is_selected,
              ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowDoubleClick,
              {0, row_height - 2 * padding.y})) {
        (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left) ? events.double_clicked
                                                            : events.clicked) = &row;
      }
      mark(fmt::format("{}/{}", id_, row.id));
      if (ImGui::IsItemHovered()) {
        events.hovered = &row;
        if (ImGui::IsMouseClicked(ImGuiMouseButton_Right)) events.right_clicked = &row;
      }
      for (int c = 0; c < num_columns; ++c) {
        if (!ImGui::TableSetColumnIndex(c)) continue;
        const auto index = static_cast<std::size_t>(c);
        const float x = ImGui::GetCursorScreenPos().x;
        const ImVec2 low = {x, corner.y - padding.y};
        const ImVec2 high = {x + ImGui::GetContentRegionAvail().x, low.y + row_height};
        if (paint && paint(&row, index, low, high)) continue;
        draw_cell(theme, row, row.cells[index], columns_[index].is_number, low, high);
      }
      ImGui::PopID();
    }
  }
  ImGui::EndTable();
  return events;
}

std::string to_csv(const std::vector<TableColumn>& columns, const std::vector<TableRow>& rows) {
  std::string csv;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) csv += ',';
    append_field(csv, columns[i].header);
  }
  csv += '\n';
  for (const TableRow& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) csv += ',';
      const TableCell& cell = row.cells[i];
      append_field(csv, cell.exact.empty() ? cell.text : cell.exact);
    }
    csv += '\n';
  }
  return csv;
}

std::string copy_csv_button(const Theme& /*theme*/, const std::vector<TableColumn>& columns,
                            const std::vector<TableRow>& rows) {
  if (!ImGui::Button("Copy CSV")) {
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("The rows shown, with exact values");
    mark("copy_csv");
    return {};
  }
  mark("copy_csv");
  ImGui::SetClipboardText(to_csv(columns, rows).c_str());
  return fmt::format("{} rows copied", rows.size());
}

}  // namespace steplens
