#include "workloads/catalog/package_info.h"

#include <fmt/format.h>

#include "harness/cache_folder.h"
#include "harness/error.h"
#include "harness/files.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kConfigKeys[] = {
    "device",    "num_layers", "d_model",      "num_heads", "num_kv_heads",
    "head_dim",  "ffn_width",  "vocab_size",   "precision", "sequence_length",
    "attention", "frozen",     "norm_epsilon", "rope_base",
};

fs::path with_extension(const fs::path& folder, const std::string& name,
                        std::string_view extension) {
  return folder / (name + std::string(extension));
}

// Which value of the package differs from what is wanted; empty if none does.
std::string difference(const json& info, std::string_view key, const json& wanted) {
  const auto it = info.find(key);
  const json found = it == info.end() ? json(nullptr) : *it;
  if (found == wanted) return "";
  return fmt::format("it was made for {}={}, this is {}", key,
                     found.is_string() ? found.get<std::string>() : found.dump(),
                     wanted.is_string() ? wanted.get<std::string>() : wanted.dump());
}

std::string difference(const json& info, const RunConfig& config, const PackagePlace& place) {
  const std::pair<std::string_view, json> wanted[] = {{"step_version", kPackageStepVersion},
                                                      {"torch_version", place.torch_version},
                                                      {"architecture", place.architecture}};
  for (const auto& [key, value] : wanted) {
    std::string text = difference(info, key, value);
    if (!text.empty()) return text;
  }
  const json own = package_config(config);
  const json theirs = info.value("config", json::object());
  for (const auto& [key, value] : own.items()) {
    std::string text = difference(theirs, key, value);
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace

fs::path packages_folder() { return cache_folder_of("STEPLENS_PACKAGES", "packages"); }

json package_config(const RunConfig& config) {
  const json all = to_json(config);
  json result = json::object();
  for (const std::string_view key : kConfigKeys) result[key] = all.at(key);
  result["micro_batch"] = micro_batch_size(config);
  return result;
}

std::string package_name(const RunConfig& config) {
  std::string text;
  const json values = package_config(config);
  for (const auto& [key, value] : values.items()) {  // In the order of the keys.
    text += fmt::format("{}={}\n", key, value.dump());
  }
  return fmt::format("L{}-d{}-B{}-T{}-{}-{}-{}-{}", config.shape.num_layers, config.shape.d_model,
                     micro_batch_size(config), config.sequence_length, name_of(config.precision),
                     name_of(config.attention), name_of(config.device),
                     sha256_hex(text).substr(0, 12));
}

std::string why_package_refused(const fs::path& folder, const RunConfig& config,
                                const PackagePlace& place) {
  const std::string name = package_name(config);
  const auto refuse = [&](std::string_view reason) {
    return fmt::format("compile=aoti: the package {} cannot run here: {}", name, reason);
  };
  const fs::path info_path = with_extension(folder, name, ".json");
  const fs::path path = with_extension(folder, name, ".pt2");
  if (!fs::exists(info_path) || !fs::exists(path)) {
    return refuse("it has not been exported (scripts/arms/export_step.py)");
  }
  try {
    const json info = read_json(info_path);
    const std::string text = difference(info, config, place);
    if (!text.empty()) return refuse(text + "; export it anew");
    if (info.value("package_sha256", "") != sha256_file_hex(path)) {
      return refuse("it is not the file that its JSON describes; export it anew");
    }
  } catch (const std::exception&) {
    return refuse("its JSON is damaged; export it anew");
  }
  return "";
}

json package_info(const fs::path& folder, const RunConfig& config) {
  return read_json(with_extension(folder, package_name(config), ".json"));
}

}  // namespace steplens
