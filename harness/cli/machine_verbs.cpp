#include "harness/cli/machine_verbs.h"

#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/cli/locations.h"
#include "harness/error.h"

namespace steplens {
namespace {

void print(const Printout& printout, bool is_json) {
  if (is_json) {
    std::cout << printout.json.dump(2) << '\n';
  } else {
    std::cout << printout.text;
  }
}

void add_doctor(CLI::App& app, CliContext& context) {
  struct Flags {
    std::string out = ".";
    bool is_json = false;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand(
      "doctor", "say what this machine has, what it lacks, and what disturbs measurements");
  verb->footer("Example:\n  steplens doctor\n  steplens doctor --json\n\nChanges nothing.");
  verb->add_option("--out", flags->out, "folder where bundles will go (default: here)");
  verb->add_flag("--json", flags->is_json, "print JSON");
  verb->callback([flags, &context] {
    print(context.run_doctor({.site_packages = find_site_packages(),
                              .worker = find_worker(),
                              .output_folder = flags->out}),
          flags->is_json);
  });
}

struct PrepareFlags {
  std::vector<std::string> inputs;
  std::vector<std::string> patterns;
  std::string output;
  std::string name;
  std::string tokenizer = "bytes";
  std::int64_t vocab_size = 50304;
  std::string python = "python3";
  std::string site_packages;
  bool is_json = false;
};

DataRequest request_of(const PrepareFlags& flags) {
  DataRequest request{.patterns = flags.patterns,
                      .output = flags.output,
                      .name = flags.name,
                      .tokenizer = flags.tokenizer,
                      .vocab_size = flags.vocab_size,
                      .python = flags.python,
                      .site_packages = flags.site_packages,
                      .scripts_folder = find_scripts_folder()};
  for (const std::string& input : flags.inputs) request.inputs.emplace_back(input);
  if (request.inputs.empty()) {
    if (!flags.patterns.empty()) throw ConfigError("pattern: needs --input");
    if (request.name.empty()) request.name = RunConfig{}.dataset;
    if (request.site_packages.empty()) request.site_packages = find_site_packages();
    if (request.site_packages.empty()) {
      throw ConfigError(
          "data prepare: no LibTorch was found, whose Python sources are the default corpus; name "
          "its folder with --site-packages, or other text with --input");
    }
  } else if (request.name.empty()) {
    throw ConfigError("data prepare: --input needs --name, the name of the corpus");
  }
  if (request.output.empty()) {
    request.output = default_data_path(request.name, flags.tokenizer, flags.vocab_size);
  }
  return request;
}

void add_data(CLI::App& app, CliContext& context) {
  CLI::App* data = app.add_subcommand("data", "token files of real text");
  data->footer("Example:\n  steplens data prepare");
  data->require_subcommand(1);
  const auto flags = std::make_shared<PrepareFlags>();
  CLI::App* verb = data->add_subcommand("prepare", "make a token file from text");
  verb->footer(
      "Example:\n"
      "  steplens data prepare                             the default corpus, as bytes\n"
      "  steplens data prepare --tokenizer bpe --vocab-size 50304\n"
      "  steplens data prepare --input books/ --pattern '*.txt' --name books --out books.bin");
  verb->add_option("--input", flags->inputs,
                   "file, or folder that is walked whole (repeatable; default: the Python sources "
                   "of LibTorch's wheel)")
      ->allow_extra_args(false);
  verb->add_option("--pattern", flags->patterns,
                   "only files of that name, such as '*.txt' (repeatable)")
      ->allow_extra_args(false);
  verb->add_option("--out", flags->output,
                   "the .bin to write (default: where `matrix` looks for it)");
  verb->add_option("--name", flags->name, "name of the corpus, for reports");
  verb->add_option("--tokenizer", flags->tokenizer, "bytes | bpe (default bytes)")
      ->check(CLI::IsMember({"bytes", "bpe"}));
  verb->add_option("--vocab-size", flags->vocab_size, "of the bpe tokenizer (default 50304)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--python", flags->python, "for bpe: a Python with the package tokenizers");
  verb->add_option("--site-packages", flags->site_packages, "folder that holds torch/");
  verb->add_flag("--json", flags->is_json, "print JSON");
  verb->callback(
      [flags, &context] { print(context.prepare_data(request_of(*flags)), flags->is_json); });
}

}  // namespace

void add_machine_verbs(CLI::App& app, CliContext& context) {
  add_doctor(app, context);
  add_data(app, context);
}

}  // namespace steplens
