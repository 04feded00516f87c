#include "workloads/catalog/batcher.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/statistics.h"

namespace steplens {
namespace {

// Row lengths of buckets: 16 keeps every matrix product of 16-bit types aligned, and lengths few.
constexpr std::int64_t kRowLengthMultiple = 16;

// Bounds of `num_parts` parts of [begin, end) whose sizes differ by at most 1.
std::vector<std::int64_t> cut_evenly(std::int64_t begin, std::int64_t end, std::int64_t num_parts) {
  std::vector<std::int64_t> bounds;
  for (std::int64_t i = 0; i <= num_parts; ++i) {
    bounds.push_back(begin + (end - begin) * i / num_parts);
  }
  return bounds;
}

// The visits [first, first + count) through all epochs, as indices of spans.
std::vector<std::int64_t> visited_spans(std::int64_t first, std::int64_t count,
                                        std::int64_t num_spans, std::uint64_t seed) {
  std::vector<std::int64_t> spans;
  spans.reserve(static_cast<std::size_t>(count));
  std::vector<std::int64_t> order;
  std::int64_t epoch = -1;
  for (std::int64_t visit = first; visit < first + count; ++visit) {
    if (visit / num_spans != epoch) {
      epoch = visit / num_spans;
      order = permutation(num_spans, seed, static_cast<std::uint64_t>(epoch));
    }
    spans.push_back(order[static_cast<std::size_t>(visit % num_spans)]);
  }
  return spans;
}

}  // namespace

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::int64_t> items(static_cast<std::size_t>(n));
  std::iota(items.begin(), items.end(), std::int64_t{0});
  SplitMix64 random(SplitMix64(seed).next() ^ stream);
  for (std::size_t i = items.size(); i-- > 1;) std::swap(items[i], items[random.next() % (i + 1)]);
  return items;
}

Batcher::Batcher(const TokenFile& file, const RunConfig& config, Region region, int rank,
                 int world_size, std::optional<std::int64_t> max_rows_in_last_step)
    : file_(file),
      config_(config),
      region_(region),
      rank_(rank),
      world_size_(world_size) {
  SL_CHECK(region.first >= 0 && region.count >= 0);
  SL_CHECK(rank >= 0 && rank < world_size);
  validate(config);
  if (world_size != config.world_size) {
    throw ConfigError(
        fmt::format("world_size={}: the block runs on {} ranks", config.world_size, world_size));
  }
  file.check_fits(config);
  const std::int64_t global = effective_global_batch_size(config);
  if (max_rows_in_last_step && config.batching != Batching::kPacked) {
    throw ConfigError(fmt::format("batching={}: a short last step is possible with packed only",
                                  name_of(config.batching)));
  }
  if (max_rows_in_last_step && (*max_rows_in_last_step < 1 || *max_rows_in_last_step > global)) {
    throw ConfigError(fmt::format("rows of the last step={}: takes 1 to global_batch={}",
                                  *max_rows_in_last_step, global));
  }
  if (region.count == 0) return;

  const std::int64_t num_missing = max_rows_in_last_step ? global - *max_rows_in_last_step : 0;
  const std::int64_t num_spans = (file.num_tokens() - 1) / config.sequence_length;
  span_offsets_ = visited_spans(region.first * global, region.count * global - num_missing,
                                num_spans, config.seed);
  for (std::int64_t& span : span_offsets_) span *= config.sequence_length;

  switch (config.batching) {
    case Batching::kPacked: plan_packed(max_rows_in_last_step); break;
    case Batching::kPadded: plan_padded(); break;
    case Batching::kBucketed: plan_bucketed(); break;
  }
  for (std::int64_t i = 0; i < region.count; ++i) require_rows(i);
}

void Batcher::plan_packed(std::optional<std::int64_t> max_rows_in_last_step) {
  for (const std::int64_t offset : span_offsets_) {
    rows_.push_back({.offset = offset, .length = config_.sequence_length});
  }
  const std::int64_t global = effective_global_batch_size(config_);
  const std::int64_t micro = global / config_.num_accumulation;  // Over all ranks.
  for (std::int64_t i = 0; i < region_.count; ++i) {
    const bool is_last = i + 1 == region_.count;
    const std::int64_t begin = i * global;
    const std::int64_t end = begin + (is_last ? max_rows_in_last_step.value_or(global) : global);
    StepPlan step;
    for (std::int64_t row = begin; row < end; row += micro) {
      const auto bounds = cut_evenly(row, std::min(row + micro, end), world_size_);
      MicroBatchPlan ranks;
      for (std::size_t r = 0; r + 1 < bounds.size(); ++r) {
        ranks.push_back({bounds[r], bounds[r + 1]});
      }
      step.push_back(std::move(ranks));
    }
    steps_.push_back(std::move(step));
  }
}

void Batcher::plan_padded() {
  cut_spans_into_pieces();
  const auto steps = cut_evenly(0, static_cast<std::int64_t>(rows_.size()), region_.count);
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const auto micro_batches = cut_evenly(steps[i], steps[i + 1], config_.num_accumulation);
    StepPlan step;
    for (std::size_t m = 0; m + 1 < micro_batches.size(); ++m) {
      const auto bounds = cut_evenly(micro_batches[m], micro_batches[m + 1], world_size_);
      MicroBatchPlan ranks;
      for (std::size_t r = 0; r + 1 < bounds.size(); ++r) {
        ranks.push_back({bounds[r], bounds[r + 1]});
      }
      step.push_back(std::move(ranks));
    }
    steps_.push_back(std::move(step));
  }
}

void Batcher::plan_bucketed() {
  cut_spans_into_pieces();
  sort_rows_by_length();
  const auto steps = cut_by_valid_tokens(0, static_cast<std::int64_t>(rows_.size()), region_.count);
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const auto bounds =
        cut_by_valid_tokens(steps[i], steps[i + 1], config_.num_accumulation * world_size_);
    StepPlan step;
    for (std::size_t part = 0; part + 1 < bounds.size(); ++part) {
      if (part % static_cast<std::size_t>(world_size_) == 0) step.emplace_back();
      step.back().push_back({bounds[part], bounds[part + 1]});
    }
    steps_.push_back(std::move(step));
  }
  // Counted down from 2^64 - 1: apart from the epochs' streams, which count up from 0.
  const auto order =
      permutation(region_.count, config_.seed, ~static_cast<std::uint64_t>(region_.first));
  std::vector<StepPlan> shuffled;
  shuffled.reserve(order.size());
  for (const std::int64_t i : order) {
    shuffled.push_back(std::move(steps_[static_cast<std::size_t>(i)]));
  }
  steps_ = std::move(shuffled);
}

void Batcher::cut_spans_into_pieces() {
  const std::span<const std::int64_t> ends = file_.document_ends();
  for (const std::int64_t span : span_offsets_) {
    const std::int64_t span_end = span + config_.sequence_length;
    std::int64_t begin = span;
    for (auto end = std::ranges::lower_bound(ends, span); end != ends.end() && *end < span_end;
         ++end) {
      rows_.push_back({.offset = begin, .length = *end + 1 - begin, .ends_document = true});
      begin = *end + 1;
    }
    if (begin < span_end) rows_.push_back({.offset = begin, .length = span_end - begin});
  }
}

void Batcher::sort_rows_by_length() {
  // Sorting pairs is stable by the index; std::stable_sort uses what C++20 calls deprecated.
  std::vector<std::pair<std::int64_t, std::size_t>> keys;
  keys.reserve(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) keys.emplace_back(rows_[i].length, i);
  std::ranges::sort(keys);
  std::vector<Row> sorted;
  sorted.reserve(rows_.size());
  for (const auto& [length, i] : keys) sorted.push_back(rows_[i]);
  rows_ = std::move(sorted);
}

// Bounds of `num_parts` parts of rows [begin, end): each bound lies where the valid tokens before
// it are nearest to its share, and no part is empty if there are rows enough.
std::vector<std::int64_t> Batcher::cut_by_valid_tokens(std::int64_t begin, std::int64_t end,
                                                       std::int64_t num_parts) const {
  if (end - begin < num_parts) return cut_evenly(begin, end, num_parts);
  std::vector<std::int64_t> sums = {0};  // sums[i]: valid tokens of the first i rows.
  for (std::int64_t row = begin; row < end; ++row) {
    sums.push_back(sums.back() + rows_[static_cast<std::size_t>(row)].length);
  }
  std::vector<std::int64_t> bounds = {begin};
  for (std::int64_t part = 1; part < num_parts; ++part) {
    const std::int64_t share = sums.back() * part / num_parts;
    auto nearest = std::ranges::lower_bound(sums, share);
    if (nearest != sums.begin() && share - *(nearest - 1) <= *nearest - share) --nearest;
    const std::int64_t bound = begin + (nearest - sums.begin());
    bounds.push_back(std::clamp(bound, bounds.back() + 1, end - (num_parts - part)));
  }
  bounds.push_back(end);
  return bounds;
}

void Batcher::require_rows(std::int64_t step_index) const {
  const StepPlan& step = steps_[static_cast<std::size_t>(step_index)];
  for (const MicroBatchPlan& ranks : step) {
    for (const RankRows& rows : ranks) {
      if (rows.begin < rows.end) continue;
      throw ConfigError(fmt::format(
          "accumulation={}: step {} has only {} rows for {} micro-batches on {} ranks; each needs "
          "at least one (batching={})",
          config_.num_accumulation, region_.first + step_index,
          step.back().back().end - step.front().front().begin, step.size(), world_size_,
          name_of(config_.batching)));
    }
  }
}

StepBatch Batcher::step(std::int64_t index_in_region) const {
  SL_CHECK(index_in_region >= 0 && index_in_region < region_.count);
  StepBatch batch;
  for (const MicroBatchPlan& ranks : steps_[static_cast<std::size_t>(index_in_region)]) {
    batch.micro_batches.push_back(micro_batch(ranks[static_cast<std::size_t>(rank_)]));
    const MicroBatch& added = batch.micro_batches.back();
    batch.num_positions += added.num_positions();
    batch.num_valid_tokens += added.num_valid_tokens;
    batch.num_loss_tokens += added.num_loss_tokens;
    for (std::int64_t i = ranks.front().begin; i < ranks.back().end; ++i) {
      const Row& row = rows_[static_cast<std::size_t>(i)];
      batch.num_loss_tokens_all_ranks += row.length - (row.ends_document ? 1 : 0);
    }
  }
  return batch;
}

MicroBatch Batcher::micro_batch(const RankRows& rows) const {
  MicroBatch batch{.num_rows = rows.end - rows.begin, .row_length = config_.sequence_length};
  if (config_.batching == Batching::kBucketed) {
    // Sorted by length: the last row is the longest.
    const std::int64_t longest = rows_[static_cast<std::size_t>(rows.end - 1)].length;
    const std::int64_t rounded =
        (longest + kRowLengthMultiple - 1) / kRowLengthMultiple * kRowLengthMultiple;
    batch.row_length = std::min(rounded, config_.sequence_length);
  }
  const auto size = static_cast<std::size_t>(batch.num_positions());
  batch.inputs.assign(size, 0);
  batch.targets.assign(size, kIgnoredTarget);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < batch.num_rows; ++i) {
    const Row& row = rows_[static_cast<std::size_t>(rows.begin + i)];
    const std::int64_t num_targets = row.length - (row.ends_document ? 1 : 0);
    tokens.resize(static_cast<std::size_t>(num_targets + 1));
    file_.copy(row.offset, tokens);
    const auto at = i * batch.row_length;
    std::copy_n(tokens.begin(), row.length, batch.inputs.begin() + at);
    std::copy_n(tokens.begin() + 1, num_targets, batch.targets.begin() + at);
    batch.num_valid_tokens += row.length;
    batch.num_loss_tokens += num_targets;
  }
  return batch;
}

}  // namespace steplens
