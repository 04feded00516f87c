#include "harness/plan.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "harness/error.h"
#include "harness/step_counts.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxRanks = 4096;  // More are a slip of the finger.

std::string hint_of(std::string_view name, const std::vector<std::string_view>& names) {
  const std::string near = nearest_name(name, names);
  return near.empty() ? "" : fmt::format(", did you mean {}?", near);
}

const Toggle& toggle_or_throw(std::span<const Toggle> toggles, std::string_view name) {
  if (const Toggle* toggle = find_toggle(toggles, name)) return *toggle;
  std::vector<std::string_view> names;
  for (const Toggle& toggle : toggles) names.push_back(toggle.name);
  if (find_config_field(name) != nullptr) {
    throw ConfigError(fmt::format(
        "toggles: {0} is a key of the config, not a toggle; --set {0}=value changes the baseline, "
        "and toggles are {1}",
        name, fmt::join(names, ", ")));
  }
  throw ConfigError(fmt::format("toggles: unknown toggle {}{}; `steplens list toggles` shows all",
                                name, hint_of(name, names)));
}

const Level& level_or_throw(const Toggle& toggle, std::string_view name) {
  if (const Level* level = find_level(toggle, name)) return *level;
  std::vector<std::string_view> names;
  for (const Level& level : toggle.levels) names.push_back(level.name);
  throw ConfigError(fmt::format("{}={}: unknown level{}; {} takes {}", toggle.name, name,
                                hint_of(name, names), toggle.name, fmt::join(names, " | ")));
}

// The levels of a choice in its order, each once, without the one at which `baseline` stands.
std::vector<const Level*> chosen_levels(const Toggle& toggle, const ToggleChoice& choice,
                                        const RunConfig& baseline) {
  std::vector<const Level*> levels;
  if (choice.levels.empty()) {
    for (const Level& level : toggle.levels) levels.push_back(&level);
  }
  for (const std::string& name : choice.levels) {
    const Level* level = &level_or_throw(toggle, name);
    if (std::ranges::find(levels, level) == levels.end()) levels.push_back(level);
  }
  const std::string current = current_level(toggle, baseline);
  std::erase_if(levels, [&](const Level* level) { return level->name == current; });
  return levels;
}

// Why `config` cannot run, with the level that was just applied to it; empty if it can.
std::string reason_against(const RunConfig& config, const Level* level,
                           const PlanVocabulary& vocabulary) {
  if (level != nullptr && level->why_not != nullptr) {
    const std::string_view reason = level->why_not(config);
    if (!reason.empty()) return std::string(reason);
  }
  if (vocabulary.why_not != nullptr) {
    const std::string_view reason = vocabulary.why_not(config);
    if (!reason.empty()) return std::string(reason);
  }
  try {
    validate(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::vector<ProofClaim> claims_of(const Toggle& toggle, std::string_view level,
                                  const RunConfig& config, const RunConfig& reference) {
  std::vector<ProofClaim> claims;
  for (const EvidenceRule& rule : toggle.evidence) {
    if (rule.level == level && rule.device == config.device &&
        is_in_sight(rule, config, reference)) {
      claims.push_back({.counter = std::string(rule.counter), .claim = rule.claim});
    }
  }
  return claims;
}

Arm baseline_arm(const RunConfig& baseline) {
  return {.name = "baseline", .is_baseline = true, .config = baseline};
}

// `config` is the reference's with `level` still to apply.
Arm level_arm(const Toggle& toggle, const Level& level, RunConfig config, std::string reference,
              const PlanVocabulary& vocabulary) {
  const RunConfig before = config;
  level.apply(config);
  // A level that edits two keys, or none, is a fault of the catalog.
  SL_CHECK(differing_fields(before, config).size() == 1);
  return {.name = fmt::format("{}={}", toggle.name, level.name),
          .toggle = std::string(toggle.name),
          .level = std::string(level.name),
          .reference = std::move(reference),
          .config = config,
          .contract = contract_of(toggle, config),
          .not_applicable_reason = reason_against(config, &level, vocabulary),
          .proof_claims = claims_of(toggle, level.name, config, before)};
}

class PlanBuilder {
 public:
  PlanBuilder(const MatrixRequest& request, const PlanVocabulary& vocabulary)
      : request_(request),
        vocabulary_(vocabulary) {
    plan_ = {.title = request.title,
             .baseline = request.baseline,
             .num_aa = request.num_aa,
             .seed = request.seed,
             .num_rounds = request.num_rounds.value_or(request.until_halfwidth_ratio
                                                           ? kDefaultMaxRoundsUntilHalfwidth
                                                           : kDefaultNumRounds),
             .until_halfwidth_ratio = request.until_halfwidth_ratio,
             .equivalence_ratio = request.equivalence_ratio,
             .num_warmup_steps = request.num_warmup_steps,
             .num_measured_steps = request.num_measured_steps,
             .num_trace_steps = request.num_trace_steps,
             .num_graph_trace_steps = request.num_graph_trace_steps,
             .num_memory_steps = request.num_memory_steps,
             .num_counter_steps = request.num_counter_steps};
  }

  Plan build() {
    check_numbers();
    check_baseline();
    if (request_.num_aa > 0) {
      add_aa_arms();
    } else {
      plan_.arms.push_back(baseline_arm(request_.baseline));
      add_toggles();
      add_grid();
      add_pairs();
      add_external_arms();
      refuse_if_nothing_to_compare();
    }
    return finished();
  }

  Plan build_baseline_only() {
    check_numbers();
    check_baseline();
    plan_.arms.push_back(baseline_arm(request_.baseline));
    return finished();
  }

 private:
  // Numbers of steps that the user gave are rounded here, so that a resumed request equals them.
  Plan finished() {
    const StepCounts counts = rounded_counts({.num_warmup_steps = plan_.num_warmup_steps,
                                              .num_measured_steps = plan_.num_measured_steps},
                                             plan_.arms);
    plan_.num_warmup_steps = counts.num_warmup_steps;
    plan_.num_measured_steps = counts.num_measured_steps;
    if (counts.num_warmup_steps > 0) refuse_capture_behind_warmup();
    return std::move(plan_);
  }

  // Else the capture, which takes longer than a step, would be measured.
  void refuse_capture_behind_warmup() const {
    const StepCounts counts{.num_warmup_steps = plan_.num_warmup_steps,
                            .num_measured_steps = plan_.num_measured_steps};
    for (const Arm& arm : plan_.arms) {
      if (!arm.config.graph || !arm.not_applicable_reason.empty()) continue;
      const std::int64_t least = num_steps_before_capture(arm.config) + 1;
      if (counts_of(counts, plan_.baseline, arm.config).num_warmup_steps >= least) continue;
      throw ConfigError(fmt::format(
          "warmup={}: too few for graph=on of arm {}, which captures its step {}; takes at least "
          "{} there, or leave it out: pilots find it",
          request_.num_warmup_steps, arm.name, least, least));
    }
  }

  void check_numbers() const {
    const auto require = [](bool holds, std::string_view name, const auto& value,
                            std::string_view allowed) {
      if (!holds) throw ConfigError(fmt::format("{}={}: takes {}", name, value, allowed));
    };
    require(plan_.num_rounds >= 1 && plan_.num_rounds <= 10'000, "rounds", plan_.num_rounds,
            "an integer from 1 to 10000");
    require(plan_.num_aa >= 0 && plan_.num_aa <= 999, "aa", plan_.num_aa,
            "an integer from 1 to 999");
    require(plan_.num_warmup_steps >= 0, "warmup", plan_.num_warmup_steps, "an integer >= 1");
    require(plan_.num_measured_steps >= 0, "steps", plan_.num_measured_steps, "an integer >= 1");
    require(plan_.num_trace_steps >= 0 && plan_.num_trace_steps <= 10'000, "trace_steps",
            plan_.num_trace_steps, "an integer from 0 (no traces) to 10000");
    require(plan_.equivalence_ratio > 1 && plan_.equivalence_ratio <= 2, "equivalence",
            plan_.equivalence_ratio, "a ratio above 1 and up to 2, such as 1.01");
    if (plan_.until_halfwidth_ratio) {
      require(*plan_.until_halfwidth_ratio > 0 && *plan_.until_halfwidth_ratio < 1,
              "until_halfwidth", *plan_.until_halfwidth_ratio,
              "a ratio between 0 and 1, such as 0.2%");
      require(plan_.num_rounds > kDefaultNumRounds, "rounds", plan_.num_rounds,
              "more than 12 with until_halfwidth, which looks from round 12 on");
    }
  }

  void check_baseline() const {
    validate(plan_.baseline);
    if (plan_.baseline.world_size > kMaxRanks) {
      throw ConfigError(fmt::format("ranks={}: takes an integer from 1 to {}",
                                    plan_.baseline.world_size, kMaxRanks));
    }
    const std::string reason = reason_against(plan_.baseline, nullptr, vocabulary_);
    if (!reason.empty()) throw ConfigError(fmt::format("the baseline cannot run: {}", reason));
  }

  void add_aa_arms() {
    if (request_.toggles || !request_.grid.empty() || !request_.pairs.empty() ||
        request_.external_arms) {
      throw ConfigError(
          "aa: an A/A run compares the baseline with itself; it takes no toggles, grid, pairs or "
          "arms");
    }
    for (int i = 0; i <= request_.num_aa; ++i) {
      plan_.arms.push_back({.name = fmt::format("aa-{:02}", i),
                            .is_baseline = true,
                            .reference = i == 0 ? "" : fmt::format("aa-{:02}", i - 1),
                            .config = request_.baseline});
    }
  }

  // Levels that differ from the baseline's; at least one.
  std::vector<const Level*> levels_or_throw(const Toggle& toggle,
                                            const ToggleChoice& choice) const {
    std::vector<const Level*> levels = chosen_levels(toggle, choice, request_.baseline);
    if (levels.empty()) {
      throw ConfigError(fmt::format(
          "{0}={1}: the baseline stands there already, so there is nothing to compare; name "
          "another level, or change the baseline with --set {2}=...",
          toggle.name, current_level(toggle, request_.baseline), toggle.key));
    }
    return levels;
  }

  void add_toggles() {
    std::vector<ToggleChoice> choices;
    if (request_.toggles) {
      choices = *request_.toggles;
    } else if (request_.grid.empty() && request_.pairs.empty() && !request_.external_arms) {
      for (const Toggle& toggle : vocabulary_.toggles) {
        if (toggle.is_in_default_matrix) choices.push_back({.toggle = std::string(toggle.name)});
      }
    }
    for (const ToggleChoice& choice : choices) {
      const Toggle& toggle = toggle_or_throw(vocabulary_.toggles, choice.toggle);
      for (const Level* level : levels_or_throw(toggle, choice)) {
        add(level_arm(toggle, *level, request_.baseline, "baseline", vocabulary_));
      }
    }
  }

  void add_grid() {
    if (request_.grid.empty()) return;
    if (request_.grid.size() != 2) {
      throw ConfigError(
          fmt::format("grid: crosses two toggles, {} were given; write "
                      "--grid no_sync,accumulation",
                      request_.grid.size()));
    }
    cross("grid", request_.grid[0], request_.grid[1]);
  }

  void add_pairs() {
    if (request_.pairs.size() == 1) {
      throw ConfigError("pairs: one toggle has no partner; write --pairs attention=math,graph=on");
    }
    for (std::size_t second = 1; second < request_.pairs.size(); ++second) {
      for (std::size_t first = 0; first < second; ++first) {
        cross("pairs", request_.pairs[first], request_.pairs[second]);
      }
    }
  }

  // Both alone, then together.
  void cross(std::string_view flag, const ToggleChoice& first_choice,
             const ToggleChoice& second_choice) {
    const Toggle& first = toggle_or_throw(vocabulary_.toggles, first_choice.toggle);
    const Toggle& second = toggle_or_throw(vocabulary_.toggles, second_choice.toggle);
    if (&first == &second) {
      throw ConfigError(fmt::format("{}: {} cannot be crossed with itself", flag, first.name));
    }
    const RunConfig& baseline = request_.baseline;
    const std::vector<const Level*> first_levels = levels_or_throw(first, first_choice);
    const std::vector<const Level*> second_levels = levels_or_throw(second, second_choice);
    for (const Level* level : first_levels) {
      add(level_arm(first, *level, baseline, "baseline", vocabulary_));
    }
    for (const Level* level : second_levels) {
      add(level_arm(second, *level, baseline, "baseline", vocabulary_));
    }
    for (const Level* second_level : second_levels) {
      for (const Level* first_level : first_levels) {
        add(grid_cell(first, *first_level, second, *second_level));
      }
    }
  }

  Arm grid_cell(const Toggle& first, const Level& first_level, const Toggle& second,
                const Level& second_level) const {
    const auto beside = [&](const Toggle& toggle, const Level& level) {
      return level_arm(toggle, level, request_.baseline, "baseline", vocabulary_);
    };
    const Arm first_only = beside(first, first_level);
    const Arm second_only = beside(second, second_level);
    const bool compares_second =
        !second_only.not_applicable_reason.empty() && first_only.not_applicable_reason.empty();
    const Arm& reference = compares_second ? first_only : second_only;
    Arm cell = compares_second
                   ? level_arm(second, second_level, reference.config, reference.name, vocabulary_)
                   : level_arm(first, first_level, reference.config, reference.name, vocabulary_);
    cell.name = fmt::format("{}+{}", first_only.name, second_only.name);
    if (cell.not_applicable_reason.empty() && !reference.not_applicable_reason.empty()) {
      cell.not_applicable_reason =
          fmt::format("no neighbour to compare it with: {}", reference.not_applicable_reason);
    }
    return cell;
  }

  void add_external_arms() {
    if (!request_.external_arms) return;
    for (const ExternalArmChoice& choice : *request_.external_arms) {
      if (!choice.settings.empty()) {
        add(config_arm(choice));
        continue;
      }
      Arm arm{.name = choice.name,
              .reference = "baseline",
              .config = request_.baseline,
              .is_single_variable = false};
      if (choice.path.empty()) {
        const KnownExternalArm& known = known_arm_or_throw(choice.name);
        plan_.commands[choice.name] = command_of(known, vocabulary_.scripts_folder);
        arm.command = {known.script};
        arm.contract = known.contract;
        if (!known.runs_on_ranks) refuse_ranks(arm);
      } else {
        if (::access(choice.path.c_str(), X_OK) != 0 || fs::is_directory(choice.path)) {
          throw ConfigError(fmt::format("arms: {}={}: no executable file there", choice.name,
                                        choice.path.string()));
        }
        plan_.commands[choice.name] = {fs::absolute(choice.path).string()};
        arm.command = {choice.path.filename().string()};
        arm.is_users_program = true;
        // Nothing says that it takes its place among ranks: it might do all of the work in each.
        refuse_ranks(arm);
      }
      add(std::move(arm));
    }
  }

  // The baseline with several keys set; each that is a toggle's has that level's claims to prove.
  Arm config_arm(const ExternalArmChoice& choice) const {
    Arm arm{.name = choice.name,
            .reference = "baseline",
            .config = request_.baseline,
            .is_single_variable = false};
    for (const auto& [key, value] : choice.settings) set_config_field(arm.config, key, value);
    for (const Toggle& toggle : vocabulary_.toggles) {
      const std::string level = current_level(toggle, arm.config);
      if (level == current_level(toggle, request_.baseline)) continue;
      arm.contract = std::max(arm.contract, contract_of(toggle, arm.config));
      for (const ProofClaim& claim : claims_of(toggle, level, arm.config, request_.baseline)) {
        // Two toggles may claim the same.
        if (std::ranges::count(arm.proof_claims, claim) == 0) arm.proof_claims.push_back(claim);
      }
    }
    if (differing_fields(request_.baseline, arm.config).empty()) {
      throw ConfigError(
          fmt::format("arms: {} is the baseline itself; set another value", text_of(choice)));
    }
    arm.not_applicable_reason = reason_against(arm.config, nullptr, vocabulary_);
    return arm;
  }

  static void refuse_ranks(Arm& arm) {
    if (arm.config.world_size > 1) arm.not_applicable_reason = "this arm runs on one rank";
  }

  const KnownExternalArm& known_arm_or_throw(std::string_view name) const {
    const auto it = std::ranges::find(vocabulary_.external_arms, name, &KnownExternalArm::name);
    if (it != vocabulary_.external_arms.end()) return *it;
    std::vector<std::string_view> names;
    names.reserve(vocabulary_.external_arms.size());
    for (const KnownExternalArm& arm : vocabulary_.external_arms) names.push_back(arm.name);
    throw ConfigError(fmt::format(
        "arms: unknown arm {}{}; takes {}, name=/path/to/executable, or name:key=value+key=value",
        name, hint_of(name, names),
        names.empty() ? "baseline" : fmt::format("{}", fmt::join(names, " | "))));
  }

  // A toggle and a grid may name the same arm.
  void add(Arm arm) {
    if (std::ranges::count(plan_.arms, arm.name, &Arm::name) == 0) {
      plan_.arms.push_back(std::move(arm));
    }
  }

  void refuse_if_nothing_to_compare() const {
    std::vector<std::string> reasons;
    for (const Arm& arm : plan_.arms) {
      if (arm.is_baseline) continue;
      if (arm.not_applicable_reason.empty()) return;
      reasons.push_back(fmt::format("{}: {}", arm.name, arm.not_applicable_reason));
    }
    throw ConfigError(fmt::format(
        "nothing to compare{}",
        reasons.empty() ? ": no toggle was named"
                        : fmt::format("; not applicable: {}", fmt::join(reasons, "; "))));
  }

  const MatrixRequest& request_;
  const PlanVocabulary& vocabulary_;
  Plan plan_;
};

template <typename T>
void refuse_if_different(std::string_view field, const T& asked, const T& recorded) {
  if (asked == recorded) return;
  throw ConfigError(
      fmt::format("{}: the bundle was begun with {}, now it is {}; --resume continues what was "
                  "begun, or start a new bundle",
                  field, recorded, asked));
}

std::string shown(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "none";
}

std::string shown(const RunConfig& config, std::string_view field) {
  return find_config_field(field)->get(config).dump();
}

}  // namespace

std::vector<std::string> command_of(const KnownExternalArm& arm,
                                    const std::filesystem::path& scripts_folder) {
  const fs::path script = scripts_folder / arm.script;
  if (::access(script.c_str(), X_OK) != 0) {
    throw ConfigError(fmt::format("arms: {} needs {}, which is not an executable file", arm.name,
                                  script.string()));
  }
  return {script.string()};
}

Plan make_plan(const MatrixRequest& request, const PlanVocabulary& vocabulary) {
  return PlanBuilder(request, vocabulary).build();
}

Plan make_baseline_plan(const MatrixRequest& request, const PlanVocabulary& vocabulary) {
  return PlanBuilder(request, vocabulary).build_baseline_only();
}

Plan plan_of(const Manifest& manifest) {
  return {.title = manifest.title,
          .baseline = manifest.baseline,
          .arms = manifest.arms,
          .num_aa = manifest.num_aa,
          .seed = manifest.seed,
          .num_rounds = manifest.num_rounds_planned,
          .until_halfwidth_ratio = manifest.until_halfwidth_ratio,
          .equivalence_ratio = manifest.equivalence_ratio,
          .num_warmup_steps = manifest.num_warmup_steps,
          .num_measured_steps = manifest.num_measured_steps,
          .num_trace_steps = manifest.num_trace_steps,
          .num_graph_trace_steps = manifest.num_graph_trace_steps,
          .num_memory_steps = manifest.num_memory_steps,
          .num_counter_steps = manifest.num_counter_steps};
}

void refuse_other_plan(const Plan& plan, const Manifest& manifest) {
  for (const std::string& field : differing_fields(plan.baseline, manifest.baseline)) {
    refuse_if_different(field, shown(plan.baseline, field), shown(manifest.baseline, field));
  }
  refuse_if_different("aa", plan.num_aa, manifest.num_aa);
  refuse_if_different("rounds", plan.num_rounds, manifest.num_rounds_planned);
  refuse_if_different("seed", plan.seed, manifest.seed);
  refuse_if_different("until_halfwidth", shown(plan.until_halfwidth_ratio),
                      shown(manifest.until_halfwidth_ratio));
  refuse_if_different("equivalence", plan.equivalence_ratio, manifest.equivalence_ratio);
  if (plan.num_warmup_steps > 0) {
    refuse_if_different("warmup", plan.num_warmup_steps, manifest.num_warmup_steps);
  }
  if (plan.num_measured_steps > 0) {
    refuse_if_different("steps", plan.num_measured_steps, manifest.num_measured_steps);
  }
  refuse_if_different("trace_steps", plan.num_trace_steps, manifest.num_trace_steps);
  refuse_if_different("graph_trace_steps", plan.num_graph_trace_steps,
                      manifest.num_graph_trace_steps);
  refuse_if_different("memory", plan.num_memory_steps > 0, manifest.num_memory_steps > 0);
  refuse_if_different("counters", plan.num_counter_steps > 0, manifest.num_counter_steps > 0);
  const auto names = [](const std::vector<Arm>& arms) {
    std::vector<std::string> result;
    result.reserve(arms.size());
    for (const Arm& arm : arms) result.push_back(arm.name);
    return fmt::format("{}", fmt::join(result, ", "));
  };
  refuse_if_different("arms", names(plan.arms), names(manifest.arms));
  for (std::size_t i = 0; i < plan.arms.size(); ++i) {
    const Arm& asked = plan.arms[i];
    const Arm& recorded = manifest.arms[i];
    for (const std::string& field : differing_fields(asked.config, recorded.config)) {
      refuse_if_different(fmt::format("{} of arm {}", field, asked.name),
                          shown(asked.config, field), shown(recorded.config, field));
    }
    refuse_if_different(fmt::format("command of arm {}", asked.name),
                        fmt::format("{}", fmt::join(asked.command, " ")),
                        fmt::format("{}", fmt::join(recorded.command, " ")));
    refuse_if_different(fmt::format("applicability of arm {}", asked.name),
                        asked.not_applicable_reason, recorded.not_applicable_reason);
  }
}

}  // namespace steplens
