#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/bundle.h"
#include "reports/document.h"
#include "reports/results.h"

namespace steplens {

/// Whether an effect was found again.
enum class Agreement : std::uint8_t {
  kAgrees,       // The two intervals overlap.
  kDiffers,      // They do not.
  kNotCompared,  // One of the two has none: `reason` says why.
};
std::string_view name_of(Agreement agreement);  // "agrees", "differs", "not_compared"

/// One arm in the original bundle and in the one that repeats it.
struct ReproducedArm {
  std::string name;
  std::optional<double> original_ratio, original_low_ratio, original_high_ratio;
  std::optional<double> copy_ratio, copy_low_ratio, copy_high_ratio;
  std::optional<double> original_rate_per_s, copy_rate_per_s;  // valid_tokens_per_s
  std::optional<Verdict> original_verdict, copy_verdict;
  Agreement agreement = Agreement::kNotCompared;
  std::string reason;
};

struct Reproduction {
  std::vector<ReproducedArm> arms;  // In the order of the original.
  std::vector<std::string>
      differences;  // Of machine, programs, data, rounds: "gpu.name: A there, B here".
  int num_agreeing = 0;
  int num_differing = 0;

  /// Every effect that can be compared agrees, and there is one.
  bool is_reproduced() const { return num_agreeing > 0 && num_differing == 0; }
};

/// Holds the effects of `copy` against those of `original`. Effects are compared, never rates:
/// another machine is faster or slower, and what a switch does may still be the same.
Reproduction compare_reproduction(const Bundle& original, const Bundle& copy);

Table reproduction_table(const Reproduction& reproduction);

/// Table, what differs, and one sentence of outcome.
std::string reproduction_text(const Reproduction& reproduction);

nlohmann::json to_json(const Reproduction& reproduction);

}  // namespace steplens
