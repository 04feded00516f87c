#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/sweep.h"
#include "reports/report_document.h"
#include "reports/results.h"

/// What a sweep shows: the effect of each arm against the value that was swept.
namespace steplens {

/// One value and what its matrix found.
struct SweepPoint {
  std::string value;
  std::optional<double> position;  // The value as a number; absent for words.
  bool is_measured = false;        // Else its bundle has not begun.
  RunConfig baseline;
  Results results;
};

/// Between two neighbouring values the arm went from slower to faster or the reverse, both proven.
struct SweepCrossover {
  std::string arm;
  std::string from_value;
  std::string to_value;
  bool becomes_faster = true;
  /// Where the effect is nil if log effect is linear in the log of the value between the two; only
  /// for positive numbers.
  std::optional<double> at;
};

struct SweepResults {
  Sweep sweep;
  std::string gpu_name;  // Empty on a CPU.
  std::vector<SweepPoint> points;
  std::vector<std::string> arms;  // All but the baseline, in the order of the first matrix.
  std::vector<SweepCrossover> crossovers;
};

/// Reads the folder's sweep and computes each value's results from its blocks. ConfigError names
/// the file that is missing or damaged.
SweepResults compute_sweep(const std::filesystem::path& folder);

nlohmann::json to_json(const SweepResults& results);

/// Are the values positive numbers that span at least a factor of four? Powers of two and the like
/// are then evenly spaced on a log scale.
bool spans_octaves(const SweepResults& results);

/// One row an arm, one column a value: effect with its interval.
Table sweep_effect_table(const SweepResults& results);
/// The same of tokens/s, the baseline first.
Table sweep_rate_table(const SweepResults& results);
/// The same of peak memory.
Table sweep_memory_table(const SweepResults& results);

/// A sentence each: where an arm crosses over.
std::vector<std::string> crossover_sentences(const SweepResults& results);
/// The first of them without its full stop, or that no arm crosses over.
std::string sweep_headline(const SweepResults& results);

/// Effects with intervals against the value, a line an arm. An SVG file; empty where the values are
/// no numbers or nothing is measured.
std::string sweep_svg(const SweepResults& results);

ReportDocument sweep_document(const SweepResults& results);

inline constexpr std::string_view kSweepPlot = "sweep.svg";

/// Writes sweep_results.json, report.md with its plot, and report.html into the folder, each
/// atomically. The points' own reports are theirs.
SweepResults write_sweep_report(const std::filesystem::path& folder);

/// What a terminal shows.
std::string sweep_text(const SweepResults& results);

}  // namespace steplens
