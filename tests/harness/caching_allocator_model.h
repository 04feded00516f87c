#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <span>

#include "harness/trace/trace.h"

namespace steplens {

/// PyTorch's caching allocator on one stream, in an empty pool, as its documentation and
/// `c10/cuda/CUDACachingAllocator.h` state the rules: sizes are multiples of 512 bytes; those up to
/// 1 MiB share segments of 2 MiB, those below 10 MiB segments of 20 MiB, larger ones get a segment
/// of their own, rounded to 2 MiB; the smallest free block that fits is taken, and split if more
/// than 512 bytes (of a small one) or 1 MiB would be left over; neighbours that are free merge.
class CachingAllocatorModel {
 public:
  /// Returns a handle for `free`.
  std::size_t allocate(std::int64_t bytes) {
    bytes = std::max<std::int64_t>(512, round_up(bytes, 512));
    const bool is_small = bytes <= kMiB;
    Segment* segment = nullptr;
    Blocks::iterator best;
    for (Segment& candidate : segments_) {
      if (candidate.is_small != is_small) continue;
      for (auto it = candidate.blocks.begin(); it != candidate.blocks.end(); ++it) {
        if (!it->is_free || it->bytes < bytes) continue;
        if (segment == nullptr || it->bytes < best->bytes) {
          segment = &candidate;
          best = it;
        }
      }
    }
    if (segment == nullptr) {
      const std::int64_t segment_bytes = is_small            ? 2 * kMiB
                                         : bytes < 10 * kMiB ? 20 * kMiB
                                                             : round_up(bytes, 2 * kMiB);
      reserved_bytes_ += segment_bytes;
      segment = &segments_.emplace_back(Segment{.is_small = is_small, .blocks = {}});
      best = segment->blocks.insert(segment->blocks.end(), {.bytes = segment_bytes});
    }
    best->is_free = false;
    const std::int64_t rest = best->bytes - bytes;
    if (is_small ? rest >= 512 : rest > kMiB) {
      best->bytes = bytes;
      segment->blocks.insert(std::next(best), {.bytes = rest});
    }
    allocated_bytes_ += best->bytes;
    peak_allocated_bytes_ = std::max(peak_allocated_bytes_, allocated_bytes_);
    live_.emplace(next_handle_, Place{segment, best});
    return next_handle_++;
  }

  void free(std::size_t handle) {
    const auto [segment, block] = live_.at(handle);
    live_.erase(handle);
    allocated_bytes_ -= block->bytes;
    block->is_free = true;
    Blocks& blocks = segment->blocks;
    if (const auto next = std::next(block); next != blocks.end() && next->is_free) {
      block->bytes += next->bytes;
      blocks.erase(next);
    }
    if (block == blocks.begin() || !std::prev(block)->is_free) return;
    std::prev(block)->bytes += block->bytes;
    blocks.erase(block);
  }

  std::int64_t reserved_bytes() const { return reserved_bytes_; }
  std::int64_t allocated_bytes() const { return allocated_bytes_; }
  std::int64_t peak_allocated_bytes() const { return peak_allocated_bytes_; }

 private:
  static constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  struct Block {
    std::int64_t bytes = 0;
    bool is_free = true;
  };
  using Blocks = std::list<Block>;
  struct Segment {
    bool is_small = false;
    Blocks blocks;  // In the order of their addresses.
  };
  struct Place {
    Segment* segment = nullptr;
    Blocks::iterator block;
  };

  static std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
    return (bytes + unit - 1) / unit * unit;
  }

  std::list<Segment> segments_;        // Pointers into it stay valid.
  std::map<std::size_t, Place> live_;  // Maps handles to what they hold.
  std::size_t next_handle_ = 0;
  std::int64_t reserved_bytes_ = 0;
  std::int64_t allocated_bytes_ = 0;
  std::int64_t peak_allocated_bytes_ = 0;
};

/// What the events of an eager step would take in an empty pool. Tensors that are older than the
/// first event lie elsewhere; those that outlive the last one stay allocated.
inline CachingAllocatorModel replayed(std::span<const Alloc> events) {
  CachingAllocatorModel pool;
  std::map<std::uint64_t, std::size_t> handle_of_address;
  for (const Alloc& event : events) {
    if (event.action == AllocAction::kAlloc) {
      handle_of_address[event.address] = pool.allocate(event.bytes);
    } else if (event.action == AllocAction::kFree) {
      const auto it = handle_of_address.find(event.address);
      if (it == handle_of_address.end()) continue;
      pool.free(it->second);
      handle_of_address.erase(it);
    }
  }
  return pool;
}

}  // namespace steplens
