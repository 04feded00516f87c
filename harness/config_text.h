#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/run_config.h"

namespace steplens {

/// A key's value as `--set key=value` takes it.
std::string value_text(const ConfigField& field, const RunConfig& config);

/// Keys and values in which `config` is another than `baseline`, in the order of `config_fields`;
/// without those that flags of their own set: --device, --model, --ranks and --data.
std::vector<std::pair<std::string, std::string>> settings_beside(const RunConfig& config,
                                                                 const RunConfig& baseline);

/// `word` as a POSIX shell takes it: in single quotes where it needs them.
std::string shell_word(const std::string& word);

/// The words of `steplens matrix` that make `config` its baseline: "--device cuda", "--model
/// gpt2-124m", "--ranks 2", and a "--set key=value" for each key in which it is another than the
/// model's own baseline (harness/models.h); of a model that this program does not know, than
/// `RunConfig`. Each is quoted for a shell.
std::vector<std::string> words_of_config(const RunConfig& config);

}  // namespace steplens
