#include "reports/advice/advice.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/config_text.h"
#include "reports/format.h"
#include "reports/matrix_table.h"

namespace steplens {
namespace {

constexpr AdviceRule kRules[] = {
    {"data_wait", "Waiting for data", "the device waits for a batch in 1 % of a step or more",
     &find_data_wait},
    {"launch_bound", "The host launches too late",
     "the device is idle in 2 % of a step or more because a launch came late", &find_launch_bound},
    {"kernel_gaps", "Pauses between kernels",
     "gaps before kernels that were launched in time take 1 % of a step or more",
     &find_kernel_gaps},
    {"waiting_calls", "The host waits for the device",
     "a call that waits for the device in every micro-step, at 0.5 % of a step or more",
     &find_waiting_calls},
    {"recompilation", "Code is compiled while training",
     "compiling or loading code takes 1 % of the steps or more", &find_recompilation},
    {"exposed_communication", "Communication that nothing hides",
     "ranks exchange data while nothing computes in 2 % of a step or more",
     &find_exposed_communication},
    {"many_all_reduces", "Many small reductions",
     "twice as many reductions a step as buckets of 25 MiB need", &find_many_all_reduces},
    {"unfused_attention", "Attention is not fused",
     "a softmax kernel of its own, with attention at 2 % of a step or more",
     &find_unfused_attention},
    {"attention_share", "Attention kernels",
     "fused attention other than cuDNN's takes 6 % of a step or more", &find_attention_share},
    {"idle_tensor_cores", "Tensor cores are idle",
     "products in plain fp32 take 3 % of a step, or tensor pipes are active below 5 %",
     &find_idle_tensor_cores},
    {"memory_bound", "Passes over memory",
     "kernels that only pass over memory take 40 % of a step or more", &find_memory_bound},
    {"unfused_optimizer", "The optimizer is not fused", "the optimizer takes 2 % of a step or more",
     &find_unfused_optimizer},
    {"needless_recompute", "Recomputing without need",
     "activation checkpoints while two thirds of the memory are free", &find_needless_recompute},
    {"allocator_retries", "The allocator asks the driver",
     "an allocation that failed at first, or idle time in the allocator of 0.5 % of a step",
     &find_allocator_retries},
    {"memory_short", "Memory is nearly full",
     "the allocator's cache reaches 92 % of the device's memory", &find_memory_short},
    {"memory_to_spare", "Small micro-batches, memory to spare",
     "accumulation where fewer micro-steps would fit", &find_memory_to_spare},
    {"padding", "Padding", "3 % of the positions or more are padding", &find_padding},
    {"low_clock", "Clock below its maximum",
     "a limit of power, heat or hardware that takes 1 % of the SM clock or more", &find_low_clock},
};

// Order of severity: refuted ones last, then those without a bound, then by what there is to gain.
bool comes_first(const Finding& left, const Finding& right) {
  if (left.is_refuted != right.is_refuted) return right.is_refuted;
  return left.max_gain_ratio.value_or(0) > right.max_gain_ratio.value_or(0);
}

// The arm of this bundle that is `finding.arm` but for the switch, if it was measured.
const ArmResult* measured_switch(const AdviceInput& input, const Finding& finding) {
  if (input.results == nullptr || finding.toggle.empty()) return nullptr;
  for (const ArmResult& row : input.results->arms) {
    if (row.toggle == finding.toggle && row.level == finding.level && row.reference == input.arm &&
        row.effect_ratio) {
      return &row;
    }
  }
  return nullptr;
}

// The other way round: the reference is what the switch would lead back to.
bool undoes_arm(const AdviceInput& input, const Finding& finding) {
  if (input.row == nullptr || input.reference_config == nullptr || !input.row->effect_ratio ||
      input.row->toggle != finding.toggle) {
    return false;
  }
  const ConfigField* field = find_config_field(finding.toggle);
  if (field == nullptr) return false;
  return value_text(*field, *input.reference_config) == finding.level;
}

void add_measured(const AdviceInput& input, Finding& finding) {
  if (const ArmResult* row = measured_switch(input, finding)) {
    finding.measured = fmt::format("{}: {}, {}", row->name, effect_text(*row),
                                   verdict_text(*row, input.results->rule));
    const Verdict verdict = row->verdict.value_or(Verdict::kInconclusive);
    finding.is_refuted = verdict == Verdict::kSlower || verdict == Verdict::kEquivalent ||
                         verdict == Verdict::kMathsDiffers || verdict == Verdict::kNoEffect ||
                         verdict == Verdict::kFailed;
    return;
  }
  if (undoes_arm(input, finding)) {
    finding.measured =
        fmt::format("this arm is {}, {} against {}", effect_text(*input.row),
                    verdict_text(*input.row, input.results->rule), input.row->reference);
  }
}

}  // namespace

std::span<const AdviceRule> all_advice_rules() { return kRules; }

std::string test_command(const RunConfig* config, const std::string& toggle,
                         const std::string& level) {
  if (config == nullptr || toggle.empty()) return "";
  // The toggle's key stands where the arm has it: only the level is new.
  return fmt::format("steplens matrix {} --toggles {}={} --rounds 6",
                     fmt::join(words_of_config(*config), " "), toggle, level);
}

std::vector<Finding> advise(const AdviceInput& input) {
  const ArmFacts facts(input);
  std::vector<Finding> findings;
  for (const AdviceRule& rule : kRules) {
    std::optional<Finding> finding = rule.find(facts);
    if (!finding) continue;
    finding->rule = rule.key;
    finding->title = rule.title;
    finding->arm = input.arm;
    add_measured(input, *finding);
    if (finding->measured.empty() || measured_switch(input, *finding) == nullptr) {
      finding->command = test_command(input.config, finding->toggle, finding->level);
    }
    finding->severity = severity_of(*finding);
    findings.push_back(std::move(*finding));
  }
  std::ranges::stable_sort(findings, comes_first);
  return findings;
}

AdviceInput advice_input(const Bundle& bundle, const Results& results, std::string_view arm,
                         std::span<const TracedArm> traced_arms,
                         std::span<const CounterArm> counter_arms,
                         std::span<const MemoryArm> memory_arms) {
  AdviceInput input{.arm = std::string(arm), .results = &results};
  if (const Arm* planned = find_arm(bundle.manifest, arm)) {
    input.config = &planned->config;
    const Arm* reference = find_arm(bundle.manifest, planned->reference);
    if (reference != nullptr) input.reference_config = &reference->config;
  }
  input.row = find_arm(results, arm);
  input.trace = find_traced_arm(traced_arms, arm);
  for (const CounterArm& counters : counter_arms) {
    if (counters.arm == arm) input.counters = &counters.summary;
  }
  for (const MemoryArm& memory : memory_arms) {
    if (memory.arm == arm) input.memory = &memory.use;
  }
  const nlohmann::json& environment = bundle.manifest.environment;
  if (environment.contains("gpu") && environment["gpu"].is_object()) {
    const nlohmann::json& gpu = environment["gpu"];
    const auto number = [&](const char* key) -> std::optional<double> {
      if (!gpu.contains(key) || !gpu[key].is_number()) return std::nullopt;
      return gpu[key].get<double>();
    };
    input.max_sm_clock_mhz = number("max_sm_clock_mhz");
    if (const std::optional<double> bytes = number("memory_bytes")) {
      input.device_memory_bytes = static_cast<std::int64_t>(*bytes);
    }
  }
  return input;
}

std::string gain_text(const Finding& finding) {
  if (!finding.max_gain_ratio) return "no bound";
  return fmt::format("at best {}", format_change(*finding.max_gain_ratio));
}

std::string test_text(const Finding& finding) {
  if (finding.toggle.empty()) return std::string(kNoNumber);
  return fmt::format("{}={}", finding.toggle, finding.level);
}

Table advice_table(std::span<const Finding> findings) {
  Table table{
      .columns = {
          {"finding"}, {"at best", Align::kRight}, {"seen in"}, {"switch"}, {"measured here"}}};
  for (const Finding& finding : findings) {
    table.rows.push_back(
        {finding.title,
         finding.max_gain_ratio ? format_change(*finding.max_gain_ratio) : std::string(kNoNumber),
         finding.evidence.front().text, test_text(finding),
         finding.measured.empty() ? std::string(kNoNumber) : finding.measured});
  }
  return table;
}

std::string advice_text(std::span<const Finding> findings) {
  std::string text;
  int number = 0;
  for (const Finding& finding : findings) {
    text += fmt::format("{}{}. {} ({}, {})\n", number == 0 ? "" : "\n", number + 1, finding.title,
                        name_of(finding.severity), gain_text(finding));
    ++number;
    text += "   " + wrap(finding.message, 3, 117) + "\n";
    for (const Evidence& item : finding.evidence) {
      text += "   - " + wrap(item.text, 5, 115) + "\n";
    }
    text += "   " + wrap("Bound: " + finding.bound + ".", 3, 117) + "\n";
    if (!finding.measured.empty()) {
      text += "   " + wrap("Measured here: " + finding.measured + ".", 3, 117) + "\n";
    }
    if (!finding.toggle.empty()) text += fmt::format("   Switch: {}\n", test_text(finding));
    if (!finding.command.empty()) text += "   Run: " + wrap(finding.command, 8, 112) + "\n";
  }
  return text;
}

}  // namespace steplens
