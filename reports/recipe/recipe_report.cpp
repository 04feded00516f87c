#include "reports/recipe/recipe_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "harness/recipe_alternative.h"
#include "reports/format.h"
#include "reports/html/html_page.h"
#include "reports/markdown.h"
#include "reports/matrix_table.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

// "a=b + c=d": a line may break there.
std::string spaced(std::string_view changes) {
  std::string text;
  for (const char c : changes) text += c == '+' ? std::string(" + ") : std::string(1, c);
  return text;
}

std::string tried_text(const RecipeStepResults& step) {
  std::vector<std::string> words;
  for (const ArmResult& row : step.results->arms) {
    if (row.is_baseline) continue;
    const std::string what =
        step.step.changes.empty() ? row.level : spaced(alternative_text(step.step.changes));
    words.push_back(row.is_applicable ? fmt::format("{} {}", what, effect_text(row))
                                      : fmt::format("{} not applicable", what));
  }
  return fmt::format("{}", fmt::join(words, "; "));
}

std::string name_of(const RecipeStep& step) {
  return step.changes.empty() ? step.toggle : "without " + step.toggle;
}

std::string kept_text(const RecipeStep& step) {
  if (!step.changes.empty() && !step.kept_level.empty()) return "all of it";
  return step.kept_level.empty() ? fmt::format("no: stays {}", step.from_level) : step.kept_level;
}

std::string headline_of(const RecipeResults& results) {
  std::vector<std::string> kept;
  for (const RecipeChange& change : kept_changes(results.recipe.steps)) {
    kept.push_back(fmt::format("{}={}", change.toggle, change.level));
  }
  if (kept.empty()) return "No step wins: the start stays as it is";
  return fmt::format(
      "{} times the start's rate with {}",
      results.total_ratio ? format_significant(*results.total_ratio, 3) : std::string(kNoNumber),
      fmt::join(kept, ", "));
}

std::string start_text(const RecipeResults& results) {
  std::vector<std::string> words;
  words.reserve(results.recipe.experiment.settings.size());
  for (const auto& [key, value] : results.recipe.experiment.settings) {
    words.push_back(fmt::format("{}={}", key, value));
  }
  return fmt::format("Start: {}{}.", results.model.empty() ? "" : results.model + ", ",
                     fmt::join(words, ", "));
}

// By itself, or as one of several in the place of what excluded it?
bool won_alone(const RecipeResults& results, const LeaveOneOut& row) {
  return std::ranges::none_of(results.steps, [&](const RecipeStepResults& step) {
    return !step.step.kept_level.empty() &&
           std::ranges::count(step.step.changes, row.toggle, &RecipeChange::toggle) > 0;
  });
}

// What it means that undoing a kept level does not make the configuration SLOWER.
std::string not_needed_sentence(const RecipeResults& results, const LeaveOneOut& row) {
  const bool is_alone = won_alone(results, row);
  const std::string kept = fmt::format("{}={} {}", row.toggle, row.kept_level,
                                       is_alone ? "won when it was tried" : "was kept with others");
  const std::string change = row.effect_ratio ? format_change(*row.effect_ratio) : "";
  if (row.verdict == verdict_name(Verdict::kEquivalent)) {
    return fmt::format("{}, and undoing it now changes nothing: {}.", kept,
                       is_alone ? "the others made it needless" : "it is needless beside them");
  }
  if (row.verdict == verdict_name(Verdict::kFaster)) {
    return fmt::format(
        "{}, and is in the way now: undoing it is FASTER, {}. Start another "
        "recipe without it.",
        kept, change);
  }
  if (row.verdict == verdict_name(Verdict::kNoEffect)) {
    return fmt::format(
        "Nothing shows that undoing {}={} changed what ran{}: {}.", row.toggle, row.kept_level,
        change.empty() ? "" : fmt::format(", though it measured {}", change), row.reason);
  }
  return fmt::format("{}; whether it {} is not known: undoing it is {}{}{}.", kept,
                     is_alone ? "still helps" : "helps", row.verdict,
                     row.reason.empty() ? "" : ", ", row.reason);
}

std::vector<std::string> leave_one_out_sentences(const RecipeResults& results) {
  std::vector<std::string> sentences;
  for (const LeaveOneOut& row : results.recipe.leave_one_out) {
    if (row.verdict.empty()) {
      sentences.push_back(
          fmt::format("{}={} cannot be undone alone: {}.", row.toggle, row.kept_level, row.reason));
    } else if (!row.is_needed()) {
      sentences.push_back(not_needed_sentence(results, row));
    }
  }
  return sentences;
}

}  // namespace

const ArmResult* RecipeStepResults::kept() const {
  if (!results || step.kept_level.empty()) return nullptr;
  const auto it = std::ranges::find_if(results->arms, [&](const ArmResult& row) {
    if (!step.changes.empty()) return row.name == alternative_arm_name(step.toggle);
    return row.toggle == step.toggle && row.level == step.kept_level;
  });
  return it == results->arms.end() ? nullptr : &*it;
}

const ArmResult* RecipeStepResults::baseline() const {
  return results ? baseline_of(*results) : nullptr;
}

RecipeResults compute_recipe(const fs::path& folder) {
  RecipeResults results{.recipe = read_recipe(folder)};
  for (const RecipeStep& step : results.recipe.steps) {
    RecipeStepResults row{.step = step};
    if (!step.folder.empty()) {
      const Bundle bundle = open_bundle(folder / step.folder);
      results.gpu_name = bundle.manifest.gpu_name;
      results.model = bundle.manifest.baseline.model;
      row.results = compute_results(bundle);
    }
    results.steps.push_back(std::move(row));
  }
  if (fs::exists(folder / kLeaveOneOutFolder / "manifest.json")) {
    results.leave_one_out = compute_results(open_bundle(folder / kLeaveOneOutFolder));
  }
  for (const RecipeStepResults& step : results.steps) {
    if (!step.results) continue;
    if (!results.total_ratio) results.total_ratio = 1;
    const ArmResult* kept = step.kept();
    if (kept != nullptr && kept->effect_ratio) *results.total_ratio *= *kept->effect_ratio;
  }
  return results;
}

nlohmann::json to_json(const RecipeResults& results) {
  nlohmann::json json = to_json(results.recipe);
  json["total_ratio"] =
      results.total_ratio ? nlohmann::json(*results.total_ratio) : nlohmann::json(nullptr);
  return json;
}

Table recipe_table(const RecipeResults& results) {
  Table table{.columns = {{"step"},
                          {"kept"},
                          {"tokens/s after it", Align::kRight},
                          {"peak memory", Align::kRight},
                          {"tried, and what came of it"}}};
  for (const RecipeStepResults& step : results.steps) {
    if (!step.results) continue;
    const ArmResult* now = step.kept() != nullptr ? step.kept() : step.baseline();
    table.rows.push_back({name_of(step.step), kept_text(step.step),
                          now == nullptr ? std::string(kNoNumber)
                                         : format_or_absent(now->valid_tokens_per_s, format_rate),
                          now == nullptr || !now->peak_allocated_bytes
                              ? std::string(kNoNumber)
                              : format_bytes(static_cast<double>(*now->peak_allocated_bytes)),
                          fmt::format("{}: {}", tried_text(step), step.step.reason)});
  }
  return table;
}

std::vector<std::string> skipped_sentences(const RecipeResults& results) {
  struct Group {
    std::string reason;
    std::vector<std::string> names;
  };
  std::vector<Group> groups;
  for (const RecipeStepResults& step : results.steps) {
    if (step.results) continue;
    // "nothing to compare; not applicable: norm=fused: why not", as a plan refuses it.
    std::string name = name_of(step.step);
    std::string reason = step.step.reason;
    const std::string refused = fmt::format("not applicable: {}=", step.step.toggle);
    const std::size_t level = reason.find(refused);
    const std::size_t colon =
        reason.find(": ", level == std::string::npos ? 0 : level + refused.size());
    if (level != std::string::npos && colon != std::string::npos) {
      const std::size_t begin = level + refused.size() - step.step.toggle.size() - 1;
      name = reason.substr(begin, colon - begin);
      reason = reason.substr(colon + 2);
    }
    const auto group = std::ranges::find(groups, reason, &Group::reason);
    if (group == groups.end()) {
      groups.push_back({.reason = reason, .names = {name}});
    } else {
      group->names.push_back(name);
    }
  }
  std::vector<std::string> sentences;
  for (const Group& group : groups) {
    sentences.push_back(
        fmt::format("Not tried: {}: {}.", fmt::join(group.names, ", "), group.reason));
  }
  return sentences;
}

Table leave_one_out_table(const RecipeResults& results) {
  Table table{.columns = {{"without"}, {"back to"}, {"effect of undoing it"}, {"needed"}}};
  for (const LeaveOneOut& row : results.recipe.leave_one_out) {
    std::string effect(kNoNumber);
    if (results.leave_one_out) {
      const ArmResult* arm =
          find_arm(*results.leave_one_out, fmt::format("{}={}", row.toggle, row.from_level));
      if (arm != nullptr && arm->effect_ratio) {
        effect = fmt::format("{} {}", effect_text(*arm), row.verdict);
      }
    }
    table.rows.push_back({fmt::format("{}={}", row.toggle, row.kept_level), row.from_level, effect,
                          row.verdict.empty() ? "cannot be undone alone"
                          : row.is_needed()   ? "yes"
                                              : "not proven"});
  }
  return table;
}

ReportDocument recipe_document(const RecipeResults& results) {
  ReportDocument document{
      .title = results.recipe.experiment.title.value_or(
          fmt::format("Recipe on {}", results.gpu_name.empty() ? "the CPU" : results.gpu_name)),
      .headline = headline_of(results),
      .baseline = start_text(results),
      .doubts = "Each step is a bundle of its own; its report says what there is to doubt."};
  std::vector<Part> path;
  if (std::string svg = recipe_svg(results); !svg.empty()) {
    path.emplace_back(Image{.file_name = std::string(kRecipePlot),
                            .description = "Tokens/s along the path of the recipe",
                            .svg = std::move(svg)});
  }
  path.emplace_back(recipe_table(results));
  if (std::vector<std::string> skipped = skipped_sentences(results); !skipped.empty()) {
    path.emplace_back(BulletList{std::move(skipped)});
  }
  path.emplace_back(Paragraph{
      "Each step is tried on top of what was kept before it, in randomised rounds of its own, and "
      "kept only if its verdict is FASTER, or, while there is a memory goal to reach, if it needs "
      "less. The rates of two steps were not measured in the same rounds."});
  const bool has_alternative = std::ranges::any_of(
      results.recipe.steps, [](const RecipeStep& step) { return !step.changes.empty(); });
  if (has_alternative) {
    path.emplace_back(Paragraph{
        "What a kept toggle excludes cannot be tried on top of it. It is tried behind the others "
        "in its place, all of it in one arm; what each part is worth, undoing it at the end "
        "says."});
  }
  document.chapters.push_back({"path", "Path", std::move(path)});
  if (!results.recipe.leave_one_out.empty()) {
    std::vector<Part> undone = {leave_one_out_table(results)};
    if (std::vector<std::string> sentences = leave_one_out_sentences(results); !sentences.empty()) {
      undone.emplace_back(BulletList{std::move(sentences)});
    }
    document.chapters.push_back(
        {"leave_one_out", "What each is worth at the end", std::move(undone)});
  }
  return document;
}

RecipeResults write_recipe_report(const fs::path& folder) {
  RecipeResults results = compute_recipe(folder);
  if (const std::string svg = recipe_svg(results); !svg.empty()) {
    write_file_atomically(folder / kRecipePlot, svg);
  }
  const ReportDocument document = recipe_document(results);
  write_file_atomically(folder / kReportFileName, report_markdown(document));
  write_file_atomically(folder / kHtmlFileName, report_html(document));
  return results;
}

std::string recipe_text(const RecipeResults& results) {
  std::string text = headline_of(results) + ".\n\n" + to_text(recipe_table(results));
  for (const std::string& sentence : skipped_sentences(results)) {
    text += wrap(sentence, 2) + "\n";
  }
  if (!results.recipe.leave_one_out.empty()) {
    text += "\n" + to_text(leave_one_out_table(results));
  }
  for (const std::string& sentence : leave_one_out_sentences(results)) {
    text += wrap(sentence, 2) + "\n";
  }
  return text;
}

}  // namespace steplens
