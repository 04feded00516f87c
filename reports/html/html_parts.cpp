#include "reports/html/html_parts.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/error.h"
#include "reports/metrics.h"
#include "reports/svg.h"

namespace steplens {
namespace {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

// Words of verdicts and checks that a reader looks for in a column.
struct Signal {
  std::string_view begin;
  std::string_view css_class;
};
constexpr std::array<Signal, 9> kSignals = {{{"FASTER", "good"},
                                             {"SLOWER", "bad"},
                                             {"EQUIVALENT", "same"},
                                             {"FAILED", "alarm"},
                                             {"FAIL", "alarm"},
                                             {"NO EFFECT", "alarm"},
                                             {"MATHS DIFFERS", "alarm"},
                                             {"NO", "alarm"},
                                             {"INCONCLUSIVE", "unsure"}}};

std::string_view signal_of(std::string_view cell) {
  for (const Signal& signal : kSignals) {
    if (!cell.starts_with(signal.begin)) continue;
    const std::string_view rest = cell.substr(signal.begin.size());
    if (rest.empty() || rest.starts_with(",")) return signal.css_class;
  }
  return {};
}

// Escaped text in which a number and its "%" stay on one line.
std::string prose(std::string_view text) {
  std::string joined;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_between = text[i] == ' ' && i > 0 && i + 1 < text.size() && text[i + 1] == '%' &&
                            text[i - 1] >= '0' && text[i - 1] <= '9';
    if (is_between) {
      joined += "\xC2\xA0";
    } else {
      joined += text[i];
    }
  }
  return svg_escaped(joined);
}

std::string header_html(const Column& column) {
  const std::string_view css = column.align == Align::kRight ? " class=\"n\"" : "";
  const Metric* metric = find_metric(column.metric);
  const std::string title = svg_escaped(column.header);
  if (metric == nullptr) return fmt::format("<th scope=\"col\"{}>{}</th>", css, title);
  return fmt::format("<th scope=\"col\"{}><a href=\"#metric-{}\" title=\"{}\">{}</a></th>", css,
                     metric->key, svg_escaped(metric->meaning), title);
}

std::string cell_html(const std::string& cell, std::size_t column, Align align) {
  const std::string text = svg_escaped(cell);
  if (column == 0) return fmt::format("<th scope=\"row\">{}</th>", text);
  std::vector<std::string_view> classes;
  if (align == Align::kRight) classes.emplace_back("n");
  if (const std::string_view signal = signal_of(cell); !signal.empty()) {
    classes.push_back(signal);
  }
  if (classes.empty()) return fmt::format("<td>{}</td>", text);
  return fmt::format("<td class=\"{}\">{}</td>", fmt::join(classes, " "), text);
}

std::string table_html(const Table& table, std::string_view label) {
  std::vector<std::string> headers;
  headers.reserve(table.columns.size());
  for (const Column& column : table.columns) headers.push_back(svg_escaped(column.header));
  // Can be scrolled by keyboard, and says what it is.
  std::string text = fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}: {}\">\n"
      "<table>\n<thead><tr>",
      svg_escaped(label), fmt::join(headers, ", "));
  for (const Column& column : table.columns) text += header_html(column);
  text += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    SL_CHECK(row.size() == table.columns.size());
    text += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c) {
      text += cell_html(row[c], c, table.columns[c].align);
    }
    text += "</tr>\n";
  }
  text += "</tbody>\n</table>\n</div>\n";
  if (table.rows.size() <= kMaxOpenRows) return text;
  return fmt::format("<details>\n<summary>{} rows: {}</summary>\n{}</details>\n", table.rows.size(),
                     fmt::join(headers, ", "), text);
}

std::string image_html(const Image& image) {
  if (image.svg.empty()) return {};
  return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", image.svg,
                     svg_escaped(image.description));
}

}  // namespace

std::string to_html(const Part& part, std::string_view label) {
  return std::visit(Overloaded{
                        [](const Paragraph& paragraph) {
                          return fmt::format("<p>{}</p>\n", prose(paragraph.text));
                        },
                        [](const BulletList& list) {
                          std::string text = "<ul>\n";
                          for (const std::string& item : list.items) {
                            text += fmt::format("<li>{}</li>\n", prose(item));
                          }
                          return text + "</ul>\n";
                        },
                        [&](const Table& table) { return table_html(table, label); },
                        [](const CodeBlock& code) {
                          return fmt::format("<pre tabindex=\"0\">{}</pre>\n",
                                             svg_escaped(code.text));
                        },
                        [](const Image& image) { return image_html(image); },
                        [](const Fold&) { return std::string(); },
                        [](const FoldEnd&) { return std::string(); },
                    },
                    part);
}

std::string to_html(const std::vector<Part>& parts, std::string_view label) {
  std::string text;
  bool is_in_fold = false;
  std::string fold_label(label);
  const auto end_fold = [&] {
    if (is_in_fold) text += "</details>\n";
    is_in_fold = false;
    fold_label = label;
  };
  for (const Part& part : parts) {
    if (const Fold* fold = std::get_if<Fold>(&part)) {
      end_fold();
      text += fmt::format("<details{}>\n<summary><strong>{}</strong>{}</summary>\n",
                          fold->is_open ? " open=\"open\"" : "", svg_escaped(fold->subject),
                          svg_escaped(fold->text));
      is_in_fold = true;
      fold_label = fmt::format("{}, {}", label, fold->subject);
    } else if (std::holds_alternative<FoldEnd>(part)) {
      end_fold();
    } else {
      text += to_html(part, fold_label);
    }
  }
  end_fold();
  return text;
}

std::string metrics_html() {
  std::string text =
      "<details>\n<summary>What each number is: unit, meaning, formula, source</summary>\n<dl>\n";
  for (const Metric& metric : all_metrics()) {
    text += fmt::format(
        "<dt id=\"metric-{0}\">{1} <code>{0}</code></dt>\n"
        "<dd>{2} Unit: {3}. Formula: {4}. Source: {5}. In: {6}.</dd>\n",
        svg_escaped(metric.key), svg_escaped(metric.title), svg_escaped(metric.meaning),
        metric.unit == "1" ? "none" : svg_escaped(metric.unit), svg_escaped(metric.formula),
        svg_escaped(metric.source), svg_escaped(metric.record));
  }
  return text + "</dl>\n</details>\n";
}

}  // namespace steplens
