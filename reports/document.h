#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// What a report is made of, before anybody decides how it looks: sections fill these, writers
/// (terminal, Markdown, HTML) print them and know no section.
namespace steplens {

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string header;
  Align align = Align::kLeft;
  std::string_view metric = {};  // Key of what it holds, in reports/metrics.h; empty: none.
};

/// Cells are text without line breaks. Every row has one cell a column.
struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

struct Paragraph {
  std::string text;
};

struct BulletList {
  std::vector<std::string> items;
};

/// Printed as it is, for commands and output of programs.
struct CodeBlock {
  std::string text;
};

/// A picture: a file beside report.md, inside the text of report.html.
struct Image {
  std::string file_name;    // Empty: there is no file, and Markdown leaves it out.
  std::string description;  // For those who do not see it.
  std::string svg;          // Empty: HTML leaves it out.
};

/// Begins a part of a section that HTML folds away until it is asked for. It ends with the next
/// `Fold`, a `FoldEnd` or the section. In Markdown its first line is a paragraph.
struct Fold {
  std::string subject;  // Printed bold.
  std::string text;     // Goes on behind the subject.
  bool is_open = false;
};
struct FoldEnd {};

using Part = std::variant<Paragraph, BulletList, Table, CodeBlock, Image, Fold, FoldEnd>;

/// Takes out the columns, other than the first, in which no row has anything: "-" or nothing.
void drop_absent_columns(Table& table);

/// Characters of UTF-8 text.
std::size_t width_of(std::string_view text);

/// Aligned columns under a rule line, for a terminal. Where the table is wider than `max_width`,
/// cells of the first column go on in lines of their own, and only then is the limit overrun.
std::string to_text(const Table& table, std::size_t max_width = 120);

/// A table of GitHub-flavoured Markdown.
std::string to_markdown(const Table& table);

/// Any part, with an empty line behind it.
std::string to_markdown(const Part& part);

/// Breaks lines at spaces so that none is longer than `max_width` (except for one long word). Lines
/// after the first begin with `indent` spaces.
std::string wrap(std::string_view text, std::size_t indent, std::size_t max_width = 120);

}  // namespace steplens
