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

}  // namespace steplens
