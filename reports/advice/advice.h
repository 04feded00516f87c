#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/advice/arm_facts.h"
#include "reports/advice/finding.h"
#include "reports/advice/rules.h"
#include "reports/counters/counter_parts.h"
#include "reports/document.h"
#include "reports/memory/memory_parts.h"

/// From numbers to what to do next: a table of rules looks at one arm, and each finding says what
/// it saw, what there is to gain at best, and which switch would test it.
namespace steplens {

/// What the rules find in one arm, the largest possible gain first; those without a bound come
/// last, and what the bundle has already refuted after them.
std::vector<Finding> advise(const AdviceInput& input);

/// What a bundle says of one of its arms. Spans may lack the arm. All must outlive the input.
AdviceInput advice_input(const Bundle& bundle, const Results& results, std::string_view arm,
                         std::span<const TracedArm> traced_arms = {},
                         std::span<const CounterArm> counter_arms = {},
                         std::span<const MemoryArm> memory_arms = {});

/// The switch as a matrix runs it, over the arm's config; empty without a config or a toggle.
std::string test_command(const RunConfig* config, const std::string& toggle,
                         const std::string& level);

/// One row a finding: what, at best, switch, what is measured of it.
Table advice_table(std::span<const Finding> findings);

/// For a terminal: each finding with its evidence, its bound and its command.
std::string advice_text(std::span<const Finding> findings);

/// "at best +12 %"; "no bound" without one.
std::string gain_text(const Finding& finding);

/// "attention=cudnn", or "-".
std::string test_text(const Finding& finding);

}  // namespace steplens
