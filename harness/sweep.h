#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/experiment.h"
#include "harness/run_config.h"

namespace steplens {

/// The same comparison at several values of one config key: how an effect depends on it.
///
/// A sweep is a folder: sweep.json and one bundle a value. Each bundle is a matrix like any other,
/// with its own baseline, pilots, rounds and proof, and `verify` knows nothing else; an effect is
/// never computed over two values.
struct Sweep {
  std::string key;                  // A config key: "sequence_length".
  std::vector<std::string> values;  // At least two, as --set would take them.
  /// global_batch follows, so that every value has as many positions a step as the first one.
  bool holds_positions = false;
  Experiment experiment;  // Without the key.
};

inline constexpr std::string_view kSweepFileName = "sweep.json";

/// Reads "seq_len=512,1024,2048". Short names of --sweep: seq_len, layers, width, batch.
/// ConfigError for an unknown key (with the nearest one), fewer than two values, a value twice, or
/// one that the key does not take.
Sweep parse_sweep(std::string_view text);

/// The matrix at one value. `baseline` is the config of `sweep.experiment` without the key.
/// ConfigError where positions cannot be held: the key is none of sequence_length and global_batch,
/// or the value does not divide.
Experiment experiment_at(const Sweep& sweep, const std::string& value, const RunConfig& baseline);

/// Folder of one value's bundle: "sequence_length-1024".
std::string point_folder(const Sweep& sweep, const std::string& value);

/// Holds no path of this machine: neither that of the data nor those of arms' programs.
nlohmann::json to_json(const Sweep& sweep);
/// ConfigError names `source` and the field.
Sweep sweep_from_json(const nlohmann::json& json, std::string_view source);

/// Is it the folder of a sweep?
bool is_sweep(const std::filesystem::path& folder);
Sweep read_sweep(const std::filesystem::path& folder);

}  // namespace steplens
