#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace steplens {

/// A fixed number of equally large pieces of memory, allocated once. `take` and `give` are
/// lock-free and allocate nothing, as a CUPTI callback needs it; any thread.
class SlabPool {
 public:
  static constexpr std::size_t kAlignmentBytes = 64;

  SlabPool(std::uint32_t num_slabs, std::size_t slab_bytes);

  /// Null, and counted, if all are taken. A slab's memory is zero the first time.
  std::uint8_t* take();
  /// Takes one back; `slab` must be taken.
  void give(std::uint8_t* slab);

  std::size_t slab_bytes() const { return slab_bytes_; }
  std::uint32_t num_slabs() const { return static_cast<std::uint32_t>(next_.size()); }
  std::int64_t num_refused() const { return num_refused_; }
  std::int64_t peak_taken() const { return peak_taken_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct Free {
    void operator()(std::uint8_t* memory) const { std::free(memory); }  // NOLINT
  };

  std::size_t slab_bytes_;
  std::unique_ptr<std::uint8_t[], Free> memory_;
  std::vector<std::atomic<std::uint32_t>> next_;
  std::atomic<std::uint64_t> head_;  // Low half: first free slab; high half: count of changes.
  std::atomic<std::int64_t> num_taken_ = 0, peak_taken_ = 0, num_refused_ = 0;
};

}  // namespace steplens
