#pragma once

#include <cstdint>

// For hosts and devices alike.
#ifdef __CUDACC__
#define SL_EVERYWHERE __host__ __device__
#else
#define SL_EVERYWHERE
#endif

namespace steplens {

struct PhiloxWords {
  std::uint32_t words[4];
  bool operator==(const PhiloxWords&) const = default;
};
struct PhiloxKey {
  std::uint32_t words[2];
};

/// Philox4x32-10: 128 random bits that depend on nothing but `counter` and `key`, so that whoever
/// knows both can draw them again. (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers:
/// as easy as 1, 2, 3".)
SL_EVERYWHERE constexpr PhiloxWords philox(PhiloxWords counter, PhiloxKey key) {
  constexpr std::uint64_t kMultipliers[2] = {0xd2511f53, 0xcd9e8d57};
  constexpr std::uint32_t kKeySteps[2] = {0x9e3779b9, 0xbb67ae85};
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = kMultipliers[0] * counter.words[0];
    const std::uint64_t second = kMultipliers[1] * counter.words[2];
    counter = {{static_cast<std::uint32_t>(second >> 32) ^ counter.words[1] ^ key.words[0],
                static_cast<std::uint32_t>(second),
                static_cast<std::uint32_t>(first >> 32) ^ counter.words[3] ^ key.words[1],
                static_cast<std::uint32_t>(first)}};
    key = {{key.words[0] + kKeySteps[0], key.words[1] + kKeySteps[1]}};
  }
  return counter;
}

}  // namespace steplens
