#include "reports/breakdown/kernel_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <vector>

#include <cxxabi.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/document.h"

namespace steplens {
namespace {

constexpr std::size_t kMaxArguments = 2;
// Deeper nesting of wrappers than this does not occur; broken input must end.
constexpr int kMaxDepth = 4;

void erase_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
}

// Position of the first character of `stops` outside all brackets; the end if there is none.
std::size_t find_outside(std::string_view text, std::string_view stops, std::size_t from = 0) {
  int depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (depth == 0 && stops.find(text[i]) != std::string_view::npos) return i;
    if (text[i] == '<' || text[i] == '(' || text[i] == '[' || text[i] == '{') ++depth;
    const bool is_arrow = text[i] == '>' && i > 0 && text[i - 1] == '-';
    if ((text[i] == '>' && !is_arrow) || text[i] == ')' || text[i] == ']' || text[i] == '}') {
      --depth;
    }
  }
  return text.size();
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Arguments of the template that begins at `text[0] == '<'`.
std::vector<std::string_view> arguments_of(std::string_view text) {
  std::vector<std::string_view> arguments;
  std::size_t begin = 1;
  while (begin < text.size()) {
    const std::size_t end = find_outside(text, ",>", begin);
    arguments.push_back(trimmed(text.substr(begin, end - begin)));
    if (end >= text.size() || text[end] == '>') break;
    begin = end + 1;
  }
  return arguments;
}

// Without namespaces, template arguments and parameters.
std::string_view base_of(std::string_view type) {
  type = type.substr(0, find_outside(type, "<({"));
  const std::size_t colons = type.rfind("::");
  return trimmed(colons == std::string_view::npos ? type : type.substr(colons + 2));
}

bool is_builtin(std::string_view argument) {
  constexpr std::array<std::string_view, 14> kWords = {
      "bool", "char", "signed", "unsigned", "short",  "int",   "long",
      "void", "true", "false",  "float",    "double", "const", "std::"};
  if (argument.empty() || argument.front() == '(' || argument.front() == '-') return true;
  if (std::isdigit(static_cast<unsigned char>(argument.front())) != 0) return true;
  return std::ranges::any_of(kWords, [&](std::string_view word) {
    if (!argument.starts_with(word)) return false;
    if (word.ends_with(':') || argument.size() == word.size()) return true;
    const char next = argument[word.size()];
    return std::isalnum(static_cast<unsigned char>(next)) == 0 && next != '_' && next != ':';
  });
}

// Functors of the project's libraries are often wrapped in ones that say nothing.
bool is_wrapper(std::string_view base) {
  return base.starts_with("gpu_kernel_impl") || base.ends_with("TensorListMetadata") ||
         base.ends_with("OpsMetadata");
}

std::string argument_name(std::string_view argument, int depth) {
  const std::string_view base = base_of(argument);
  if (!is_wrapper(base) || depth >= kMaxDepth) return std::string(base);
  const std::size_t open = argument.find('<');
  if (open == std::string_view::npos) return {};
  for (const std::string_view inner : arguments_of(argument.substr(open))) {
    if (!is_builtin(inner)) return argument_name(inner, depth + 1);
  }
  return {};
}

}  // namespace

std::string demangled(std::string_view name) {
  if (!name.starts_with("_Z")) return std::string(name);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? std::string(text.get()) : std::string(name);
}

std::string kernel_display_name(std::string_view name) {
  std::string text = demangled(name);
  // Only C++ signatures have brackets; operators ("aten::mm") and copies keep their names.
  if (text.find_first_of("<(") == std::string::npos) return text;
  const bool is_signature = text.ends_with(')') && text.find("::") != std::string::npos;
  if (!is_signature && !text.starts_with("void ") && text.find('<') == std::string::npos) {
    return text;
  }
  erase_all(text, "(anonymous namespace)::");
  erase_all(text, "<unnamed>::");

  std::string_view rest = trimmed(text);
  const std::size_t space = find_outside(rest, " ");
  if (space < find_outside(rest, "(")) rest = trimmed(rest.substr(space));
  const std::size_t open = find_outside(rest, "<(");
  const std::string base(base_of(rest));
  std::vector<std::string> kept;
  if (open < rest.size() && rest[open] == '<') {
    for (const std::string_view argument : arguments_of(rest.substr(open))) {
      if (kept.size() == kMaxArguments) break;
      if (is_builtin(argument)) continue;
      std::string word = argument_name(argument, 0);
      if (!word.empty()) kept.push_back(std::move(word));
    }
  }
  if (base.empty()) return text;
  return kept.empty() ? base : fmt::format("{}<{}>", base, fmt::join(kept, ", "));
}

std::string shortened_name(std::string_view name) {
  constexpr std::size_t kMaxLength = 60;
  if (width_of(name) <= kMaxLength) return std::string(name);
  return fmt::format("{}...", name.substr(0, kMaxLength - 3));
}

}  // namespace steplens
