#include "reports/sweep/sweep_results.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "reports/format.h"
#include "reports/html/html_page.h"
#include "reports/markdown.h"
#include "reports/matrix_table.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

std::optional<double> number_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_proven(const ArmResult& row) {
  return row.verdict == Verdict::kFaster || row.verdict == Verdict::kSlower;
}

void find_crossovers(SweepResults& results) {
  for (const std::string& arm : results.arms) {
    for (std::size_t i = 0; i + 1 < results.points.size(); ++i) {
      const SweepPoint& from = results.points[i];
      const SweepPoint& to = results.points[i + 1];
      const ArmResult* before = find_arm(from.results, arm);
      const ArmResult* after = find_arm(to.results, arm);
      if (before == nullptr || after == nullptr || !is_proven(*before) || !is_proven(*after) ||
          before->verdict == after->verdict) {
        continue;
      }
      SweepCrossover crossover{.arm = arm,
                               .from_value = from.value,
                               .to_value = to.value,
                               .becomes_faster = after->verdict == Verdict::kFaster};
      if (from.position && to.position && *from.position > 0 && *to.position > 0 &&
          before->effect_ratio && after->effect_ratio) {
        const double low = std::log(*before->effect_ratio);
        const double high = std::log(*after->effect_ratio);
        const double share = low / (low - high);
        crossover.at = std::exp(std::log(*from.position) +
                                share * (std::log(*to.position) - std::log(*from.position)));
      }
      results.crossovers.push_back(std::move(crossover));
    }
  }
}

// The cell of an arm at a value: what `text` makes of its row.
template <typename Text>
std::vector<std::string> cells(const SweepResults& results, const std::string& arm,
                               const Text& text) {
  std::vector<std::string> row = {arm};
  row.reserve(results.points.size() + 1);
  for (const SweepPoint& point : results.points) {
    const ArmResult* found = find_arm(point.results, arm);
    row.push_back(found == nullptr ? std::string(kNoNumber) : text(*found));
  }
  return row;
}

Table empty_table(const SweepResults& results, Align align) {
  Table table{.columns = {{results.sweep.key}}};
  for (const SweepPoint& point : results.points) table.columns.push_back({point.value, align});
  return table;
}

std::string effect_cell(const ArmResult& row) {
  if (!row.is_applicable) return "not applicable";
  if (row.verdict == Verdict::kFailed) return "FAILED";
  if (!row.effect_ratio) return std::string(kNoNumber);
  const bool is_finding =
      row.verdict && *row.verdict != Verdict::kFaster && *row.verdict != Verdict::kSlower;
  return effect_text(row) +
         (is_finding ? fmt::format(" {}", verdict_words(*row.verdict)) : std::string());
}

}  // namespace

SweepResults compute_sweep(const fs::path& folder) {
  SweepResults results{.sweep = read_sweep(folder)};
  for (const std::string& value : results.sweep.values) {
    SweepPoint point{.value = value, .position = number_of(value)};
    const fs::path path = folder / point_folder(results.sweep, value);
    if (fs::exists(path / "manifest.json")) {
      const Bundle bundle = open_bundle(path);
      point.is_measured = true;
      point.baseline = bundle.manifest.baseline;
      point.results = compute_results(bundle);
      results.gpu_name = bundle.manifest.gpu_name;
      for (const ArmResult* row : table_order(point.results)) {
        if (row->is_baseline) continue;
        if (std::ranges::find(results.arms, row->name) == results.arms.end()) {
          results.arms.push_back(row->name);
        }
      }
    }
    results.points.push_back(std::move(point));
  }
  find_crossovers(results);
  return results;
}

nlohmann::json to_json(const SweepResults& results) {
  nlohmann::json points = nlohmann::json::array();
  for (const SweepPoint& point : results.points) {
    points.push_back({{"value", point.value},
                      {"is_measured", point.is_measured},
                      {"arms", to_json(point.results)["arms"]}});
  }
  nlohmann::json crossovers = nlohmann::json::array();
  for (const SweepCrossover& crossover : results.crossovers) {
    crossovers.push_back(
        {{"arm", crossover.arm},
         {"from_value", crossover.from_value},
         {"to_value", crossover.to_value},
         {"becomes_faster", crossover.becomes_faster},
         {"at", crossover.at ? nlohmann::json(*crossover.at) : nlohmann::json(nullptr)}});
  }
  return {{"schema_version", kSchemaVersion},
          {"key", results.sweep.key},
          {"points", std::move(points)},
          {"crossovers", std::move(crossovers)}};
}

Table sweep_effect_table(const SweepResults& results) {
  Table table = empty_table(results, Align::kLeft);
  for (const std::string& arm : results.arms) {
    table.rows.push_back(cells(results, arm, &effect_cell));
  }
  return table;
}

Table sweep_rate_table(const SweepResults& results) {
  Table table = empty_table(results, Align::kRight);
  std::vector<std::string> arms = {"baseline"};
  arms.insert(arms.end(), results.arms.begin(), results.arms.end());
  for (const std::string& arm : arms) {
    table.rows.push_back(cells(results, arm, [](const ArmResult& row) {
      return format_or_absent(row.valid_tokens_per_s, format_rate);
    }));
  }
  return table;
}

Table sweep_memory_table(const SweepResults& results) {
  Table table = empty_table(results, Align::kRight);
  std::vector<std::string> arms = {"baseline"};
  arms.insert(arms.end(), results.arms.begin(), results.arms.end());
  for (const std::string& arm : arms) {
    table.rows.push_back(cells(results, arm, [](const ArmResult& row) {
      return row.peak_allocated_bytes ? format_bytes(static_cast<double>(*row.peak_allocated_bytes))
                                      : std::string(kNoNumber);
    }));
  }
  return table;
}

std::vector<std::string> crossover_sentences(const SweepResults& results) {
  std::vector<std::string> sentences;
  sentences.reserve(results.crossovers.size());
  for (const SweepCrossover& crossover : results.crossovers) {
    std::string text = fmt::format(
        "{} is {} than the baseline at {}={} and {} at {}", crossover.arm,
        crossover.becomes_faster ? "slower" : "faster", results.sweep.key, crossover.from_value,
        crossover.becomes_faster ? "faster" : "slower", crossover.to_value);
    if (crossover.at) {
      text += fmt::format("; between them, on a straight line of logs, they are equal near {}",
                          format_significant(*crossover.at, 2));
    }
    sentences.push_back(text + ".");
  }
  return sentences;
}

SweepResults write_sweep_report(const fs::path& folder) {
  SweepResults results = compute_sweep(folder);
  write_json_atomically(folder / "sweep_results.json", to_json(results));
  const ReportDocument document = sweep_document(results);
  if (const std::string svg = sweep_svg(results); !svg.empty()) {
    write_file_atomically(folder / kSweepPlot, svg);
  }
  write_file_atomically(folder / kReportFileName, report_markdown(document));
  write_file_atomically(folder / kHtmlFileName, report_html(document));
  return results;
}

}  // namespace steplens
