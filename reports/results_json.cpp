#include <array>
#include <concepts>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/json_field.h"
#include "reports/results.h"

// results.json <-> Results. Each struct's fields are listed once, below; writer and reader both
// walk that list, so that they cannot disagree.
namespace steplens {
namespace {

using nlohmann::json;

constexpr std::array<Verdict, 8> kVerdicts = {
    Verdict::kFaster,          Verdict::kSlower,   Verdict::kEquivalent,   Verdict::kInconclusive,
    Verdict::kNotEnoughRounds, Verdict::kNoEffect, Verdict::kMathsDiffers, Verdict::kFailed};

template <typename Self, typename Target>
concept SameAs = std::same_as<std::remove_const_t<Self>, Target>;

void visit_fields(SameAs<OutlierCounts> auto& counts, auto&& visit) {
  visit("num_mild", counts.num_mild);
  visit("num_severe", counts.num_severe);
  visit("num_mad", counts.num_mad);
}

void visit_fields(SameAs<ProofCheck> auto& check, auto&& visit) {
  visit("counter", check.counter);
  visit("claim", check.claim);
  visit("candidate_count", check.candidate_count);
  visit("reference_count", check.reference_count);
  visit("holds", check.holds);
}

void visit_fields(SameAs<VerdictRule> auto& rule, auto&& visit) {
  visit("alpha", rule.alpha);
  visit("equivalence_ratio", rule.equivalence_ratio);
  visit("min_rounds", rule.min_rounds);
  visit("confidence", rule.confidence);
}

void visit_fields(SameAs<AaResult> auto& aa, auto&& visit) {
  visit("num_comparisons", aa.num_comparisons);
  visit("num_rejected", aa.num_rejected);
  visit("num_allowed", aa.num_allowed);
  visit("median_half_width_ratio", aa.median_half_width_ratio);
  visit("is_accepted", aa.is_accepted);
}

void visit_fields(SameAs<TracingCost> auto& cost, auto&& visit) {
  visit("arm", cost.arm);
  visit("against", cost.against);
  visit("num_rounds", cost.num_rounds);
  visit("cost_ratio", cost.cost_ratio);
  visit("cost_low_ratio", cost.cost_low_ratio);
  visit("cost_high_ratio", cost.cost_high_ratio);
  visit("cost_upper_ratio", cost.cost_upper_ratio);
  visit("against_step_ns", cost.against_step_ns);
  visit("num_recorded_kernels", cost.num_recorded_kernels);
  visit("kernel_cost_ns", cost.kernel_cost_ns);
}

void visit_fields(SameAs<TracingCosts> auto& costs, auto&& visit) {
  visit("of_steplens", costs.of_steplens);
  visit("of_collector", costs.of_collector);
  visit("of_torch_profiler", costs.of_torch_profiler);
  visit("torch_profiler_kernel_ns", costs.torch_profiler_kernel_ns);
  visit("torch_profiler_num_kernels", costs.torch_profiler_num_kernels);
}

void visit_fields(SameAs<BlockFailure> auto& failure, auto&& visit) {
  visit("arm", failure.arm);
  visit("folder", failure.folder);
  visit("status", failure.status);
  visit("reason", failure.reason);
}

void visit_fields(SameAs<ArmResult> auto& arm, auto&& visit) {
  visit("name", arm.name);
  visit("toggle", arm.toggle);
  visit("level", arm.level);
  visit("is_baseline", arm.is_baseline);
  visit("is_external", arm.is_external);
  visit("reference", arm.reference);
  visit("is_single_variable", arm.is_single_variable);
  visit("differing_keys", arm.differing_keys);
  visit("contract", arm.contract);
  visit("is_applicable", arm.is_applicable);

  visit("verdict", arm.verdict);
  visit("is_within_one_percent", arm.is_within_one_percent);
  visit("proof", arm.proof);
  visit("proof_reason", arm.proof_reason);
  visit("proof_checks", arm.proof_checks);

  visit("effect_ratio", arm.effect_ratio);
  visit("effect_low_ratio", arm.effect_low_ratio);
  visit("effect_high_ratio", arm.effect_high_ratio);
  visit("effect_per_cycle_ratio", arm.effect_per_cycle_ratio);
  visit("p_value", arm.p_value);
  visit("p_adjusted", arm.p_adjusted);
  visit("min_detectable_ratio", arm.min_detectable_ratio);
  visit("num_rounds", arm.num_rounds);
  visit("num_failed_blocks", arm.num_failed_blocks);

  visit("positions_per_s", arm.positions_per_s);
  visit("valid_tokens_per_s", arm.valid_tokens_per_s);
  visit("loss_tokens_per_s", arm.loss_tokens_per_s);
  visit("step_wall_ns", arm.step_wall_ns);
  visit("step_gpu_ns", arm.step_gpu_ns);
  visit("pooled_step_p50_ns", arm.pooled_step_p50_ns);
  visit("pooled_step_p90_ns", arm.pooled_step_p90_ns);
  visit("pooled_step_p99_ns", arm.pooled_step_p99_ns);
  visit("data_wait_ratio", arm.data_wait_ratio);
  visit("compile_ns", arm.compile_ns);
  visit("block_sd_ratio", arm.block_sd_ratio);
  visit("has_unequal_noise", arm.has_unequal_noise);
  visit("step_outliers", arm.step_outliers);
  visit("block_outliers", arm.block_outliers);

  visit("mfu_causal_ratio", arm.mfu_causal_ratio);
  visit("mfu_full_ratio", arm.mfu_full_ratio);
  visit("peak_flops_per_s", arm.peak_flops_per_s);
  visit("peak_source", arm.peak_source);
  visit("num_matmul_parameters", arm.num_matmul_parameters);
  visit("mfu_reason", arm.mfu_reason);

  visit("peak_allocated_bytes", arm.peak_allocated_bytes);
  visit("peak_reserved_bytes", arm.peak_reserved_bytes);
  visit("graph_pool_hidden_bytes", arm.graph_pool_hidden_bytes);
  visit("driver_used_bytes", arm.driver_used_bytes);
  visit("unaccounted_bytes", arm.unaccounted_bytes);
  visit("peak_rss_bytes", arm.peak_rss_bytes);
  visit("num_alloc_retries", arm.num_alloc_retries);

  visit("energy_per_token_j", arm.energy_per_token_j);
  visit("mean_power_watts", arm.mean_power_watts);
  visit("mean_sm_clock_mhz", arm.mean_sm_clock_mhz);
  visit("max_temperature_celsius", arm.max_temperature_celsius);
  visit("cpu_time_ratio", arm.cpu_time_ratio);
  visit("throttle_shares", arm.throttle_shares);

  visit("loss_deviation_ratio", arm.loss_deviation_ratio);
  visit("grad_norm_deviation_ratio", arm.grad_norm_deviation_ratio);
  visit("loss_tolerance_ratio", arm.loss_tolerance_ratio);
  visit("grad_norm_tolerance_ratio", arm.grad_norm_tolerance_ratio);
  visit("guard_failures", arm.guard_failures);

  visit("labels", arm.labels);
  visit("reason", arm.reason);
}

void visit_fields(SameAs<Results> auto& results, auto&& visit) {
  visit("schema_version", results.schema_version);
  visit("arms", results.arms);
  visit("rule", results.rule);
  visit("num_comparisons", results.num_comparisons);
  visit("num_rounds_planned", results.num_rounds_planned);
  visit("num_rounds_complete", results.num_rounds_complete);
  visit("num_rounds_dropped", results.num_rounds_dropped);
  visit("stop_reason", results.stop_reason);
  visit("has_drift", results.has_drift);
  visit("wall_ns", results.wall_ns);
  visit("measured_ns", results.measured_ns);
  visit("measured_share_ratio", results.measured_share_ratio);
  visit("aa", results.aa);
  visit("tracing_costs", results.tracing_costs);
  visit("failures", results.failures);
  visit("warnings", results.warnings);
}

template <typename T>
concept HasFields = requires(T& value) { visit_fields(value, [](const char*, auto&) {}); };

// ---- Writing. ----

json to_value(Verdict verdict) { return verdict_name(verdict); }
json to_value(Contract contract) { return name_of(contract); }
json to_value(Proof proof) { return name_of(proof); }
json to_value(Claim claim) { return name_of(claim); }
template <typename T>
json to_value(const T& value);
template <typename T>
json to_value(const std::optional<T>& value) {
  return value ? to_value(*value) : json(nullptr);
}
template <typename T>
json to_value(const std::vector<T>& values) {
  json array = json::array();
  for (const T& value : values) array.push_back(to_value(value));
  return array;
}
template <typename T>
json to_value(const T& value) {
  if constexpr (HasFields<const T>) {
    json object = json::object();
    visit_fields(value,
                 [&](const char* name, const auto& field) { object[name] = to_value(field); });
    return object;
  } else {
    return value;
  }
}

// ---- Reading. ----

void read_value(const json& value, Verdict& target) {
  const auto name = value.get<std::string>();
  for (const Verdict verdict : kVerdicts) {
    if (verdict_name(verdict) == name) {
      target = verdict;
      return;
    }
  }
  throw ConfigError(fmt::format("unknown verdict {}", name));
}
void read_value(const json& value, Contract& target) {
  target = contract_from_name(value.get<std::string>());
}
void read_value(const json& value, Proof& target) {
  target = proof_from_name(value.get<std::string>());
}
void read_value(const json& value, Claim& target) {
  target = claim_from_name(value.get<std::string>());
}
template <typename T>
void read_value(const json& value, T& target);
template <typename T>
void read_value(const json& value, std::optional<T>& target) {
  target.reset();
  if (!value.is_null()) read_value(value, target.emplace());
}
template <typename T>
void read_value(const json& value, std::vector<T>& target) {
  target.clear();
  for (const json& element : value) read_value(element, target.emplace_back());
}
template <typename T>
void read_value(const json& value, T& target) {
  if constexpr (HasFields<T>) {
    visit_fields(target, [&](const char* name, auto& field) {
      const auto it = value.find(name);
      if (it == value.end()) return;
      try {
        read_value(*it, field);
      } catch (const ConfigError& error) {
        throw ConfigError(fmt::format("{}.{}", name, error.what()));
      } catch (const json::exception&) {
        throw ConfigError(fmt::format("{}: wrong type: {}", name, it->dump().substr(0, 60)));
      }
    });
  } else {
    value.get_to(target);
  }
}

}  // namespace

json to_json(const Results& results) { return to_value(results); }

Results results_from_json(const json& object, std::string_view source) {
  check_schema_version(object, source, kSchemaVersion);
  Results results;
  try {
    read_value(object, results);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: field {}", source, error.what()));
  }
  return results;
}

}  // namespace steplens
