#include "reports/breakdown/modules.h"

#include <cctype>

#include <fmt/format.h>

#include "harness/trace/range_names.h"

namespace steplens {
namespace {

std::string_view without_number(std::string_view part) {
  std::string_view name = part;
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0) {
    name.remove_suffix(1);
  }
  const bool has_separator = name.size() < part.size() && name.size() > 1 &&
                             std::string_view(" ._").find(name.back()) != std::string_view::npos;
  return has_separator ? name.substr(0, name.size() - 1) : part;
}

}  // namespace

std::vector<std::string> module_paths(const Trace& trace) {
  std::vector<std::string> paths(trace.ranges.size());
  for (std::size_t row = 0; row < trace.ranges.size(); ++row) {
    const Range& range = trace.ranges[row];
    const std::string& name = trace.text(range.name);
    const std::string above = range.parent < row ? paths[range.parent] : std::string();
    const bool is_ours = range.domain == 0 && name.find("::") == std::string::npos;
    if (!is_ours) {
      paths[row] = above;
    } else if (!is_structure_range_name(name)) {
      paths[row] = above.empty() ? name : fmt::format("{}/{}", above, name);
    }
  }
  return paths;
}

std::string module_kind(std::string_view path) {
  std::string kind;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (begin > 0) kind += '/';
    kind += without_number(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return kind;
}

}  // namespace steplens
