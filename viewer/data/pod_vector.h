#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include <sys/mman.h>

namespace steplens {

/// A fixed number of plain values, uninitialised until written: several threads fill parts of it,
/// and nothing is touched twice. In huge pages where the kernel takes the advice.
template <class T>
class PodVector {
  static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);

 public:
  PodVector() = default;
  explicit PodVector(std::size_t size) : values_(allocate(size)), size_(size) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return values_.get(); }
  const T* data() const { return values_.get(); }
  T& operator[](std::size_t i) { return values_[i]; }
  const T& operator[](std::size_t i) const { return values_[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::span<const T> span() const { return {data(), size_}; }
  std::size_t num_bytes() const { return size_ * sizeof(T); }

 private:
  struct Free {
    void operator()(T* values) const { ::operator delete(values, std::align_val_t{kAlignment}); }
  };
  static constexpr std::size_t kAlignment = 64;

  static T* allocate(std::size_t size) {
    if (size == 0) return nullptr;
    void* memory = ::operator new(size * sizeof(T), std::align_val_t{kAlignment});
    constexpr std::size_t kHugePage = 1 << 21;
    std::size_t num_bytes = size * sizeof(T);
    void* aligned = memory;
    if (std::align(kHugePage, kHugePage, aligned, num_bytes) != nullptr) {
      ::madvise(aligned, num_bytes & ~(kHugePage - 1), MADV_HUGEPAGE);
    }
    return static_cast<T*>(memory);
  }

  std::unique_ptr<T[], Free> values_;
  std::size_t size_ = 0;
};

}  // namespace steplens
