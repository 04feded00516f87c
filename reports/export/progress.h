#pragma once

#include <cstdint>
#include <functional>

namespace steplens {

/// Told now and then how many rows of how many are done. May be empty.
using RowProgress = std::function<void(std::int64_t num_done, std::int64_t num_total)>;

/// Counts rows and tells a RowProgress every 64 Ki of them: often enough for a line that moves.
class RowCounter {
 public:
  RowCounter(const RowProgress& progress, std::int64_t num_total)
      : progress_(progress),
        num_total_(num_total) {}

  void count() {
    if ((++num_done_ & 0xFFFF) == 0 && progress_) progress_(num_done_, num_total_);
  }

 private:
  const RowProgress& progress_;
  std::int64_t num_total_;
  std::int64_t num_done_ = 0;
};

}  // namespace steplens
