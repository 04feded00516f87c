#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "harness/bundle.h"
#include "reports/breakdown/traced_arm.h"
#include "reports/counters/counter_parts.h"
#include "reports/document.h"
#include "reports/memory/memory_parts.h"
#include "reports/results.h"

namespace steplens {

/// What every section reads. All outlive the report.
struct ReportInput {
  const Bundle& bundle;
  const Results& results;
  std::span<const TracedArm> traced_arms = {};    // In the order of the matrix, the baseline first.
  std::span<const MemoryArm> memory_arms = {};    // The same.
  std::span<const CounterArm> counter_arms = {};  // The same.
};

/// One part of report.md and report.html. It only reads; writers decide how its parts look.
struct Section {
  std::string_view key;                                  // Of its file: sections/<key>_section.cpp.
  std::string_view title;                                // Its heading.
  std::vector<Part> (*parts)(const ReportInput& input);  // Empty: nothing to say, no heading.
};

/// All sections, in reading order.
std::span<const Section> all_sections();

}  // namespace steplens
