#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "workloads/catalog/batcher.h"

namespace steplens {

/// `data_hash` of a block: SHA-256 over what one rank consumed, in order. Per step, per
/// micro-batch, per row: all inputs, then all targets, padding included, as little-endian int32. Of
/// packed data it does not depend on the accumulation. Feed it the warm-up steps and then the
/// measured ones.
class DataHash {
 public:
  DataHash();
  ~DataHash();
  void add(const StepBatch& step);
  /// 64 hexadecimal digits over all that was added; more can be added afterwards.
  std::string hex() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// `data_set_hash` of a block: the same for all batchings, ranks and orders that consume the same
/// spans. SHA-256 over the ascending SHA-256 digests (32 bytes) of the spans, each taken over the
/// span's first token index as int64 and its sequence_length + 1 tokens as int32, little-endian.
/// `span_offsets`: of the warm-up's and the measured region (Batcher::span_offsets), in any order.
std::string data_set_hash(const TokenFile& file, std::span<const std::int64_t> span_offsets,
                          std::int64_t sequence_length);

}  // namespace steplens
