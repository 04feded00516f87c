#include "reports/document.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/error.h"
#include "reports/format.h"

namespace steplens {
namespace {

constexpr std::size_t kGap = 2;
// A narrower first column would break names apart.
constexpr std::size_t kMinFirstColumn = 16;

std::string padded(const std::string& text, std::size_t width, Align align) {
  const std::string spaces(width - std::min(width, width_of(text)), ' ');
  return align == Align::kLeft ? text + spaces : spaces + text;
}

std::vector<std::size_t> column_widths(const Table& table) {
  std::vector<std::size_t> widths;
  widths.reserve(table.columns.size());
  for (const Column& column : table.columns) widths.push_back(width_of(column.header));
  for (const std::vector<std::string>& row : table.rows) {
    SL_CHECK(row.size() == table.columns.size());
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  return widths;
}

void append_line(const Table& table, const std::vector<std::size_t>& widths,
                 const std::vector<std::string>& cells, std::string& text) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (c > 0) line.append(kGap, ' ');
    line += padded(cells[c], widths[c], table.columns[c].align);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  text += line + "\n";
}

std::string escaped(std::string_view cell) {
  std::string text;
  for (const char c : cell) {
    if (c == '|') {
      text += "\\|";
    } else if (c == '\n') {
      text += "<br>";
    } else {
      text += c;
    }
  }
  return text;
}

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace

void drop_absent_columns(Table& table) {
  for (std::size_t c = table.columns.size(); c-- > 1;) {
    const bool is_absent = std::ranges::all_of(
        table.rows, [&](const auto& row) { return row[c].empty() || row[c] == kNoNumber; });
    if (!is_absent) continue;
    const auto offset = static_cast<std::ptrdiff_t>(c);
    table.columns.erase(table.columns.begin() + offset);
    for (std::vector<std::string>& row : table.rows) row.erase(row.begin() + offset);
  }
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string to_text(const Table& table, std::size_t max_width) {
  if (table.columns.empty()) return {};
  std::vector<std::size_t> widths = column_widths(table);
  std::size_t others = 0;
  for (std::size_t c = 1; c < widths.size(); ++c) others += kGap + widths[c];
  const std::size_t room = max_width > others ? max_width - others : 0;
  widths[0] = std::min(widths[0], std::max(room, kMinFirstColumn));

  const std::size_t total = others + widths[0];
  std::vector<std::string> headers;
  headers.reserve(table.columns.size());
  for (const Column& column : table.columns) headers.push_back(column.header);
  std::string text;
  append_line(table, widths, headers, text);
  text += std::string(total, '-') + "\n";
  for (std::vector<std::string> cells : table.rows) {
    // Names are ASCII, so bytes are characters.
    std::string rest = cells[0].size() > widths[0] ? cells[0].substr(widths[0]) : "";
    cells[0].resize(std::min(cells[0].size(), widths[0]));
    append_line(table, widths, cells, text);
    for (; !rest.empty(); rest.erase(0, widths[0])) {
      text += "  " + rest.substr(0, widths[0]) + "\n";
    }
  }
  return text;
}

std::string to_markdown(const Table& table) {
  std::string text = "|";
  for (const Column& column : table.columns) text += fmt::format(" {} |", escaped(column.header));
  text += "\n|";
  for (const Column& column : table.columns) {
    text += column.align == Align::kRight ? " ---: |" : " --- |";
  }
  text += "\n";
  for (const std::vector<std::string>& row : table.rows) {
    text += "|";
    for (const std::string& cell : row) text += fmt::format(" {} |", escaped(cell));
    text += "\n";
  }
  return text;
}

std::string to_markdown(const Part& part) {
  return std::visit(
      Overloaded{
          [](const Paragraph& paragraph) { return paragraph.text + "\n\n"; },
          [](const BulletList& list) {
            std::string text;
            for (const std::string& item : list.items) text += "- " + item + "\n";
            return text + "\n";
          },
          [](const Table& table) { return to_markdown(table) + "\n"; },
          [](const CodeBlock& code) { return fmt::format("```\n{}\n```\n\n", code.text); },
          [](const Image& image) {
            if (image.file_name.empty()) return std::string();
            return fmt::format("![{}]({})\n\n", image.description, image.file_name);
          },
          [](const Fold& fold) { return fmt::format("**{}**{}\n\n", fold.subject, fold.text); },
          [](const FoldEnd&) { return std::string(); },
      },
      part);
}

std::string wrap(std::string_view text, std::size_t indent, std::size_t max_width) {
  std::string result;
  std::size_t column = 0;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (!result.empty() && column + 1 + width_of(word) > max_width) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!result.empty()) {
      result += ' ';
      ++column;
    }
    result += word;
    column += width_of(word);
  }
  return result;
}

}  // namespace steplens
