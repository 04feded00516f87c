#include "harness/cli/recipe_verb.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/byte_size.h"
#include "harness/cli/experiment_flags.h"
#include "harness/cli/locations.h"
#include "harness/cli/matrix_series.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/recipe.h"
#include "harness/recipe_alternative.h"
#include "harness/resume_memory.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

struct RecipeFlags : MachineFlags {
  ExperimentFlags experiment;
  std::optional<std::string> order;
  std::optional<std::string> memory_goal;
  std::string out;
  std::string resume;
  bool is_resume = false;
  bool is_json = false;
};

// The default order without toggles that this build does not have.
std::vector<ToggleChoice> known_order(const PlanVocabulary& vocabulary) {
  std::vector<ToggleChoice> order = parse_toggle_choices(default_recipe_order());
  std::erase_if(order, [&](const ToggleChoice& choice) {
    return find_toggle(vocabulary.toggles, choice.toggle) == nullptr;
  });
  return order;
}

Recipe requested_recipe(const RecipeFlags& flags, const PlanVocabulary& vocabulary) {
  Recipe recipe{.experiment = experiment_of(flags.experiment)};
  Experiment& experiment = recipe.experiment;
  std::vector<std::pair<std::string, std::string>> settings = recipe_start_settings();
  settings.insert(settings.end(), experiment.settings.begin(), experiment.settings.end());
  experiment.settings = std::move(settings);
  // A step asks which level wins; why, a matrix of the final configuration says.
  if (!experiment.trace_steps) experiment.trace_steps = 0;
  experiment.memory = false;
  experiment.counters = false;
  recipe.order = flags.order ? parse_toggle_choices(*flags.order) : known_order(vocabulary);
  for (const ToggleChoice& choice : recipe.order) {
    if (find_toggle(vocabulary.toggles, choice.toggle) != nullptr) continue;
    throw ConfigError(
        fmt::format("order: unknown toggle {}; `steplens list toggles` shows all", choice.toggle));
  }
  if (flags.memory_goal) {
    recipe.memory_goal_bytes = parse_byte_size("memory-goal", *flags.memory_goal);
  }
  return recipe;
}

class RecipeVerb {
 public:
  RecipeVerb(const RecipeFlags& flags, CliContext& context)
      : flags_(flags),
        context_(context),
        folder_(flags.resume.empty() ? flags.out : flags.resume),
        recipe_(flags.is_resume && is_recipe(folder_)
                    ? read_recipe(folder_)
                    : requested_recipe(flags, context.vocabulary)),
        series_(flags, context, flags.experiment.max_seconds) {}

  int run() {
    if (folder_.empty()) {
      throw ConfigError("recipe: needs a folder for its bundles; name one with --out");
    }
    begin_folder();
    recipe_.steps.clear();  // They follow from the bundles.
    recipe_.leave_one_out.clear();
    for (std::size_t i = 0; i < recipe_.order.size(); ++i) {
      if (!run_step(i)) return stopped();
      save();
    }
    while (const auto alternative = next_alternative(recipe_, context_.vocabulary, config_now())) {
      if (!run_alternative(*alternative)) return stopped();
      save();
    }
    if (!run_leave_one_out()) return stopped();
    recipe_.is_done = true;
    save();
    print();
    return kExitOk;
  }

 private:
  void begin_folder() {
    if (flags_.is_resume && is_recipe(folder_)) {
      const fs::path data = read_resume_memory(resume_memory_path(folder_)).data_path;
      if (!data.empty()) recipe_.experiment.data = data.string();
      if (flags_.experiment.data) recipe_.experiment.data = flags_.experiment.data;
      return;
    }
    if (fs::exists(folder_) && !fs::is_empty(folder_)) {
      throw ConfigError(fmt::format("out: {} exists and is not empty; --resume goes on with a run",
                                    folder_.string()));
    }
    // Faults of the start come before the first block.
    make_baseline_plan(matrix_request(recipe_.experiment, config_now()), context_.vocabulary);
    fs::create_directories(folder_);
    if (recipe_.experiment.data) {
      write_resume_memory(resume_memory_path(folder_),
                          {.data_path = fs::absolute(*recipe_.experiment.data)});
    }
    save();
  }

  Experiment experiment_now() const {
    Experiment experiment = recipe_.experiment;
    experiment.settings = settings_after(recipe_, context_.vocabulary);
    experiment.max_seconds.reset();
    return experiment;
  }

  RunConfig config_now() { return baseline_of(experiment_now(), context_, series_.machine()); }

  double share(std::size_t step_index) const {
    return 1.0 / static_cast<double>(recipe_.order.size() + 1 - step_index);
  }

  // False if it was stopped.
  bool run_step(std::size_t index) {
    ToggleChoice choice = recipe_.order[index];
    const Toggle& toggle = *find_toggle(context_.vocabulary.toggles, choice.toggle);
    RecipeStep step{.toggle = choice.toggle, .from_level = current_level(toggle, config_now())};
    std::erase(choice.levels, step.from_level);
    Experiment experiment = experiment_now();
    experiment.toggles = std::vector<ToggleChoice>{choice};
    if (choice.levels.empty() && !recipe_.order[index].levels.empty()) {
      step.reason = fmt::format("it stands at {} already", step.from_level);
    } else {
      try {
        series_.plan_of(experiment);
      } catch (const ConfigError& error) {
        step.reason = error.what();  // None of its levels can run here.
      }
    }
    if (!step.reason.empty()) {
      series_.progress().say(fmt::format("{}: skipped: {}", step.toggle, step.reason));
      recipe_.steps.push_back(std::move(step));
      return true;
    }
    step.folder = step_folder(index, choice.toggle);
    series_.progress().say(
        fmt::format("{} ({} of {})", step.toggle, index + 1, recipe_.order.size()));
    return run_matrix(experiment, share(index), std::move(step));
  }

  // What a kept toggle excluded, all at once in its place. False if it was stopped.
  bool run_alternative(const RecipeAlternative& alternative) {
    const RecipeChange& undone = alternative.undone;
    RecipeStep step{.toggle = undone.toggle,
                    .folder = step_folder(recipe_.steps.size(), "without-" + undone.toggle),
                    .from_level = undone.from_level,
                    .changes = alternative.changes()};
    ExternalArmChoice arm{.name = alternative_arm_name(undone.toggle)};
    for (const RecipeChange& change : step.changes) {
      arm.settings.push_back(setting_of(change.toggle, change.level, context_.vocabulary));
    }
    Experiment experiment = experiment_now();
    experiment.arms = {std::move(arm)};
    series_.progress().say(alternative_text(step.changes));
    return run_matrix(experiment, share(recipe_.order.size() - 1), std::move(step));
  }

  // Runs the matrix of a step and keeps what it decides. False if it was stopped.
  bool run_matrix(const Experiment& experiment, double share_of_time, RecipeStep step) {
    const MatrixSeries::Outcome outcome =
        series_.run(experiment, folder_ / step.folder, share_of_time);
    if (was_stopped(outcome)) return false;
    if (outcome.run.end == RunEnd::kBaselineFailed || outcome.results.is_null()) {
      throw DeviceError(fmt::format("recipe: step {}: {}", step.folder, outcome.run.reason));
    }
    const std::vector<RecipeArm> arms = recipe_arms(outcome.results);
    const RecipeDecision decision = decide_step(arms, recipe_.memory_goal_bytes);
    if (decision.kept != nullptr) {
      step.kept_level = step.changes.empty() ? decision.kept->level : step.changes.front().level;
    }
    step.reason = decision.reason;
    series_.progress().say(fmt::format("{}: {}: {}",
                                       step.changes.empty() ? step.toggle : "in its place",
                                       step.kept_level.empty() ? "not kept" : "kept", step.reason));
    recipe_.steps.push_back(std::move(step));
    return true;
  }

  bool run_leave_one_out() {
    std::vector<ToggleChoice> choices;
    for (const RecipeChange& kept : kept_changes(recipe_.steps)) {
      choices.push_back({.toggle = kept.toggle, .levels = {kept.from_level}});
    }
    // Of a single one, its own step has said what undoing it does.
    if (choices.size() < 2) return true;
    Experiment experiment = experiment_now();
    experiment.toggles = std::move(choices);
    series_.progress().say("leave one out");
    const MatrixSeries::Outcome outcome =
        series_.run(experiment, folder_ / kLeaveOneOutFolder, share(recipe_.order.size()));
    if (was_stopped(outcome)) return false;
    if (!outcome.results.is_null()) {
      recipe_.leave_one_out = judge_leave_one_out(recipe_.steps, recipe_arms(outcome.results));
    }
    return true;
  }

  // Also a step that ran out of time: what it would keep is not known yet.
  static bool was_stopped(const MatrixSeries::Outcome& outcome) {
    return outcome.run.end == RunEnd::kInterrupted || outcome.run.end == RunEnd::kUnsteady ||
           outcome.run.end == RunEnd::kTimeLimit;
  }

  int stopped() {
    save();
    series_.progress().say(fmt::format(
        "steplens: stopped after {} of {} steps; continue with: steplens recipe --resume {}",
        recipe_.steps.size(), recipe_.order.size(), folder_.string()));
    return kExitIncomplete;
  }

  void save() { write_json_atomically(folder_ / kRecipeFileName, to_json(recipe_)); }

  void print() {
    if (!context_.write_report) return;
    const Printout report = context_.write_report(folder_);
    std::cout << (flags_.is_json ? report.json.dump(2) + "\n" : report.text);
  }

  const RecipeFlags& flags_;
  CliContext& context_;
  fs::path folder_;
  Recipe recipe_;
  MatrixSeries series_;
};

}  // namespace

void add_recipe_verb(CLI::App& app, CliContext& context, int& exit_code) {
  const auto flags = std::make_shared<RecipeFlags>();
  CLI::App* verb = app.add_subcommand(
      "recipe", "search a fast configuration: one toggle after the other, kept only if it wins");
  verb->footer(fmt::format(
      "Each step is a matrix over what was kept so far. What a kept toggle excludes (compile=aoti "
      "knows no fused operator)\nis tried behind the order, all of it in its place. At the end "
      "every "
      "kept toggle is undone alone.\nOrder: {}\n\nExample:\n"
      "  steplens recipe --model gpt2-124m --rounds 6 --out runs/recipe\n"
      "  steplens recipe --order 'attention,optimizer,graph=on' --memory-goal 40GiB --out runs/b\n"
      "  steplens recipe --resume runs/recipe\n\n"
      "Exit codes as those of matrix.",
      default_recipe_order()));
  add_work_flags(*verb, flags->experiment);
  verb->add_option("--order", flags->order, "toggles to try, in order, with levels as --toggles");
  verb->add_option("--memory-goal", flags->memory_goal,
                   "peak memory to reach, such as 40GiB: until then steps keep what needs less");
  verb->add_option("--rounds", flags->experiment.rounds, "rounds of each step (default 12)");
  verb->add_option("--seed", flags->experiment.seed, "of the blocks' order (default 1)");
  verb->add_option("--max-seconds", flags->experiment.max_seconds,
                   "time for all steps together; --resume goes on")
      ->check(CLI::PositiveNumber);
  verb->add_option("--equivalence", flags->experiment.equivalence,
                   "ratio within which arms count as equal (default 1.01)");
  CLI::Option* out = verb->add_option("--out", flags->out, "folder of the recipe");
  CLI::Option* resume =
      verb->add_option("--resume", flags->resume, "go on with the recipe in that folder")
          ->expected(0, 1);
  add_machine_flags(*verb, *flags);
  verb->add_flag("--json", flags->is_json, "print the path as JSON");
  verb->callback([flags, out, resume, &context, &exit_code] {
    flags->is_resume = resume->count() > 0;
    if (!flags->resume.empty() && out->count() > 0 && flags->resume != flags->out) {
      throw ConfigError("resume: --out names another folder than --resume");
    }
    exit_code = RecipeVerb(*flags, context).run();
  });
}

}  // namespace steplens
