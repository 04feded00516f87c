#include "reports/memory/memory_account.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "reports/breakdown/modules.h"
#include "reports/format.h"

namespace steplens {
namespace {

constexpr std::size_t kNumLargest = 10;
constexpr std::size_t kNumModulesInJson = 12;

// Plays the allocations of one device, one after the other.
class Replay {
 public:
  explicit Replay(std::uint8_t device) : device_(device) {}

  // Returns whether the row changed the account.
  bool play(const Alloc& row) {
    if (row.device != device_) return false;
    if (row.action != AllocAction::kAlloc && row.action != AllocAction::kFree) return false;
    if (row.bytes < 0) {
      ++num_invalid_rows_;
      return false;
    }
    const auto it = live_.find(row.address);
    if (row.action == AllocAction::kFree) {
      ++num_frees_;
      if (it == live_.end()) {
        ++num_unmatched_frees_;
        return false;
      }
      remove(*it->second);
      live_.erase(it);
      return true;
    }
    ++num_allocations_;
    if (it != live_.end()) {
      ++num_reused_addresses_;
      remove(*it->second);
    }
    live_[row.address] = &row;
    by_owner_[static_cast<std::size_t>(row.owner)] += row.bytes;
    allocated_bytes_ += row.bytes;
    return true;
  }

  std::int64_t allocated_bytes() const { return allocated_bytes_; }
  const OwnerBytes& by_owner() const { return by_owner_; }

  // `moment`: the row that was played last.
  MemoryAccount account(const Alloc& moment, const std::vector<std::string>& paths) const {
    const auto module_of = [&](const Alloc& row) {
      return row.range < paths.size() ? paths[row.range] : std::string();
    };
    MemoryAccount account{.time_ns = moment.time_ns,
                          .step_index = moment.step_index,
                          .phase = moment.phase,
                          .module = module_of(moment),
                          .by_owner = by_owner_};
    std::vector<const Alloc*> rows;
    std::map<std::string, OwnerBytes> by_module;
    rows.reserve(live_.size());
    for (const auto& [address, row] : live_) {
      rows.push_back(row);
      std::string module = module_of(*row);
      if (module.empty()) module = label_of(row->owner);
      by_module[std::move(module)][static_cast<std::size_t>(row->owner)] += row->bytes;
    }
    for (auto& [module, bytes] : by_module) account.modules.push_back({module, bytes});
    std::ranges::stable_sort(account.modules, std::greater(),
                             [](const ModuleMemory& module) { return sum_of(module.by_owner); });
    std::ranges::sort(rows, {}, [](const Alloc* row) {
      return std::tuple(-row->bytes, row->time_ns, row->address);
    });
    rows.resize(std::min(rows.size(), kNumLargest));
    for (const Alloc* row : rows) {
      account.largest.push_back({.bytes = row->bytes,
                                 .owner = row->owner,
                                 .phase = row->phase,
                                 .module = module_of(*row)});
    }
    return account;
  }

  void count_into(MemoryUse& use) const {
    use.num_allocations = num_allocations_;
    use.num_frees = num_frees_;
    use.num_unmatched_frees = num_unmatched_frees_;
    use.num_reused_addresses = num_reused_addresses_;
    use.num_invalid_rows = num_invalid_rows_;
  }

 private:
  void remove(const Alloc& row) {
    by_owner_[static_cast<std::size_t>(row.owner)] -= row.bytes;
    allocated_bytes_ -= row.bytes;
  }

  std::uint8_t device_;
  std::unordered_map<std::uint64_t, const Alloc*> live_;  // By address.
  OwnerBytes by_owner_ = {};
  std::int64_t allocated_bytes_ = 0;
  std::int64_t num_allocations_ = 0, num_frees_ = 0, num_unmatched_frees_ = 0,
               num_reused_addresses_ = 0, num_invalid_rows_ = 0;
};

std::vector<CounterSample> samples_of(const Trace& trace, std::string_view name) {
  std::vector<CounterSample> samples;
  for (const CounterSample& sample : trace.counter_samples) {
    if (sample.track < trace.counter_tracks.size() &&
        trace.text(trace.counter_tracks[sample.track].name) == name) {
      samples.push_back(sample);
    }
  }
  return samples;
}

// The sample in force at a moment: the last one that is not later, or the first.
std::optional<std::int64_t> value_at(const std::vector<CounterSample>& samples,
                                     std::int64_t time_ns) {
  if (samples.empty()) return std::nullopt;
  auto it = std::ranges::upper_bound(samples, time_ns, {}, &CounterSample::time_ns);
  if (it != samples.begin()) --it;
  return static_cast<std::int64_t>(it->value);
}

void add_driver(const Trace& trace, const std::vector<CounterSample>& reserved, MemoryUse& use) {
  for (const CounterSample& sample : samples_of(trace, "driver_used")) {
    const auto bytes = static_cast<std::int64_t>(sample.value);
    if (use.driver_used_peak_bytes && *use.driver_used_peak_bytes >= bytes) continue;
    use.driver_used_peak_bytes = bytes;
    if (const auto of_cache = value_at(reserved, sample.time_ns)) {
      use.unaccounted_bytes = bytes - *of_cache;
    }
  }
}

nlohmann::json named(const OwnerBytes& bytes) {
  nlohmann::json object = nlohmann::json::object();
  for (std::size_t i = 0; i < kNumMemoryOwners; ++i) {
    object[std::string(name_of(static_cast<MemoryOwner>(i)))] = bytes[i];
  }
  return object;
}

nlohmann::json json_of(const std::optional<std::int64_t>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

nlohmann::json json_of(const MemoryAccount& account) {
  nlohmann::json modules = nlohmann::json::array();
  for (const ModuleMemory& module : account.modules) {
    if (modules.size() == kNumModulesInJson) break;
    modules.push_back({{"module", module.module}, {"bytes", sum_of(module.by_owner)}});
  }
  nlohmann::json largest = nlohmann::json::array();
  for (const LiveAllocation& live : account.largest) {
    largest.push_back({{"bytes", live.bytes},
                       {"owner", name_of(live.owner)},
                       {"phase", name_of(live.phase)},
                       {"module", live.module}});
  }
  return {{"allocated_bytes", account.allocated_bytes()},
          {"by_owner_bytes", named(account.by_owner)},
          {"top_modules", modules},
          {"largest_allocations", largest},
          {"step_index", account.step_index},
          {"phase", name_of(account.phase)},
          {"module", account.module},
          {"reserved_bytes", json_of(account.reserved_bytes)},
          {"cache_slack_bytes", json_of(account.cache_slack_bytes())}};
}

}  // namespace

std::int64_t sum_of(const OwnerBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

std::optional<std::int64_t> MemoryAccount::cache_slack_bytes() const {
  if (!reserved_bytes) return std::nullopt;
  return *reserved_bytes - allocated_bytes();
}

MemoryUse compute_memory_use(const Trace& trace, std::uint8_t device) {
  MemoryUse use;
  use.num_steps = static_cast<std::int64_t>(trace.steps.size());
  // Where the moments are; only their accounts need the list of what was live.
  std::size_t peak_row = trace.allocs.size();
  std::size_t oom_row = trace.allocs.size();
  std::int64_t peak_bytes = -1;
  Replay first(device);
  for (std::size_t i = 0; i < trace.allocs.size(); ++i) {
    const Alloc& row = trace.allocs[i];
    if (row.action == AllocAction::kOutOfMemory && row.device == device) oom_row = i;
    if (first.play(row) && first.allocated_bytes() > peak_bytes) {
      peak_bytes = first.allocated_bytes();
      peak_row = i;
    }
  }
  first.count_into(use);

  const std::vector<std::string> paths = module_paths(trace);
  const std::vector<CounterSample> reserved = samples_of(trace, "reserved");
  Replay second(device);
  for (std::size_t i = 0; i < trace.allocs.size(); ++i) {
    const Alloc& row = trace.allocs[i];
    second.play(row);
    if (i != peak_row && i != oom_row) continue;
    MemoryAccount account = second.account(row, paths);
    account.reserved_bytes = value_at(reserved, row.time_ns);
    if (i == peak_row) {
      use.peak = std::move(account);
    } else {
      use.out_of_memory = {.wanted_bytes = row.bytes, .account = std::move(account)};
    }
  }
  add_driver(trace, reserved, use);
  use.has_lost_data = has_lost_data(trace.quality);
  for (const char* name : {"unmatched_frees", "unseen_frees", "unrounded", "account_error_bytes"}) {
    const auto it = trace.quality.find(name);
    use.has_lost_data |= it != trace.quality.end() && it->second != 0;
  }
  return use;
}

std::vector<MemoryPoint> memory_timeline(const Trace& trace, std::optional<std::int32_t> step_index,
                                         std::uint8_t device) {
  std::vector<MemoryPoint> points;
  Replay replay(device);
  MemoryPoint before;
  for (const Alloc& row : trace.allocs) {
    if (!replay.play(row)) continue;
    const MemoryPoint point{
        .time_ns = row.time_ns, .phase = row.phase, .by_owner = replay.by_owner()};
    if (!step_index) {
      points.push_back(point);
    } else if (row.step_index == *step_index && *step_index >= 0) {
      if (points.empty()) points.push_back(before);
      points.push_back(point);
    } else if (points.empty()) {
      before = point;
    }
  }
  return points;
}

std::string owners_text(const OwnerBytes& bytes, std::size_t max_owners) {
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < kNumMemoryOwners; ++i) {
    if (bytes[i] > 0) order.emplace_back(-bytes[i], i);
  }
  std::ranges::sort(order);
  order.resize(std::min(order.size(), max_owners));
  std::vector<std::string> words;
  words.reserve(order.size());
  for (const auto& [negative_bytes, i] : order) {
    words.push_back(fmt::format("{} {}", label_of(static_cast<MemoryOwner>(i)),
                                format_bytes(static_cast<double>(-negative_bytes))));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string label_of(MemoryOwner owner) {
  std::string label(name_of(owner));
  std::ranges::replace(label, '_', ' ');
  return label;
}

nlohmann::json to_json(const MemoryUse& use) {
  nlohmann::json object = json_of(use.peak);
  object["driver_used_peak_bytes"] = json_of(use.driver_used_peak_bytes);
  object["unaccounted_bytes"] = json_of(use.unaccounted_bytes);
  object["num_steps"] = use.num_steps;
  object["num_allocations"] = use.num_allocations;
  object["num_frees"] = use.num_frees;
  object["num_unmatched_frees"] = use.num_unmatched_frees;
  object["num_reused_addresses"] = use.num_reused_addresses;
  object["num_invalid_rows"] = use.num_invalid_rows;
  object["has_lost_data"] = use.has_lost_data;
  if (use.out_of_memory) {
    object["out_of_memory"] = json_of(use.out_of_memory->account);
    object["out_of_memory"]["wanted_bytes"] = use.out_of_memory->wanted_bytes;
  }
  return object;
}

}  // namespace steplens
