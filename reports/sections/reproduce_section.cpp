#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/config_text.h"
#include "harness/plan_syntax.h"
#include "reports/section.h"

namespace steplens {
namespace {

// "attention=math|cudnn" of toggles in the order of their first arm.
class Choices {
 public:
  void add(std::string_view toggle, std::string_view level) {
    auto it = std::ranges::find(choices_, toggle, &Choice::toggle);
    if (it == choices_.end()) {
      choices_.push_back({.toggle = std::string(toggle)});
      it = choices_.end() - 1;
    }
    if (std::ranges::find(it->levels, level) == it->levels.end()) it->levels.emplace_back(level);
  }

  bool has(std::string_view toggle) const {
    return std::ranges::find(choices_, toggle, &Choice::toggle) != choices_.end();
  }

  std::size_t num_toggles() const { return choices_.size(); }

  std::string text() const {
    std::vector<std::string> parts;
    parts.reserve(choices_.size());
    for (const Choice& choice : choices_) {
      parts.push_back(fmt::format("{}={}", choice.toggle, fmt::join(choice.levels, "|")));
    }
    return fmt::format("{}", fmt::join(parts, ","));
  }

 private:
  struct Choice {
    std::string toggle;
    std::vector<std::string> levels;
  };
  std::vector<Choice> choices_;
};

// A cell's name is "first=level+second=level".
void add_cell(std::string_view name, Choices& grid) {
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('+'));
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos) grid.add(part.substr(0, equals), part.substr(equals + 1));
    name.remove_prefix(std::min(name.size(), part.size() + 1));
  }
}

// An arm with several keys set, as --arms takes it.
std::string arm_with_settings(const Arm& arm, const RunConfig& baseline) {
  ExternalArmChoice choice{.name = arm.name};
  for (const std::string& key : differing_fields(baseline, arm.config)) {
    choice.settings.emplace_back(key, value_text(*find_config_field(key), arm.config));
  }
  return text_of(choice);
}

std::vector<std::string> choices_of(const Manifest& manifest) {
  if (manifest.num_aa > 0) return {fmt::format("--aa {}", manifest.num_aa)};
  Choices grid;
  Choices toggles;
  std::vector<std::string> external;
  for (const Arm& arm : manifest.arms) {
    if (!arm.is_baseline && arm.name.find('+') != std::string::npos) add_cell(arm.name, grid);
  }
  for (const Arm& arm : manifest.arms) {
    if (!arm.command.empty()) {
      // The bundle keeps no paths of the machine that it was made on.
      external.push_back(arm.is_users_program
                             ? fmt::format("{}=/path/to/{}", arm.name, arm.command.front())
                             : arm.name);
    } else if (!arm.is_baseline && arm.toggle.empty() && !arm.is_single_variable) {
      external.push_back(arm_with_settings(arm, manifest.baseline));
    } else if (!arm.toggle.empty() && arm.name.find('+') == std::string::npos &&
               !grid.has(arm.toggle)) {
      toggles.add(arm.toggle, arm.level);
    }
  }
  std::vector<std::string> words;
  if (!toggles.text().empty()) words.push_back("--toggles " + shell_word(toggles.text()));
  if (!grid.text().empty()) {
    words.push_back((grid.num_toggles() > 2 ? "--pairs " : "--grid ") + shell_word(grid.text()));
  }
  if (!external.empty()) {
    words.push_back("--arms " + shell_word(fmt::format("{}", fmt::join(external, ","))));
  }
  return words;
}

std::string matrix_command(const Manifest& manifest) {
  std::vector<std::string> words = {"steplens matrix"};
  for (std::string& word : words_of_config(manifest.baseline)) words.push_back(std::move(word));
  for (std::string& word : choices_of(manifest)) words.push_back(std::move(word));
  words.push_back(fmt::format("--rounds {}", manifest.num_rounds_planned));
  words.push_back(fmt::format("--seed {}", manifest.seed));
  if (manifest.until_halfwidth_ratio) {
    words.push_back(fmt::format("--until-halfwidth {}", *manifest.until_halfwidth_ratio));
  }
  if (manifest.equivalence_ratio != Manifest{}.equivalence_ratio) {
    words.push_back(fmt::format("--equivalence {}", manifest.equivalence_ratio));
  }
  if (manifest.num_measured_steps > 0) {
    words.push_back(fmt::format("--warmup {} --steps {}", manifest.num_warmup_steps,
                                manifest.num_measured_steps));
  }
  return fmt::format("{}", fmt::join(words, " \\\n  "));
}

// Which sources and which data the command needs.
std::string what_it_needs(const Manifest& manifest) {
  std::string text =
      fmt::format("Run the same matrix again, with the sources of git {}{}", manifest.git_sha,
                  manifest.is_dirty ? " (and changes that it does not hold)" : "");
  if (manifest.data.is_object() && manifest.data.contains("sha256")) {
    text += fmt::format(" and the token file of SHA-256 {}", manifest.data.value("sha256", ""));
  }
  return text + ":";
}

}  // namespace

std::vector<Part> reproduce_parts(const ReportInput& input) {
  const Manifest& manifest = input.bundle.manifest;
  // The folder's name only: where it lies is nobody's business. "a/b/" names no file, hence the
  // second look.
  const std::filesystem::path folder = input.bundle.folder.lexically_normal();
  const std::filesystem::path name =
      folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  const std::string bundle = shell_word(name.empty() ? "BUNDLE" : name.string());
  return {Paragraph{"Recompute every number of results.json from the raw blocks, and check hashes, "
                    "orders, work and proof:"},
          CodeBlock{"steplens verify " + bundle}, Paragraph{what_it_needs(manifest)},
          CodeBlock{matrix_command(manifest)}};
}

}  // namespace steplens
