#include "profilers/trace/slab_pool.h"

#include <new>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr std::uint64_t head_of(std::uint64_t change, std::uint32_t slab) {
  return (change << 32) | slab;
}

}  // namespace

SlabPool::SlabPool(std::uint32_t num_slabs, std::size_t slab_bytes)
    : slab_bytes_((slab_bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes),
      next_(num_slabs),
      head_(head_of(0, num_slabs == 0 ? kNone : 0)) {
  SL_CHECK(num_slabs < kNone);
  // calloc leaves untouched pages to the kernel: what is never used costs nothing.
  void* memory = std::calloc(num_slabs + 1, slab_bytes_);
  if (memory == nullptr) throw std::bad_alloc();
  memory_.reset(static_cast<std::uint8_t*>(memory));
  for (std::uint32_t i = 0; i < num_slabs; ++i) next_[i] = i + 1 == num_slabs ? kNone : i + 1;
}

std::uint8_t* SlabPool::take() {
  std::uint64_t head = head_.load(std::memory_order_acquire);
  while (true) {
    const auto slab = static_cast<std::uint32_t>(head);
    if (slab == kNone) {
      num_refused_.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    const std::uint32_t next = next_[slab].load(std::memory_order_relaxed);
    if (!head_.compare_exchange_weak(head, head_of((head >> 32) + 1, next),
                                     std::memory_order_acq_rel, std::memory_order_acquire)) {
      continue;
    }
    const std::int64_t num_taken = num_taken_.fetch_add(1, std::memory_order_relaxed) + 1;
    std::int64_t peak = peak_taken_.load(std::memory_order_relaxed);
    while (peak < num_taken &&
           !peak_taken_.compare_exchange_weak(peak, num_taken, std::memory_order_relaxed)) {
    }
    const auto base = reinterpret_cast<std::uintptr_t>(memory_.get());
    const std::uintptr_t aligned = (base + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    return memory_.get() + (aligned - base) + slab * slab_bytes_;
  }
}

void SlabPool::give(std::uint8_t* slab_memory) {
  const auto slab = static_cast<std::uint32_t>(
      static_cast<std::size_t>(slab_memory - memory_.get()) / slab_bytes_);
  SL_CHECK(slab < next_.size());
  num_taken_.fetch_sub(1, std::memory_order_relaxed);
  std::uint64_t head = head_.load(std::memory_order_relaxed);
  do {
    next_[slab].store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
  } while (!head_.compare_exchange_weak(head, head_of((head >> 32) + 1, slab),
                                        std::memory_order_release, std::memory_order_relaxed));
}

}  // namespace steplens
