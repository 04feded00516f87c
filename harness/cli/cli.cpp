#include <algorithm>
#include <iostream>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <signal.h>

#include "harness/build_info.h"
#include "harness/cli/context.h"
#include "harness/cli/list_verb.h"
#include "harness/cli/locations.h"
#include "harness/cli/machine_verbs.h"
#include "harness/cli/matrix_verb.h"
#include "harness/cli/plan_verb.h"
#include "harness/cli/recipe_verb.h"
#include "harness/cli/reproduce_verb.h"
#include "harness/cli/run_verb.h"
#include "harness/cli/trace_verb.h"
#include "harness/error.h"
#include "harness/run_config.h"

namespace steplens {
namespace {

std::string version_text() {
  const BuildInfo& build = build_info();
  return fmt::format("steplens {} (git {}{}, {}, {})", build.version, build.git_sha,
                     build.is_dirty ? " with changes" : "", build.compiler, build.build_type);
}

// Errors are one line, whatever they hold.
int fail(std::string message, int exit_code) {
  std::ranges::replace(message, '\n', ' ');
  std::cerr << "steplens: " << message << '\n';
  return exit_code;
}

// A verb that does not exist, with the nearest one that does; empty if the first word is a verb.
std::string unknown_verb(int argc, const char* const* argv, const CLI::App& app) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  if (std::ranges::find(names, argv[1]) != names.end()) return "";
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string near = nearest_name(argv[1], views);
  return fmt::format("{}: unknown verb{}; `steplens --help` shows all", argv[1],
                     near.empty() ? "" : fmt::format(", did you mean {}?", near));
}

}  // namespace

int run_cli(int argc, const char* const* argv, CliContext& context) {
  // A file that grows too large is an error like a full disk, not a reason to die.
  ::signal(SIGXFSZ, SIG_IGN);
  CLI::App app("Steplens: what does this one switch do to my training throughput, and why?",
               "steplens");
  app.set_version_flag("--version", version_text());
  app.footer(
      "Example:\n"
      "  steplens doctor\n"
      "  steplens matrix --toggles 'attention=math,optimizer' --out runs/first\n"
      "\n"
      "`steplens VERB --help` explains each. Exit codes: 0 ok; 1 regression or failed\n"
      "verification; 2 your mistake; 3 the device failed; 4 incomplete, resumable; 5 data lost in "
      "a\n"
      "trace.");
  app.require_subcommand(1);
  if (context.vocabulary.scripts_folder.empty()) {
    context.vocabulary.scripts_folder = find_scripts_folder() / "arms";
  }
  int exit_code = kExitOk;
  add_matrix_verb(app, context, exit_code);
  add_run_verb(app, context, exit_code);
  add_reproduce_verb(app, context, exit_code);
  add_trace_verb(app, context, exit_code);
  add_recipe_verb(app, context, exit_code);
  add_plan_verb(app, context, exit_code);
  add_list_verb(app, context);
  add_machine_verbs(app, context);
  if (context.add_report_verbs) context.add_report_verbs(app, exit_code);
  try {
    const std::string unknown = unknown_verb(argc, argv, app);
    if (!unknown.empty()) return fail(unknown, kExitUser);
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version.
    return fail(argc < 2 ? "name a verb; `steplens --help` shows all" : error.what(), kExitUser);
  } catch (const ConfigError& error) {
    return fail(error.what(), kExitUser);
  } catch (const DeviceError& error) {
    return fail(error.what(), kExitDevice);
  } catch (const std::exception& error) {
    return fail(fmt::format("internal error: {}", error.what()), kExitDevice);
  }
}

}  // namespace steplens
