#pragma once

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace steplens {

/// One element of a well-formed document, in reading order.
struct MarkupElement {
  std::string name;
  std::string attributes;  // As written.
  std::string text;        // Directly inside, entities as written.
  int depth = 0;
};

/// A strict reader of what XML and HTML have in common: every element is closed, attributes are
/// quoted and named once, "&" begins one of five entities, "<" a tag, no control characters.
class MarkupChecker {
 public:
  explicit MarkupChecker(std::string_view document) : rest_(document) {
    constexpr std::string_view kDoctype = "<!DOCTYPE html>\n";
    if (rest_.starts_with(kDoctype)) rest_.remove_prefix(kDoctype.size());
    while (!rest_.empty() && fault_.empty()) read();
    if (fault_.empty() && !open_.empty()) fault_ = "not closed: " + elements_[open_.back()].name;
  }

  /// What is wrong first; empty if nothing is.
  const std::string& fault() const { return fault_; }
  const std::vector<MarkupElement>& elements() const { return elements_; }

  std::vector<const MarkupElement*> named(std::string_view name) const {
    std::vector<const MarkupElement*> found;
    for (const MarkupElement& element : elements_) {
      if (element.name == name) found.push_back(&element);
    }
    return found;
  }

 private:
  void fail(std::string_view what) {
    fault_ = fmt::format("{} at \"{}\"", what, rest_.substr(0, 60));
  }

  void read() {
    if (rest_.front() != '<') {
      const std::size_t end = std::min(rest_.find('<'), rest_.size());
      const std::string_view text = rest_.substr(0, end);
      check_text(text);
      if (!open_.empty()) elements_[open_.back()].text += text;
      if (open_.empty() && text.find_first_not_of(" \n") != std::string_view::npos) {
        fail("text outside");
      }
      rest_.remove_prefix(end);
    } else if (rest_.starts_with("</")) {
      const std::size_t end = rest_.find('>');
      if (end == std::string_view::npos) return fail("no end of a tag");
      const std::string_view name = rest_.substr(2, end - 2);
      if (open_.empty() || elements_[open_.back()].name != name) return fail("wrong end tag");
      open_.pop_back();
      rest_.remove_prefix(end + 1);
    } else {
      read_start_tag();
    }
  }

  void read_start_tag() {
    std::size_t i = 1;
    while (i < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[i])) != 0)) ++i;
    if (i == 1) return fail("no name of a tag");
    MarkupElement element = {.name = std::string(rest_.substr(1, i - 1)),
                             .depth = static_cast<int>(open_.size())};
    const std::size_t begin = i;
    std::set<std::string_view> names;
    while (i < rest_.size() && rest_[i] == ' ') {
      const std::size_t equals = rest_.find('=', i);
      if (equals == std::string_view::npos || equals + 1 >= rest_.size()) return fail("attribute");
      if (!names.insert(rest_.substr(i + 1, equals - i - 1)).second) return fail("attribute twice");
      if (rest_[equals + 1] != '"') return fail("attribute without quotes");
      const std::size_t end = rest_.find('"', equals + 2);
      if (end == std::string_view::npos) return fail("open quotes");
      const std::string_view value = rest_.substr(equals + 2, end - equals - 2);
      if (value.find('<') != std::string_view::npos) return fail("< in an attribute");
      check_text(value);
      i = end + 1;
    }
    element.attributes = rest_.substr(begin, i - begin);
    const bool is_empty = rest_.substr(i).starts_with("/>");
    if (!is_empty && !rest_.substr(i).starts_with(">")) return fail("no end of a tag");
    elements_.push_back(std::move(element));
    if (!is_empty) open_.push_back(elements_.size() - 1);
    rest_.remove_prefix(i + (is_empty ? 2 : 1));
  }

  void check_text(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      if (c < ' ' && c != '\n' && c != '\t') return fail("control character");
      if (c != '&') continue;
      bool is_known = false;
      for (const std::string_view entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"}) {
        is_known = is_known || text.substr(i).starts_with(entity);
      }
      if (!is_known) return fail(fmt::format("bare & in {}", text.substr(i, 20)));
    }
  }

  std::string_view rest_;
  std::string fault_;
  std::vector<MarkupElement> elements_;
  std::vector<std::size_t> open_;
};

}  // namespace steplens
