#include "harness/json_text.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace steplens {
namespace {

using nlohmann::json;

constexpr std::size_t kIndent = 1;

// Output of programs that died may hold any bytes: what is not UTF-8 is replaced.
std::string inline_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool fits_on_a_line(const json& list) {
  return std::ranges::none_of(list, [](const json& value) { return value.is_structured(); });
}

void append(const json& value, std::size_t indent, std::string& text);

// `append_item(it)` for each, a line each.
template <typename AppendItem>
void append_lines(const json& value, std::size_t indent, char open, char close, std::string& text,
                  AppendItem append_item) {
  text += open;
  for (auto it = value.begin(); it != value.end(); ++it) {
    text += it == value.begin() ? "\n" : ",\n";
    text.append(indent + kIndent, ' ');
    append_item(it);
  }
  text += '\n';
  text.append(indent, ' ');
  text += close;
}

void append(const json& value, std::size_t indent, std::string& text) {
  if (!value.is_structured() || value.empty()) {
    text += inline_text(value);
  } else if (value.is_object()) {
    append_lines(value, indent, '{', '}', text, [&](const json::const_iterator& it) {
      text += inline_text(it.key()) + ": ";
      append(*it, indent + kIndent, text);
    });
  } else if (fits_on_a_line(value)) {
    text += '[';
    for (auto it = value.begin(); it != value.end(); ++it) {
      if (it != value.begin()) text += ", ";
      text += inline_text(*it);
    }
    text += ']';
  } else {
    append_lines(value, indent, '[', ']', text,
                 [&](const json::const_iterator& it) { append(*it, indent + kIndent, text); });
  }
}

}  // namespace

std::string json_text(const json& json) {
  std::string text;
  append(json, 0, text);
  return text + "\n";
}

}  // namespace steplens
