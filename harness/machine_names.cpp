#include "harness/machine_names.h"

#include <array>
#include <cctype>

#include <unistd.h>

namespace steplens {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool ends_path(char c) {
  constexpr std::string_view kDelimiters = " \t\n\"'`()<>[]{},;:|";
  return kDelimiters.find(c) != std::string_view::npos;
}

// A slash after a letter or a dot stands inside a relative path; "://" is a URL.
bool starts_path(std::string_view text, std::size_t position) {
  if (text[position] != '/') return false;
  const bool is_url = position > 0 && text[position - 1] == ':' && position + 1 < text.size() &&
                      text[position + 1] == '/';
  if (is_url) return false;
  if (position == 0) return true;
  const char before = text[position - 1];
  return !is_word(before) && before != '.' && before != '_' && before != '-' && before != '/';
}

}  // namespace

std::string without_machine_names(std::string_view text, std::string_view host_name) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    if (starts_path(text, i)) {
      std::size_t end = i;
      while (end < text.size() && !ends_path(text[end])) ++end;
      std::string_view path = text.substr(i, end - i);
      while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
      const std::string_view last = path.substr(path.rfind('/') + 1);
      // "/" alone and "a / b" are no path.
      result += last.empty() ? path : last;
      i = end;
      continue;
    }
    const bool is_host =
        !host_name.empty() && text.substr(i).starts_with(host_name) &&
        (i == 0 || !is_word(text[i - 1])) &&
        (i + host_name.size() == text.size() || !is_word(text[i + host_name.size()]));
    if (is_host) {
      result += "host";
      i += host_name.size();
    } else {
      result += text[i++];
    }
  }
  return result;
}

std::string host_name() {
  std::array<char, 256> name{};
  // "localhost" says nothing of the machine.
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  const std::string text = name.data();
  return text == "localhost" ? "" : text;
}

}  // namespace steplens
