#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace steplens {

/// One kind of link between GPUs, the nearest ones first: within a host, then between hosts.
struct LinkLevel {
  std::int64_t max_gpus = 0;  // It joins at most that many; 0: any number.
  double hop_ns = 0;          // From one GPU to the next.
  double bytes_per_s = 0;     // Bus bandwidth of a large all-reduce.
};

/// How long an all-reduce takes, for the model of scale. A JSON file has the members as keys.
struct Links {
  std::string name;
  std::string source;                 // Who says so; printed with every prediction.
  double base_ns = 0;                 // Of any all-reduce, however small.
  double compute_slowdown_ratio = 0;  // Computation lost while an all-reduce runs beside it.
  double memory_bytes_per_s = 0;      // Of the GPU: gradients are divided by the number of ranks.
  std::vector<LinkLevel> levels;
};

/// Presets, each with its sources.
std::span<const Links> all_links();

/// A preset, or the file of that path. ConfigError names the file, key and value that are wrong.
Links links_named(std::string_view name_or_path);
Links links_from_json(const nlohmann::json& json, std::string_view name);

/// Time of an all-reduce of `bytes` on each of `num_gpus`: the better of a ring over all of them
/// (2 (N - 1) hops, 2 (N - 1) / N of the bytes through the slowest level) and a tree over the hosts
/// with chains within (2 log2(hosts) far hops and 2 (gpus of a host - 1) near ones, 2 of the
/// bytes). 0 for one GPU. `num_gpus` > 0.
double all_reduce_ns(const Links& links, double bytes, std::int64_t num_gpus);

}  // namespace steplens
