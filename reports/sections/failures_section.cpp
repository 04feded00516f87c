#include <algorithm>

#include <fmt/format.h>

#include "reports/section.h"

namespace steplens {
namespace {

constexpr std::size_t kMaxLines = 20;

// What the process printed last, if the scheduler kept it.
std::string last_lines(const BlockRecord& block) {
  if (!block.evidence.is_object() || !block.evidence.contains("last_output_lines")) return {};
  const nlohmann::json& lines = block.evidence.at("last_output_lines");
  if (!lines.is_array()) return {};
  std::string text;
  for (std::size_t i = lines.size() - std::min(lines.size(), kMaxLines); i < lines.size(); ++i) {
    if (!lines[i].is_string()) continue;
    if (!text.empty()) text += "\n";
    text += lines[i].get<std::string>();
  }
  return text;
}

}  // namespace

std::vector<Part> failures_parts(const ReportInput& input) {
  std::vector<Part> parts;
  for (const BlockFailure& failure : input.results.failures) {
    parts.emplace_back(
        Paragraph{fmt::format("{} (block {}): {}{}", failure.arm, failure.folder, failure.status,
                              failure.reason.empty() ? "" : ": " + failure.reason)});
    for (std::size_t i = 0; i < input.bundle.blocks.size(); ++i) {
      if (input.bundle.manifest.blocks[i].folder != failure.folder) continue;
      const std::string lines = last_lines(input.bundle.blocks[i]);
      if (!lines.empty()) parts.emplace_back(CodeBlock{lines});
    }
  }
  return parts;
}

}  // namespace steplens
