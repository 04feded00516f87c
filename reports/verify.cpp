#include "reports/verify.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/statistics.h"
#include "harness/step_counts.h"
#include "reports/guards.h"
#include "reports/markdown.h"
#include "reports/pairs.h"
#include "reports/results.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Problems = std::vector<std::string>;

void append(Problems& problems, const Problems& more) {
  problems.insert(problems.end(), more.begin(), more.end());
}

// ---- Files. ----

void check_hashes(const fs::path& folder, const Manifest& manifest, Problems& problems) {
  for (const BlockEntry& entry : manifest.blocks) {
    try {
      const std::string sha256 = sha256_file_hex(block_path(folder, entry));
      if (sha256 == entry.sha256) continue;
      problems.push_back(
          fmt::format("blocks/{}/block.json was changed: its SHA-256 is {}, the "
                      "manifest says {}",
                      entry.folder, sha256, entry.sha256));
    } catch (const ConfigError& error) {
      problems.push_back(fmt::format("blocks/{}/block.json: {}", entry.folder, error.what()));
    }
  }
}

// A trace is named by its hash in the block that was made with it.
void check_traces(const fs::path& folder, const Bundle& bundle, Problems& problems) {
  for (std::size_t i = 0; i < bundle.blocks.size(); ++i) {
    const BlockRecord& block = bundle.blocks[i];
    if (!writes_trace(block.kind) || !block.evidence.is_object()) continue;
    const auto trace = block.evidence.find("trace");
    if (trace == block.evidence.end() || !trace->is_object()) continue;
    const std::string stored = trace->value("sha256", "");
    const std::string& name = bundle.manifest.blocks[i].folder;
    const fs::path path = folder / "blocks" / name / kTraceFileName;
    if (!fs::exists(path)) {
      problems.push_back(fmt::format("blocks/{}/{} is missing", name, kTraceFileName));
    } else if (const std::string found = sha256_file_hex(path); found != stored) {
      problems.push_back(
          fmt::format("blocks/{}/{} was changed: its SHA-256 is {}, its block.json says {}", name,
                      kTraceFileName, found, stored));
    }
  }
}

void check_listing(const fs::path& folder, const Manifest& manifest, Problems& problems) {
  std::set<std::string> folders;
  std::map<std::string, std::string> folder_of_hash;
  for (const BlockEntry& entry : manifest.blocks) {
    if (!folders.insert(entry.folder).second) {
      problems.push_back(fmt::format("block {} is listed twice", entry.folder));
      continue;
    }
    const auto [it, is_new] = folder_of_hash.emplace(entry.sha256, entry.folder);
    if (!is_new) {
      problems.push_back(
          fmt::format("blocks {} and {} are the same, byte by byte", it->second, entry.folder));
    }
  }
  std::error_code error;
  for (const fs::directory_entry& item : fs::directory_iterator(folder / "blocks", error)) {
    const std::string name = item.path().filename().string();
    // ".tmp-...": a block that was in flight when the run was killed.
    if (name.starts_with('.') || folders.contains(name)) continue;
    problems.push_back(fmt::format("blocks/{} is not listed in the manifest", name));
  }
}

// ---- Manifest against blocks. ----

void check_entries(const Bundle& bundle, Problems& problems) {
  std::set<std::pair<int, std::string>> seen;
  for (std::size_t i = 0; i < bundle.blocks.size(); ++i) {
    const BlockEntry& entry = bundle.manifest.blocks[i];
    const BlockRecord& block = bundle.blocks[i];
    const auto compare = [&](std::string_view field, auto in_manifest, auto in_block) {
      if (in_manifest == in_block) return;
      problems.push_back(fmt::format("block {}: {} is {} in the manifest and {} in block.json",
                                     entry.folder, field, in_manifest, in_block));
    };
    compare("arm", entry.arm, block.arm);
    compare("round_index", entry.round_index, block.round_index);
    compare("kind", name_of(entry.kind), name_of(block.kind));
    compare("status", name_of(entry.status), name_of(block.status));
    if (find_arm(bundle.manifest, entry.arm) == nullptr) {
      problems.push_back(fmt::format("block {} is of {}, which is no arm of the manifest",
                                     entry.folder, entry.arm));
    }
    if (entry.kind != BlockKind::kThroughput || entry.is_superseded) continue;
    if (!seen.emplace(entry.round_index, entry.arm).second) {
      problems.push_back(fmt::format("round {} has two blocks of {} in use; the second is {}",
                                     entry.round_index, entry.arm, entry.folder));
    }
  }
}

void check_step_counts(const Bundle& bundle, Problems& problems) {
  const Manifest& manifest = bundle.manifest;
  if (manifest.num_measured_steps == 0 || manifest.arms.empty()) return;
  const StepCounts of_baseline = {.num_warmup_steps = manifest.num_warmup_steps,
                                  .num_measured_steps = manifest.num_measured_steps};
  for (const Arm& arm : manifest.arms) {
    // What counts_of requires of a plan: the same rows in whole steps.
    const std::int64_t rows = effective_global_batch_size(manifest.baseline);
    const std::int64_t arm_rows = effective_global_batch_size(arm.config);
    if (arm_rows <= 0 || of_baseline.num_warmup_steps * rows % arm_rows != 0 ||
        of_baseline.num_measured_steps * rows % arm_rows != 0) {
      if (!arm.not_applicable_reason.empty()) continue;
      problems.push_back(fmt::format(
          "{}: its global batch of {} rows does not divide the rows of {} "
          "warm-up and {} measured steps of {}",
          arm.name, arm_rows, of_baseline.num_warmup_steps, of_baseline.num_measured_steps, rows));
      continue;
    }
    const StepCounts planned = counts_of(of_baseline, manifest.baseline, arm.config);
    for (const BlockRecord* block : usable_blocks(bundle, arm.name)) {
      const StepCounts counts = {
          .num_warmup_steps = static_cast<std::int64_t>(block->warmup.size()),
          .num_measured_steps = static_cast<std::int64_t>(block->steps.size())};
      if (counts == planned) continue;
      problems.push_back(fmt::format(
          "{}, round {}: {} warm-up and {} measured steps, planned were {} and {}", arm.name,
          block->round_index, counts.num_warmup_steps, counts.num_measured_steps,
          planned.num_warmup_steps, planned.num_measured_steps));
    }
  }
}

// ---- Order of the rounds. ----

// Names of the arms that could run in this round: all that are applicable, without those that have
// failed and run neither in this round nor later.
std::vector<std::string> live_arms(const Manifest& manifest, std::size_t round_position) {
  std::vector<std::string> names;
  for (const Arm& arm : manifest.arms) {
    if (!arm.not_applicable_reason.empty()) continue;
    const bool runs_on =
        std::any_of(manifest.rounds.begin() + static_cast<std::ptrdiff_t>(round_position),
                    manifest.rounds.end(), [&](const RoundRecord& round) {
                      return std::ranges::find(round.order, arm.name) != round.order.end();
                    });
    const bool has_failed =
        manifest.failed_arms.is_object() && manifest.failed_arms.contains(arm.name);
    if (runs_on || !has_failed) names.push_back(arm.name);
  }
  return names;
}

void check_order(const Manifest& manifest, std::size_t position, Problems& problems) {
  const RoundRecord& round = manifest.rounds[position];
  if (round.index < 0) {
    problems.push_back(fmt::format("round {}: its index is negative", round.index));
    return;
  }
  const std::vector<std::string> live = live_arms(manifest, position);
  std::vector<std::string> drawn;
  for (const int i : draw_round_order(manifest.seed, round.index, static_cast<int>(live.size()))) {
    drawn.push_back(live[static_cast<std::size_t>(i)]);
  }
  // A round that was cut short has run the first part of its order.
  const bool may_be_short = !is_usable(round);
  const bool has_drawn_order =
      round.order == drawn || (may_be_short && round.order.size() < drawn.size() &&
                               std::equal(round.order.begin(), round.order.end(), drawn.begin()));
  if (has_drawn_order) return;
  std::vector<std::string> sorted_order = round.order;
  std::vector<std::string> sorted_live = live;
  std::ranges::sort(sorted_order);
  std::ranges::sort(sorted_live);
  const bool is_permutation = sorted_order == sorted_live;
  problems.push_back(fmt::format("round {}: its order ({}) is not {} ({})", round.index,
                                 fmt::join(round.order, ", "),
                                 is_permutation ? fmt::format("what seed {} draws", manifest.seed)
                                                : std::string("a permutation of the live arms"),
                                 fmt::join(is_permutation ? drawn : live, ", ")));
}

void check_start_times(const Manifest& manifest, const RoundRecord& round, Problems& problems) {
  std::map<std::string, double> start_of;
  for (const BlockEntry& entry : manifest.blocks) {
    if (entry.kind == BlockKind::kThroughput && entry.round_index == round.index &&
        !entry.is_superseded) {
      start_of.emplace(entry.arm, entry.start_s);
    }
  }
  std::string previous;
  for (const std::string& arm : round.order) {
    const auto it = start_of.find(arm);
    if (it == start_of.end()) {
      if (is_usable(round) && !manifest.failed_arms.contains(arm)) {
        problems.push_back(
            fmt::format("round {} counts as complete, but has no block of {}", round.index, arm));
      }
      continue;
    }
    if (!previous.empty() && it->second < start_of.at(previous)) {
      problems.push_back(
          fmt::format("round {}: {} began at {} s, before {} at {} s, against the "
                      "round's order",
                      round.index, arm, it->second, previous, start_of.at(previous)));
    }
    previous = arm;
  }
}

void check_rounds(const Manifest& manifest, Problems& problems) {
  std::set<int> seen;
  for (std::size_t i = 0; i < manifest.rounds.size(); ++i) {
    const RoundRecord& round = manifest.rounds[i];
    if (!seen.insert(round.index).second) {
      problems.push_back(fmt::format("round {} is listed twice", round.index));
    }
    check_order(manifest, i, problems);
    check_start_times(manifest, round, problems);
  }
}

// ---- Results. ----

// Free text: its wording may change from version to version, and no number hides in it.
bool is_free_text(std::string_view key) {
  return key == "reason" || key.ends_with("_reason") || key == "labels" || key == "warnings" ||
         key == "guard_failures" || key == "peak_source";
}

// Fields of an arm that every version of results.json has (DESIGN section 4).
constexpr std::array<std::string_view, 21> kFixedArmFields = {"name",
                                                              "toggle",
                                                              "level",
                                                              "is_baseline",
                                                              "reference",
                                                              "is_single_variable",
                                                              "contract",
                                                              "verdict",
                                                              "proof",
                                                              "effect_ratio",
                                                              "effect_low_ratio",
                                                              "effect_high_ratio",
                                                              "p_value",
                                                              "p_adjusted",
                                                              "num_rounds",
                                                              "positions_per_s",
                                                              "valid_tokens_per_s",
                                                              "step_wall_ns",
                                                              "mfu_causal_ratio",
                                                              "peak_allocated_bytes",
                                                              "reason"};

bool are_equal_numbers(const json& a, const json& b, double tolerance_ratio) {
  const auto x = a.get<double>();
  const auto y = b.get<double>();
  return x == y || std::abs(x - y) <= tolerance_ratio * std::max(std::abs(x), std::abs(y));
}

void compare_values(const json& stored, const json& expected, const std::string& path,
                    double tolerance_ratio, Problems& found) {
  if (stored.is_object() && expected.is_object()) {
    for (const auto& [key, value] : stored.items()) {
      if (is_free_text(key)) continue;
      const std::string child = path.empty() ? key : fmt::format("{}.{}", path, key);
      const auto it = expected.find(key);
      if (it == expected.end()) {
        found.push_back(fmt::format("{}: stored {}, but nothing computes it", child, value.dump()));
      } else {
        compare_values(value, *it, child, tolerance_ratio, found);
      }
    }
  } else if (stored.is_array() && expected.is_array()) {
    if (stored.size() != expected.size()) {
      found.push_back(fmt::format("{}: stored {} entries, recomputed {}", path, stored.size(),
                                  expected.size()));
      return;
    }
    for (std::size_t i = 0; i < stored.size(); ++i) {
      compare_values(stored[i], expected[i], fmt::format("{}[{}]", path, i), tolerance_ratio,
                     found);
    }
  } else if (stored.is_number() && expected.is_number()) {
    if (!are_equal_numbers(stored, expected, tolerance_ratio)) {
      found.push_back(
          fmt::format("{}: stored {}, recomputed {}", path, stored.dump(), expected.dump()));
    }
  } else if (stored != expected) {
    found.push_back(
        fmt::format("{}: stored {}, recomputed {}", path, stored.dump(), expected.dump()));
  }
}

void check_fixed_fields(const json& stored, Problems& found) {
  for (const std::string_view key : {"schema_version", "arms"}) {
    if (!stored.is_object() || !stored.contains(key)) {
      found.push_back(fmt::format("{}: missing", key));
    }
  }
  if (!found.empty() || !stored.at("arms").is_array()) return;
  const json& arms = stored.at("arms");
  for (std::size_t i = 0; i < arms.size(); ++i) {
    for (const std::string_view key : kFixedArmFields) {
      if (!arms[i].contains(key)) found.push_back(fmt::format("arms[{}].{}: missing", i, key));
    }
  }
}

void check_results(const Bundle& bundle, const Results& results, double tolerance_ratio,
                   Problems& problems) {
  const fs::path path = bundle.folder / kResultsFileName;
  if (!fs::exists(path)) {
    problems.emplace_back("results.json is missing; `steplens report` writes it");
    return;
  }
  try {
    for (const std::string& difference :
         differences(read_json(path), to_json(results), tolerance_ratio)) {
      problems.push_back("results.json: " + difference);
    }
  } catch (const ConfigError& error) {
    problems.emplace_back(error.what());
  }
}

// What the manifest's plan or the stored row says of an arm, against what the blocks say.
void check_all_clocks(const Bundle& bundle, Problems& problems) {
  for (const Arm& arm : bundle.manifest.arms) {
    Problems of_arm;
    for (const BlockRecord* block : usable_blocks(bundle, arm.name)) {
      if (const auto gap = check_clocks(*block)) of_arm.push_back(*gap);
    }
    if (of_arm.empty()) continue;
    problems.push_back(of_arm.size() == 1 ? of_arm.front()
                                          : fmt::format("{} (and in {} more blocks)",
                                                        of_arm.front(), of_arm.size() - 1));
  }
}

void check_claims(const Bundle& bundle, Problems& problems) {
  for (const Arm& arm : bundle.manifest.arms) {
    const std::vector<BlockPair> pairs = block_pairs(bundle, arm);
    append(problems, check_work(arm, pairs).failures);
    if (arm.reference.empty() || !arm.not_applicable_reason.empty()) continue;
    const VariableCheck variables = check_variables(bundle, arm, pairs);
    if (!arm.is_single_variable || variables.is_single_variable) continue;
    problems.push_back(fmt::format("{} claims to be single-variable and is not; it differs in: {}",
                                   arm.name, fmt::join(variables.differing_keys, ", ")));
    append(problems, variables.failures);
  }
}

// ---- Git. ----

struct GitAnswer {
  bool has_run = false;
  int exit_code = 0;
};

GitAnswer ask_git(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"git"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return {};
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, "git", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return {};
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return {};
  }
  return {.has_run = WIFEXITED(status), .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0};
}

bool is_published(const fs::path& folder) {
  const std::string text = fs::weakly_canonical(folder).generic_string();
  return text.find("/reports/published/") != std::string::npos;
}

void check_git(const fs::path& folder, const Manifest& manifest, Problems& problems) {
  if (!is_published(folder)) return;
  if (ask_git({"-C", folder.string(), "rev-parse", "--is-inside-work-tree"}).exit_code != 0) return;
  if (manifest.is_dirty) {
    problems.push_back(
        fmt::format("is_dirty is true: it was made from sources that git {} does not "
                    "hold",
                    manifest.git_sha));
  }
  const bool is_sha = manifest.git_sha.size() == 40 &&
                      manifest.git_sha.find_first_not_of("0123456789abcdef") == std::string::npos;
  const GitAnswer answer = is_sha ? ask_git({"-C", folder.string(), "merge-base", "--is-ancestor",
                                             manifest.git_sha, "HEAD"})
                                  : GitAnswer{.has_run = true, .exit_code = 1};
  if (!answer.has_run || answer.exit_code == 0) return;
  problems.push_back(fmt::format("git_sha {} is no ancestor of HEAD (or this checkout is shallow)",
                                 manifest.git_sha));
}

}  // namespace

std::vector<std::string> value_differences(const json& stored, const json& expected,
                                           double tolerance_ratio) {
  Problems found;
  compare_values(stored, expected, "", tolerance_ratio, found);
  return found;
}

std::vector<std::string> differences(const json& stored, const json& expected,
                                     double tolerance_ratio) {
  Problems found;
  check_fixed_fields(stored, found);
  const Problems of_values = value_differences(stored, expected, tolerance_ratio);
  found.insert(found.end(), of_values.begin(), of_values.end());
  return found;
}

std::vector<std::string> verify(const fs::path& folder, const VerifyOptions& options) {
  const fs::path manifest_path = folder / "manifest.json";
  if (!fs::exists(manifest_path)) {
    throw ConfigError(fmt::format("{}: not a bundle: it has no manifest.json", folder.string()));
  }
  Problems problems;
  Bundle bundle;
  try {
    const Manifest manifest = manifest_from_json(read_json(manifest_path), "manifest.json");
    check_hashes(folder, manifest, problems);
    check_listing(folder, manifest, problems);
    bundle = open_bundle(folder);
  } catch (const ConfigError& error) {
    // One damaged file explains itself; what is built upon it cannot be checked.
    problems.emplace_back(error.what());
    return problems;
  }
  check_traces(folder, bundle, problems);
  check_entries(bundle, problems);
  check_rounds(bundle.manifest, problems);
  check_step_counts(bundle, problems);
  check_all_clocks(bundle, problems);
  check_claims(bundle, problems);
  check_results(bundle, compute_results(bundle), options.tolerance_ratio, problems);
  if (options.checks_git) check_git(folder, bundle.manifest, problems);
  return problems;
}

}  // namespace steplens
