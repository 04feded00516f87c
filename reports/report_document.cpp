#include "reports/report_document.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/summary.h"

namespace steplens {
namespace {

std::string title_of(const Manifest& manifest) {
  if (!manifest.title.empty()) return manifest.title;
  return fmt::format("{} on {}: throughput {}", manifest.baseline.model,
                     manifest.gpu_name.empty() ? "the CPU" : manifest.gpu_name,
                     manifest.num_aa > 0 ? "A/A" : "matrix");
}

// The keys that people switch; the whole configuration stands further down.
std::string baseline_line(const ReportInput& input) {
  constexpr std::array<std::string_view, 11> kKeys = {
      "device", "model",      "precision", "attention", "optimizer", "accumulation",
      "graph",  "checkpoint", "data",      "batching",  "allocator"};
  std::vector<std::string> words;
  for (const std::string_view key : kKeys) {
    const ConfigField* field = find_config_field(key);
    if (field == nullptr) continue;
    const nlohmann::json value = field->get(input.bundle.manifest.baseline);
    words.push_back(
        fmt::format("{}={}", key, value.is_string() ? value.get<std::string>() : value.dump()));
  }
  std::string text = fmt::format("Baseline: {}", fmt::join(words, ", "));
  const ArmResult* baseline = baseline_of(input.results);
  if (baseline != nullptr && baseline->valid_tokens_per_s && baseline->step_wall_ns) {
    text += fmt::format(": {} tokens/s, {} a step", format_rate(*baseline->valid_tokens_per_s),
                        format_duration_ns(*baseline->step_wall_ns));
    if (baseline->mfu_causal_ratio) {
      text += fmt::format(", {} causal MFU", format_percent(*baseline->mfu_causal_ratio));
    }
  }
  return text + ".";
}

}  // namespace

ReportDocument make_document(const ReportInput& input) {
  ReportDocument document{.title = title_of(input.bundle.manifest),
                          .headline = headline(input.results),
                          .baseline = baseline_line(input),
                          .doubts = doubts_line(input)};
  for (const Section& section : all_sections()) {
    std::vector<Part> parts = section.parts(input);
    if (parts.empty()) continue;
    document.chapters.push_back(
        {.key = section.key, .title = section.title, .parts = std::move(parts)});
  }
  return document;
}

}  // namespace steplens
