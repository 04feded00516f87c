#include "reports/proof.h"

#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/trace/trace_reader.h"
#include "reports/format.h"
#include "reports/pairs.h"
#include "reports/trace_evidence.h"

namespace steplens {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"proven", "no_effect", "not_checked"};

// Counts are per optimizer step, so they are ratios of integers; half of 1/10,000 tells any two
// apart that a pilot of up to 200 steps can give.
constexpr double kSameCount = 5e-5;

// Claims about the arm's trace name their counter with it.
constexpr std::string_view kTracePrefix = "trace.";

const nlohmann::json* counters_in(const BlockRecord* block, const char* key) {
  if (block == nullptr || !block->evidence.is_object()) return nullptr;
  const auto it = block->evidence.find(key);
  return it != block->evidence.end() && it->is_object() && !it->empty() ? &*it : nullptr;
}

// What an arm's pilot and its trace counted.
struct Counters {
  Counters(const Bundle& bundle, const std::string& arm)
      : pilot(counters_in(find_pilot(bundle, arm), "counters")),
        trace(counters_in(find_trace(bundle, arm), "trace_counters")),
        trace_file(trace_path(bundle, arm)) {}

  const nlohmann::json* pilot;
  const nlohmann::json* trace;
  std::filesystem::path trace_file;  // Empty where there is none.
};

// The counter as this program counts it in the trace itself.
std::optional<double> recount(const Counters& arm, const std::string& name) {
  if (arm.trace_file.empty()) return std::nullopt;
  try {
    const std::map<std::string, double> counts = trace_counters(read_trace(arm.trace_file));
    const auto it = counts.find(name);
    return it == counts.end() ? 0.0 : it->second;
  } catch (const ConfigError&) {
    return std::nullopt;  // Damaged; `verify` says so.
  }
}

// What a program that recorded traces did not know it did not count, in neither of them: the
// traces still show it.
void recount_if_unknown(const Counters& candidate, const Counters& reference, ProofCheck& check) {
  if (!check.counter.starts_with(kTracePrefix) || !is_relative(check.claim)) return;
  const std::string name = check.counter.substr(kTracePrefix.size());
  const auto lacks = [&](const Counters& arm) {
    return arm.trace != nullptr && !arm.trace->contains(name);
  };
  if (!lacks(candidate) || !lacks(reference)) return;
  const std::optional<double> candidate_count = recount(candidate, name);
  const std::optional<double> reference_count = recount(reference, name);
  if (!candidate_count || !reference_count) return;
  check.candidate_count = candidate_count;
  check.reference_count = reference_count;
}

std::optional<double> count_in(const Counters& arm, const std::string& name) {
  const bool is_of_trace = name.starts_with(kTracePrefix);
  const nlohmann::json* counters = is_of_trace ? arm.trace : arm.pilot;
  if (counters == nullptr) return std::nullopt;
  const auto it = counters->find(is_of_trace ? name.substr(kTracePrefix.size()) : name);
  if (it == counters->end()) return 0.0;
  if (!it->is_number()) return std::nullopt;
  return it->get<double>();
}

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> holds(const ProofCheck& check, const std::string& level) {
  if (!check.candidate_count) return std::nullopt;
  const double count = *check.candidate_count;
  switch (check.claim) {
    case Claim::kPresent: return count > kSameCount;
    case Claim::kAbsent: return count <= kSameCount;
    case Claim::kEqualsLevel: {
      const std::optional<double> expected = number_in(level);
      if (!expected) return std::nullopt;
      return std::abs(count - *expected) <= kSameCount;
    }
    case Claim::kMoreThanReference:
      if (!check.reference_count) return std::nullopt;
      return count > *check.reference_count + kSameCount;
    case Claim::kFewerThanReference:
      if (!check.reference_count) return std::nullopt;
      return count < *check.reference_count - kSameCount;
    case Claim::kOtherThanReference:
      if (!check.reference_count) return std::nullopt;
      return std::abs(count - *check.reference_count) > kSameCount;
  }
  return std::nullopt;
}

std::string_view words_of(Claim claim) {
  switch (claim) {
    case Claim::kPresent: return "present";
    case Claim::kAbsent: return "absent";
    case Claim::kEqualsLevel: return "equal to the level";
    case Claim::kMoreThanReference: return "more than in the reference";
    case Claim::kFewerThanReference: return "fewer than in the reference";
    case Claim::kOtherThanReference: return "other than in the reference";
  }
  return "";
}

std::string with_counts(const ProofCheck& check) {
  std::string text = fmt::format(
      "{}: {} a step", describe(check),
      check.candidate_count ? format_mean_count(*check.candidate_count) : "not counted");
  if (check.reference_count) {
    text += fmt::format(" against {}", format_mean_count(*check.reference_count));
  }
  return text;
}

// What the attention library was asked and said, as the arm's last block has it; empty if no block
// does.
std::string attention_text(const Bundle& bundle, const std::string& arm) {
  for (std::size_t i = bundle.blocks.size(); i-- > 0;) {
    const nlohmann::json& evidence = bundle.blocks[i].evidence;
    if (bundle.blocks[i].arm != arm || !evidence.is_object()) continue;
    const auto it = evidence.find("attention");
    if (it == evidence.end() || !it->is_object()) continue;
    const auto text = [&](const char* key) {
      const auto value = it->find(key);
      if (value == it->end() || value->is_null()) return std::string();
      return value->is_string() ? value->get<std::string>() : value->dump();
    };
    const std::string why_not = text("why_not");
    return fmt::format(
        "asked for {} with {}, head_dim {}, {} heads over {} key-value heads, a {} mask and "
        "sequence_length {}, the library takes {}{}{}",
        text("wanted"), text("dtype"), text("head_dim"), text("num_heads"), text("num_kv_heads"),
        text("mask"), text("sequence_length"),
        why_not.empty() ? text("chosen") : text("would_choose"), why_not.empty() ? "" : ": ",
        why_not);
  }
  return "";
}

// Why nothing was counted.
std::string why_no_counters(const Bundle& bundle, const Arm& arm) {
  std::string reason = "no pilot of this arm has counters";
  const nlohmann::json& failed = bundle.manifest.failed_arms;
  if (failed.is_object() && failed.contains(arm.name) && failed.at(arm.name).is_string()) {
    reason += ": " + failed.at(arm.name).get<std::string>();
  }
  return reason;
}

}  // namespace

std::string_view name_of(Proof proof) { return kNames.at(static_cast<std::size_t>(proof)); }

Proof proof_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames.at(i) == name) return static_cast<Proof>(i);
  }
  throw ConfigError(fmt::format("proof={}: unknown; takes {}", name, fmt::join(kNames, " | ")));
}

std::string describe(const ProofCheck& check) {
  return fmt::format("{} {}", check.counter, words_of(check.claim));
}

ProofResult prove(const Bundle& bundle, const Arm& arm) {
  if (arm.proof_claims.empty()) {
    return {.reason =
                arm.reference.empty() ? "" : "its row claims nothing that a counter could show"};
  }
  const Counters candidate(bundle, arm.name);
  const Counters reference(bundle, arm.reference);
  ProofResult result;
  std::string failed;
  std::string missing;
  std::string proven;
  for (const ProofClaim& claim : arm.proof_claims) {
    // A bundle without traces is proven by its pilots alone.
    if (claim.counter.starts_with(kTracePrefix) && candidate.trace == nullptr) continue;
    ProofCheck check{.counter = claim.counter,
                     .claim = claim.claim,
                     .candidate_count = count_in(candidate, claim.counter),
                     .reference_count = count_in(reference, claim.counter)};
    recount_if_unknown(candidate, reference, check);
    check.holds = holds(check, arm.level);
    std::string& list = !check.holds ? missing : *check.holds ? proven : failed;
    list += (list.empty() ? "" : "; ") + with_counts(check);
    result.checks.push_back(std::move(check));
  }
  if (!failed.empty()) {
    result.proof = Proof::kNoEffect;
    result.reason = "claimed, but not so: " + failed;
    if (arm.toggle == "attention") {
      const std::string attention = attention_text(bundle, arm.name);
      if (!attention.empty()) result.reason += "; " + attention;
    }
  } else if (candidate.pilot == nullptr) {
    result.reason = why_no_counters(bundle, arm);
  } else if (!missing.empty()) {
    result.reason = "a count is missing: " + missing;
  } else {
    result.proof = Proof::kProven;
    result.reason = proven;
  }
  return result;
}

}  // namespace steplens
