#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace steplens {

/// One toggle that the user named, with the levels to try.
struct ToggleChoice {
  std::string toggle;
  std::vector<std::string> levels;  // Empty: all others than the baseline's.

  bool operator==(const ToggleChoice&) const = default;
};

/// One arm that is no toggle of the baseline: another program, or this one with several keys set.
struct ExternalArmChoice {
  std::string name;                 // "torch-eager"; a known arm if path and settings are empty.
  std::filesystem::path path = {};  // Of the user's own executable.
  std::vector<std::pair<std::string, std::string>> settings = {};  // Keys and values.

  bool operator==(const ExternalArmChoice&) const = default;
};

/// Reads "attention=math|cudnn,graph". The same toggle twice gives one choice with the levels of
/// both. ConfigError for empty parts, and for "attention=math+graph=on": two variables in one arm
/// prove nothing about either, so the message points to --grid.
std::vector<ToggleChoice> parse_toggle_choices(std::string_view text);

/// Reads "baseline,torch-eager,mine=/path/to/executable,best:norm=fused+graph=on". The word
/// "baseline" is allowed and dropped: every matrix has it. ConfigError for an empty or unusable
/// name, a name given twice, or settings that are not key=value+key=value.
std::vector<ExternalArmChoice> parse_external_arms(std::string_view text);

/// The same, as text.
std::string text_of(const ExternalArmChoice& arm);

/// Reads "key=value" of --set. ConfigError without "=" or without a key.
std::pair<std::string, std::string> parse_setting(std::string_view text);

/// Reads "0.002" or "0.2%", both 0.002. `flag` is named by the ConfigError for anything else.
double parse_ratio(std::string_view flag, std::string_view text);

/// What a message says of arms that change two things at once.
std::string two_variables_message(std::string_view arm);

}  // namespace steplens
