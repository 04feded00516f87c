#include "reports/provenance.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/format.h"
#include "reports/pairs.h"

namespace steplens {
namespace {

using nlohmann::json;
using Values = std::vector<std::pair<std::string, std::string>>;

// Everything in `object` that is one value; objects inside give "outer.inner".
void append_values(const json& object, const std::string& prefix, Values& values) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix.empty() ? key : fmt::format("{}.{}", prefix, key);
    if (value.is_object()) {
      append_values(value, path, values);
    } else if (!value.is_array() && !value.is_null()) {
      const bool is_known =
          std::ranges::any_of(values, [&](const auto& known) { return known.first == path; });
      if (!is_known) values.emplace_back(path, format_by_key(key, value));
    }
  }
}

// In an A/A there is no baseline, but all arms are one.
std::string baseline_name(const Manifest& manifest) {
  const auto it = std::ranges::find(manifest.arms, true, &Arm::is_baseline);
  if (it != manifest.arms.end()) return it->name;
  return manifest.arms.empty() ? std::string() : manifest.arms.front().name;
}

}  // namespace

Values provenance_of(const Bundle& bundle) {
  const Manifest& manifest = bundle.manifest;
  Values values = {{"Steplens", manifest.steplens_version},
                   {"git", manifest.git_sha + (manifest.is_dirty ? ", changed" : "")},
                   {"begun", manifest.created_utc}};
  append_values(manifest.environment, "", values);
  const std::vector<const BlockRecord*> blocks = usable_blocks(bundle, baseline_name(manifest));
  if (!blocks.empty()) append_values(blocks.front()->environment, "", values);
  append_values(manifest.data, "data", values);
  std::erase_if(values, [](const auto& value) { return value.second.empty(); });
  return values;
}

}  // namespace steplens
