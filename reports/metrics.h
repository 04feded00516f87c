#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reports/document.h"

/// What each number of a report is. Said once, here: column titles, the glossary and tooltips of
/// report.html, and `steplens list metrics` all read this table.
namespace steplens {

struct Metric {
  std::string_view key;      // In JSON; its unit is the last part of the name.
  std::string_view record;   // Which JSON object has it: one of the names below.
  std::string_view title;    // Of its column.
  std::string_view unit;     // As stored: "ns", "bytes", "tokens/s", "1" for ratios and counts.
  std::string_view meaning;  // One sentence.
  std::string_view formula;  // Over keys of a block.json, or of this table.
  std::string_view source;   // What it is measured with.
};

inline constexpr std::string_view kArmRecord = "results.json: arms";
inline constexpr std::string_view kTracingRecord = "results.json: tracing_costs";
inline constexpr std::string_view kTraceRecord = "steplens trace --json";
inline constexpr std::string_view kMemoryRecord = "memory account";

/// All metrics; their keys are unique.
std::span<const Metric> all_metrics();

/// Returns nullptr if there is no such metric.
const Metric* find_metric(std::string_view key);

/// A right-aligned column of that metric, under its title. Our own bug if there is none.
Column metric_column(std::string_view key);

/// The same under another title.
Column metric_column(std::string_view key, std::string title);

}  // namespace steplens
