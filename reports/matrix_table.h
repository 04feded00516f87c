#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/document.h"
#include "reports/results.h"

namespace steplens {

/// The answer in one line: "Fastest: optimizer=fused, +3.1 % [2.9, 3.3] over the baseline". Of an
/// arm that is compared with another one, also its gain over the baseline. Never "no difference":
/// what is not proven is said to be not proven.
std::string headline(const Results& results);

/// One row an arm: tokens/s, step time, effect with interval, adjusted p, verdict, peak memory,
/// MFU. Baseline first, then comparisons in the order of the manifest, failed ones, not applicable
/// ones. Columns in which nobody has a number are left out.
Table matrix_table(const Results& results);

/// Sentences that belong below the table: why an arm failed or is not applicable, its labels.
std::vector<std::string> matrix_notes(const Results& results);

/// What a terminal shows: headline, table, notes; no line longer than `max_width` where words
/// allow.
std::string matrix_text(const Results& results, std::size_t max_width = 120);

/// The rows in the table's order.
std::vector<const ArmResult*> table_order(const Results& results);

/// "+3.1 % [2.9, 3.3]"; "-" without an estimate.
std::string effect_text(const ArmResult& arm);

/// "FASTER", "NOT ENOUGH ROUNDS", "FASTER, within 1 %"; "-" without a verdict.
std::string verdict_text(const ArmResult& arm, const VerdictRule& rule);

/// What the GPU's allocator had at its peak; without a GPU the largest resident set.
std::optional<std::int64_t> peak_bytes_of(const ArmResult& arm);

}  // namespace steplens
