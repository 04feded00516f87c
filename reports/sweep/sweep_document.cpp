#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/format.h"
#include "reports/sweep/sweep_results.h"

namespace steplens {
namespace {

std::string title_of(const SweepResults& results) {
  if (results.sweep.experiment.title) return *results.sweep.experiment.title;
  std::string model = "nano";
  for (const SweepPoint& point : results.points) {
    if (point.is_measured) model = point.baseline.model;
  }
  return fmt::format("{} on {}: sweep of {}", model,
                     results.gpu_name.empty() ? "the CPU" : results.gpu_name, results.sweep.key);
}

std::string baseline_text(const SweepResults& results) {
  std::vector<std::string> words;
  words.reserve(results.points.size());
  for (const SweepPoint& point : results.points) {
    words.push_back(!point.is_measured ? fmt::format("{}: not measured", point.value)
                                       : fmt::format("{}: {}, sequence_length {}", point.value,
                                                     batch_arithmetic(point.baseline),
                                                     point.baseline.sequence_length));
  }
  return fmt::format(
      "{} matrices, one a value of {}{}. {}.", results.points.size(), results.sweep.key,
      results.sweep.holds_positions ? ", with positions a step held" : "", fmt::join(words, "; "));
}

std::string doubts_of(const SweepResults& results) {
  std::size_t num_warnings = 0;
  for (const SweepPoint& point : results.points) num_warnings += point.results.warnings.size();
  return fmt::format("The matrices have {} warnings; each bundle's own report has them.",
                     num_warnings);
}

std::vector<Part> effect_parts(const SweepResults& results) {
  std::vector<Part> parts;
  if (std::string svg = sweep_svg(results); !svg.empty()) {
    parts.emplace_back(Image{
        .file_name = std::string(kSweepPlot),
        .description = fmt::format("Effects with their intervals against {}", results.sweep.key),
        .svg = std::move(svg)});
  }
  parts.emplace_back(sweep_effect_table(results));
  parts.emplace_back(Paragraph{
      "Change of valid tokens/s against the baseline of the same value, with the interval of that "
      "matrix. Effects of two values are of two matrices: they were not measured in the same "
      "rounds, and no interval of their difference is given."});
  if (std::vector<std::string> sentences = crossover_sentences(results); !sentences.empty()) {
    parts.emplace_back(BulletList{std::move(sentences)});
  }
  std::vector<std::string> reasons;
  for (const SweepPoint& point : results.points) {
    for (const ArmResult& row : point.results.arms) {
      if (row.reason.empty()) continue;
      reasons.push_back(
          fmt::format("{} at {}={}: {}", row.name, results.sweep.key, point.value, row.reason));
    }
  }
  if (!reasons.empty()) parts.emplace_back(BulletList{std::move(reasons)});
  return parts;
}

}  // namespace

std::string sweep_headline(const SweepResults& results) {
  if (!results.crossovers.empty()) {
    std::string text = crossover_sentences(results).front();
    text.pop_back();
    return text;
  }
  return fmt::format("No arm crosses over between {}={} and {}", results.sweep.key,
                     results.sweep.values.front(), results.sweep.values.back());
}

ReportDocument sweep_document(const SweepResults& results) {
  ReportDocument document{.title = title_of(results),
                          .headline = sweep_headline(results),
                          .baseline = baseline_text(results),
                          .doubts = doubts_of(results)};
  document.chapters = {{"effects", "Effects", effect_parts(results)},
                       {"rates", "Tokens/s", {sweep_rate_table(results)}},
                       {"memory", "Peak memory", {sweep_memory_table(results)}}};
  std::string commands;
  for (const std::string& value : results.sweep.values) {
    commands += fmt::format("steplens verify {}\n", point_folder(results.sweep, value));
  }
  commands.pop_back();
  document.chapters.push_back({"reproduce",
                               "How to check it",
                               {Paragraph{"Each value is a bundle of its own, with a report that "
                                          "says how to repeat it:"},
                                CodeBlock{commands}}});
  return document;
}

std::string sweep_text(const SweepResults& results) {
  std::string text = sweep_headline(results) + ".\n\n" + to_text(sweep_effect_table(results)) +
                     "\n" + to_text(sweep_rate_table(results));
  for (const std::string& sentence : crossover_sentences(results)) {
    text += wrap(sentence, 2) + "\n";
  }
  return text;
}

}  // namespace steplens
