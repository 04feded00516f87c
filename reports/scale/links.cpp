#include "reports/scale/links.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/run_config.h"

namespace steplens {
namespace {

using nlohmann::json;

// Latencies of a hop are those that NCCL's own cost model has for rings with the protocol Simple
// (src/graph/tuning.cc, hwLat: 3.4 us over NVLink, 14 us over a network).
constexpr double kNvlinkHopNs = 3400;
constexpr double kNetworkHopNs = 14'000;
// All-reduces of fp32 between two H200 of one host (NV18, NVLink multicast off) took 29 us at
// 1 MiB, 110 us at 25, 379 us at 100 and 2.14 ms at 650 MiB: 19 us + 2 hops + bytes / 323 GB/s
// fits them within 8 %.
constexpr double kH200BaseNs = 19'000;
constexpr double kH200BytesPerS = 323e9;
// NCCL moves data by blocks on SMs. That it takes 20 of 132 is assumed, not measured.
constexpr double kH200Slowdown = 20.0 / 132.0;
constexpr double kH200MemoryBytesPerS = 4.3e12;  // Measured device copy, read and written.

double number_in(const json& object, std::string_view key, std::string_view name,
                 bool may_be_zero) {
  const auto it = object.find(key);
  const bool is_number = it != object.end() && it->is_number();
  const double value = is_number ? it->get<double>() : -1;
  if (!is_number || !std::isfinite(value) || value < 0 || (value == 0 && !may_be_zero)) {
    throw ConfigError(fmt::format("{}: {}={}: takes a number {} 0", name, key,
                                  it == object.end() ? "nothing" : it->dump(),
                                  may_be_zero ? ">=" : ">"));
  }
  return value;
}

std::string text_in(const json& object, std::string_view key, std::string_view name) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_string() || it->get<std::string>().empty()) {
    throw ConfigError(fmt::format("{}: {}: takes a text that is not empty", name, key));
  }
  return it->get<std::string>();
}

// Whole hosts that `num_gpus` fill, and the GPUs of one.
struct Hosts {
  std::int64_t count = 1;
  std::int64_t gpus = 1;
};
Hosts hosts_of(const Links& links, std::int64_t num_gpus) {
  const std::int64_t size = links.levels.front().max_gpus;
  if (size == 0 || num_gpus <= size) return {.count = 1, .gpus = num_gpus};
  return {.count = (num_gpus + size - 1) / size, .gpus = size};
}

}  // namespace

std::span<const Links> all_links() {
  static const std::vector<Links> presets = {
      {.name = "h200-nvlink",
       .source = "two H200 of one host, NV18, NVLink multicast off: all-reduces of 1 to 650 MiB; "
                 "hops as in NCCL's cost model; 20 of 132 SMs assumed busy with an all-reduce",
       .base_ns = kH200BaseNs,
       .compute_slowdown_ratio = kH200Slowdown,
       .memory_bytes_per_s = kH200MemoryBytesPerS,
       .levels = {{.max_gpus = 0, .hop_ns = kNvlinkHopNs, .bytes_per_s = kH200BytesPerS}}},
      {.name = "h200-infiniband",
       .source = "8 H200 a host as in h200-nvlink; between hosts one 400 Gb/s port a GPU (DGX H200 "
                 "data sheet: 8 ConnectX-7), of which 90 % is assumed to be reached; hops as in "
                 "NCCL's cost model",
       .base_ns = kH200BaseNs,
       .compute_slowdown_ratio = kH200Slowdown,
       .memory_bytes_per_s = kH200MemoryBytesPerS,
       .levels = {{.max_gpus = 8, .hop_ns = kNvlinkHopNs, .bytes_per_s = kH200BytesPerS},
                  {.max_gpus = 0, .hop_ns = kNetworkHopNs, .bytes_per_s = 0.9 * 8 * 50e9}}},
  };
  return presets;
}

Links links_from_json(const json& source, std::string_view name) {
  if (!source.is_object()) throw ConfigError(fmt::format("{}: not a JSON object", name));
  Links links;
  links.name = text_in(source, "name", name);
  links.source = text_in(source, "source", name);
  links.base_ns = number_in(source, "base_ns", name, /*may_be_zero=*/true);
  links.compute_slowdown_ratio = number_in(source, "compute_slowdown_ratio", name, true);
  if (links.compute_slowdown_ratio > 1) {
    throw ConfigError(fmt::format("{}: compute_slowdown_ratio={}: takes a number from 0 to 1", name,
                                  links.compute_slowdown_ratio));
  }
  links.memory_bytes_per_s = number_in(source, "memory_bytes_per_s", name, false);
  const auto levels = source.find("levels");
  if (levels == source.end() || !levels->is_array() || levels->empty() || levels->size() > 2) {
    throw ConfigError(fmt::format("{}: levels: takes a list of one or two objects", name));
  }
  for (const json& level : *levels) {
    if (!level.is_object()) throw ConfigError(fmt::format("{}: levels: takes objects", name));
    const double max_gpus = number_in(level, "max_gpus", name, true);
    links.levels.push_back({.max_gpus = static_cast<std::int64_t>(max_gpus),
                            .hop_ns = number_in(level, "hop_ns", name, true),
                            .bytes_per_s = number_in(level, "bytes_per_s", name, false)});
  }
  if (links.levels.back().max_gpus != 0) {
    throw ConfigError(fmt::format("{}: max_gpus={}: takes 0 (any number) in the last level", name,
                                  links.levels.back().max_gpus));
  }
  if (links.levels.size() == 2 && links.levels.front().max_gpus < 2) {
    throw ConfigError(fmt::format("{}: max_gpus={}: takes at least 2 in the first of two levels",
                                  name, links.levels.front().max_gpus));
  }
  return links;
}

Links links_named(std::string_view name_or_path) {
  std::vector<std::string_view> names;
  names.reserve(all_links().size());
  for (const Links& links : all_links()) {
    if (links.name == name_or_path) return links;
    names.push_back(links.name);
  }
  if (name_or_path.ends_with(".json")) {
    return links_from_json(read_json(name_or_path), name_or_path);
  }
  const std::string near = nearest_name(name_or_path, names);
  throw ConfigError(fmt::format("links={}: takes {} or the path of a .json file{}", name_or_path,
                                fmt::join(names, ", "),
                                near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

double all_reduce_ns(const Links& links, double bytes, std::int64_t num_gpus) {
  SL_CHECK(num_gpus > 0 && !links.levels.empty());
  if (num_gpus == 1) return 0;
  const Hosts hosts = hosts_of(links, num_gpus);
  const LinkLevel& near = links.levels.front();
  const LinkLevel& far = links.levels.back();
  const double bytes_per_s =
      hosts.count == 1 ? near.bytes_per_s : std::min(near.bytes_per_s, far.bytes_per_s);
  const auto count = static_cast<double>(num_gpus);
  const auto num_hosts = static_cast<double>(hosts.count);
  const double far_hops = hosts.count == 1 ? 0 : num_hosts;
  const double ring_ns = 2 * ((count - 1 - std::max(0.0, far_hops - 1)) * near.hop_ns +
                              std::max(0.0, far_hops - 1) * far.hop_ns) +
                         2 * (count - 1) / count * bytes / bytes_per_s * 1e9;
  const double tree_ns = 2 * (static_cast<double>(hosts.gpus - 1) * near.hop_ns +
                              std::ceil(std::log2(num_hosts)) * far.hop_ns) +
                         2 * bytes / bytes_per_s * 1e9;
  return links.base_ns + (hosts.count == 1 ? ring_ns : std::min(ring_ns, tree_ns));
}

}  // namespace steplens
