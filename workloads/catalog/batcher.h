#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harness/run_config.h"
#include "workloads/catalog/token_file.h"

// Which tokens an optimizer step sees: a pure function of token file, config and step index,
// written so that any language can repeat it (scripts/arms/token_data.py does). T: sequence_length.
//
// Span k of the file is its tokens [k*T, (k+1)*T) and the next one, the target of the last; there
// are (num_tokens - 1) / T spans. Epoch e visits all of them in the order permutation(num_spans,
// seed, e). With G rows a step (effective_global_batch_size), step s takes the visits [s*G,
// (s+1)*G), counted through all epochs.

namespace steplens {

/// A permutation of 0 .. n-1: Fisher-Yates on 0, 1, 2, ..., for i from n-1 down to 1 swapping items
/// i and next() % (i + 1), with next() of SplitMix64(SplitMix64(seed).next() ^ stream) (in
/// harness/statistics.h; scripts/arms/token_data.py writes it out). Streams that follow each other
/// must not begin at states that SplitMix64's own steps join, hence the first next().
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::uint64_t stream);

/// Target of a position that is not trained on; cross-entropy's ignore_index.
inline constexpr std::int32_t kIgnoredTarget = -100;

/// What one rank's forward pass sees. Row-major (num_rows, row_length).
struct MicroBatch {
  std::int64_t num_rows = 0;
  std::int64_t row_length = 0;
  std::vector<std::int32_t> inputs;   // Padding is 0.
  std::vector<std::int32_t> targets;  // kIgnoredTarget at padding and at document ends.
  std::int64_t num_valid_tokens = 0;  // Inputs that are no padding.
  std::int64_t num_loss_tokens = 0;   // Targets that are trained on.
  std::int64_t num_positions() const { return num_rows * row_length; }
};

/// What one rank sees in one optimizer step. Sums are over its micro-batches.
struct StepBatch {
  std::vector<MicroBatch> micro_batches;
  std::int64_t num_positions = 0;
  std::int64_t num_valid_tokens = 0;
  std::int64_t num_loss_tokens = 0;
  std::int64_t num_loss_tokens_all_ranks = 0;  // Divisor of the loss, known without communication.
};

/// Optimizer steps [first, first + count). Warm-up and measured steps are two regions, so that each
/// sees the same text whatever the batching.
struct Region {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Cuts a region's spans into steps, micro-batches and rows.
///
/// packed: a span is a row of T tokens and every position is trained on. A step's G rows are cut in
/// order into `accumulation` micro-batches; a rank takes its contiguous share of each.
///
/// padded: each span is cut after its document ends into pieces, one row each, padded to T. A
/// piece's last target is the next token, or ignored if the piece ends a document. The pieces, in
/// order, are cut as evenly as possible by rows into steps, these into micro-batches, these into
/// ranks.
///
/// bucketed: the same pieces, sorted by length (stable), cut into steps and then into micro-batches
/// and ranks of nearly equal valid tokens. Each is padded to its own longest row, rounded up to 16
/// (at most T). The steps then come in the order permutation(count, seed, 2^64 - 1 - first).
///
/// All three see the same valid tokens over the region. Thread-safe: `step` only reads.
class Batcher {
 public:
  /// Keeps a reference to `file`. `max_rows_in_last_step` makes the region's last step a short
  /// group (packed only): its last micro-batch may be short, and micro-batches may be missing.
  /// ConfigError if the file does not fit the config, or if a micro-batch of a rank would have no
  /// row.
  Batcher(const TokenFile& file, const RunConfig& config, Region region, int rank, int world_size,
          std::optional<std::int64_t> max_rows_in_last_step = std::nullopt);

  StepBatch step(std::int64_t index_in_region) const;

  /// First token of each span of the region, over all ranks, in the order of the visits.
  std::span<const std::int64_t> span_offsets() const { return span_offsets_; }

 private:
  struct Row {
    std::int64_t offset = 0;  // First token, in the file.
    std::int64_t length = 0;
    bool ends_document = false;
  };
  // Rows [begin, end) of rows_.
  struct RankRows {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  using MicroBatchPlan = std::vector<RankRows>;  // By rank.
  using StepPlan = std::vector<MicroBatchPlan>;

  void plan_packed(std::optional<std::int64_t> max_rows_in_last_step);
  void plan_padded();
  void plan_bucketed();
  void cut_spans_into_pieces();
  void sort_rows_by_length();
  std::vector<std::int64_t> cut_by_valid_tokens(std::int64_t begin, std::int64_t end,
                                                std::int64_t num_parts) const;
  void require_rows(std::int64_t step_index) const;
  MicroBatch micro_batch(const RankRows& rows) const;

  const TokenFile& file_;
  RunConfig config_;
  Region region_;
  int rank_;
  int world_size_;
  std::vector<std::int64_t> span_offsets_;
  std::vector<Row> rows_;        // Of all ranks, in the order of steps_ before the final shuffle.
  std::vector<StepPlan> steps_;  // By index in the region.
};

}  // namespace steplens
