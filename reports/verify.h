#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/bundle.h"

namespace steplens {

struct VerifyOptions {
  /// Numbers of results.json may differ by this share of the larger one: other compilers round
  /// `log` and `exp` differently in the last digits.
  double tolerance_ratio = 1e-9;
  /// For bundles below reports/published/ of a checkout: they were made from committed sources that
  /// HEAD still contains. Asks git.
  bool checks_git = true;
};

/// Everything that is wrong with a bundle, one sentence each; empty means verified.
///
/// Checked: each block.json against the hash in the manifest; blocks listed once, none hidden; the
/// manifest's entries against the blocks; every round's order against a fresh draw from the seed
/// and against the start times; numbers of steps as planned; every value of results.json against a
/// recomputation from the blocks; equal work; no row that claims to be single-variable and is not.
/// Throws ConfigError only if `bundle` is no bundle at all.
std::vector<std::string> verify(const std::filesystem::path& bundle,
                                const VerifyOptions& options = {});

/// Where `stored` differs from `expected`, as "arms[2].p_value: stored 0.01, recomputed 0.02";
/// empty if nowhere. Fields that `stored` lacks are fine (older programs wrote fewer), except those
/// that every version has; free text is not compared.
std::vector<std::string> differences(const nlohmann::json& stored, const nlohmann::json& expected,
                                     double tolerance_ratio);
/// The same of any document, none of whose fields every version has.
std::vector<std::string> value_differences(const nlohmann::json& stored,
                                           const nlohmann::json& expected, double tolerance_ratio);

}  // namespace steplens
