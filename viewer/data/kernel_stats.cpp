#include "viewer/data/kernel_stats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string_view>
#include <unordered_map>

namespace steplens {
namespace {

constexpr int kBinsPerOctave = 16;
constexpr int kBinBits = 4;

// Calls visit(slice) for each operation of the steps.
template <class Visit>
void for_each_operation(const TraceModel& model, const std::optional<StepSpan>& steps,
                        Visit visit) {
  for (const Lane& lane : model.lanes) {
    if (!has_operations(lane.kind)) continue;
    for (const SliceRow& row : lane.rows) {
      for (const Slice& slice : row.slices()) {
        if (steps) {
          const int step = model.ops[slice.row].step_index;
          if (step < steps->first || step > steps->last) continue;
        }
        visit(slice);
      }
    }
  }
}

// Reorders.
std::int64_t nearest_rank(std::span<std::int64_t> durations_ns, double ratio) {
  const double rank = std::ceil(ratio * static_cast<double>(durations_ns.size()));
  const auto index = static_cast<std::ptrdiff_t>(std::max(1.0, rank)) - 1;
  std::ranges::nth_element(durations_ns, durations_ns.begin() + index);
  return durations_ns[static_cast<std::size_t>(index)];
}

DurationHistogram histogram_of(std::span<const std::int64_t> durations_ns, std::int64_t min_ns,
                               std::int64_t max_ns) {
  DurationHistogram histogram;
  histogram.first_bin = DurationHistogram::bin_of(min_ns);
  const int num_bins = DurationHistogram::bin_of(max_ns) - histogram.first_bin + 1;
  histogram.counts.resize(static_cast<std::size_t>(num_bins));
  for (const std::int64_t duration_ns : durations_ns) {
    ++histogram.counts[static_cast<std::size_t>(DurationHistogram::bin_of(duration_ns) -
                                                histogram.first_bin)];
  }
  return histogram;
}

void summarise(std::span<std::int64_t> durations_ns, KernelStats& stats) {
  const auto [min, max] = std::ranges::minmax(durations_ns);
  stats.min_ns = min;
  stats.max_ns = max;
  stats.histogram = histogram_of(durations_ns, min, max);
  stats.p50_ns = nearest_rank(durations_ns, 0.50);
  stats.p90_ns = nearest_rank(durations_ns, 0.90);
  stats.p99_ns = nearest_rank(durations_ns, 0.99);
}

}  // namespace

// The exponent and the next four bits of the number: linear within an octave, which is close enough
// to equal ratios and takes no logarithm.
int DurationHistogram::bin_of(std::int64_t duration_ns) {
  const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(1, duration_ns));
  const int exponent = static_cast<int>(std::bit_width(value)) - 1;
  const std::uint64_t next_bits =
      exponent >= kBinBits ? value >> (exponent - kBinBits) : value << (kBinBits - exponent);
  return exponent * kBinsPerOctave + static_cast<int>(next_bits & (kBinsPerOctave - 1));
}

double DurationHistogram::lower_ns(int bin) {
  const int exponent = bin / kBinsPerOctave;
  return std::ldexp(1.0 + static_cast<double>(bin % kBinsPerOctave) / kBinsPerOctave, exponent);
}

KernelTable compute_kernel_table(const TraceModel& model, std::optional<StepSpan> steps,
                                 const std::atomic<bool>* is_cancelled) {
  const auto has_to_stop = [&] { return is_cancelled != nullptr && *is_cancelled; };
  KernelTable table;
  if (steps) {
    steps->first = std::max(0, steps->first);
    steps->last = std::min(model.num_steps() - 1, steps->last);
    table.num_steps = std::max(1, steps->last - steps->first + 1);
  } else {
    table.num_steps = std::max(1, model.num_steps());
  }
  std::vector<KernelStats> by_name(model.names.size());
  std::vector<std::int64_t> longest_ns(model.names.size(), -1);
  for_each_operation(model, steps, [&](const Slice& slice) {
    KernelStats& stats = by_name[slice.name];
    ++stats.count;
    stats.total_ns += slice.duration_ns();
    if (slice.duration_ns() > longest_ns[slice.name]) {
      longest_ns[slice.name] = slice.duration_ns();
      stats.longest_row = slice.row;
    }
  });
  if (has_to_stop()) return table;
  std::vector<std::size_t> next(by_name.size());
  std::size_t num_operations = 0;
  for (std::size_t name = 0; name < by_name.size(); ++name) {
    next[name] = num_operations;
    num_operations += static_cast<std::size_t>(by_name[name].count);
    table.total_ns += by_name[name].total_ns;
  }
  std::vector<std::int64_t> durations_ns(num_operations);
  for_each_operation(model, steps, [&](const Slice& slice) {
    durations_ns[next[slice.name]++] = slice.duration_ns();
  });
  for (std::size_t name = 0; name < by_name.size() && !has_to_stop(); ++name) {
    KernelStats& stats = by_name[name];
    if (stats.count == 0) continue;
    stats.name = static_cast<NameId>(name);
    stats.category = model.names.category(stats.name);
    stats.share_ratio = table.total_ns > 0 ? static_cast<double>(stats.total_ns) /
                                                 static_cast<double>(table.total_ns)
                                           : 0;
    const auto count = static_cast<std::size_t>(stats.count);
    summarise(std::span(durations_ns).subspan(next[name] - count, count), stats);
    table.kernels.push_back(std::move(stats));
  }
  std::ranges::stable_sort(table.kernels, std::greater(), &KernelStats::total_ns);
  return table;
}

std::vector<KernelPair> pair_kernels(const KernelTable& a, const NameTable& names_a,
                                     const KernelTable& b, const NameTable& names_b) {
  std::vector<KernelPair> pairs;
  std::unordered_map<std::string_view, std::size_t> index_of_name;
  for (const KernelStats& stats : a.kernels) {
    index_of_name.emplace(names_a.raw(stats.name), pairs.size());
    pairs.push_back({.a = &stats});
  }
  for (const KernelStats& stats : b.kernels) {
    const auto it = index_of_name.find(names_b.raw(stats.name));
    if (it == index_of_name.end()) {
      pairs.push_back({.b = &stats});
    } else {
      pairs[it->second].b = &stats;
    }
  }
  for (KernelPair& pair : pairs) {
    const auto per_step = [](const KernelTable& table, const KernelStats* stats) {
      return stats == nullptr ? 0 : table.per_step(static_cast<double>(stats->total_ns));
    };
    pair.change_ns = per_step(b, pair.b) - per_step(a, pair.a);
  }
  std::ranges::stable_sort(pairs, std::greater(),
                           [](const KernelPair& pair) { return std::abs(pair.change_ns); });
  return pairs;
}

}  // namespace steplens
