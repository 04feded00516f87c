#pragma once

#include <cstdint>

namespace steplens {

// Copies from device memory into shared memory by the copy engine of a multiprocessor (compute
// capability 9.0): one thread asks for whole rows, no register holds what is on its way, and those
// who need it wait at a barrier that counts its bytes.
//
// Addresses and byte counts are multiples of 16. A barrier's phases alternate parity 0, 1, 0 ...

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// For one arrival a phase: that of `expect_bytes`. All barriers of a block are initialized by one
/// thread, which then calls `publish_barriers`; the others see them after a __syncthreads.
__device__ inline void init_barrier(std::uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)));
}
__device__ inline void publish_barriers() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Once a phase, before its copies: how many bytes they bring together.
__device__ inline void expect_bytes(std::uint64_t* barrier, unsigned num_bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(num_bytes)
      : "memory");
}

/// Whoever read what lay at `to` has passed a __syncwarp or __syncthreads with the caller since.
__device__ inline void copy_to_shared(void* to, const void* from, unsigned num_bytes,
                                      std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(num_bytes), "r"(shared_address(barrier))
      : "memory");
}

/// Until the phase of that parity has all its bytes.
__device__ inline void wait_barrier(std::uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "wait:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra wait;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

}  // namespace steplens
