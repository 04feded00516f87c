#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace steplens {

/// Replaces the memset nodes of a captured graph that write at most `max_bytes` in one row by
/// kernel nodes that write the same, with the same dependencies. Call between capture and
/// instantiation. Returns how many.
///
/// Why: cuBLAS and cuDNN clear a counter of 4 bytes before most of their kernels. In the published
/// trace of graph=on (h200-gpt2-124m-toggles) such a memset takes 0.7 us, and the device stands
/// still for 1.5 us before it and 3.7 us behind it (medians of 495 between kernels); between two
/// kernels of that graph it does not.
std::int64_t replace_memset_nodes(cudaGraph_t graph, std::int64_t max_bytes = 4096);

/// Clears a place once at the start of a captured graph instead of piece by piece: destroys the
/// memset nodes that write zeros to bytes of [place, place + num_bytes) which no other memset node
/// writes, links what stood before each with what stood behind it, and adds one kernel node, before
/// all others, that clears from the first of these bytes to the last. Call between capture and
/// instantiation, before replace_memset_nodes. Returns how many nodes went.
///
/// The caller's promise: between the start of the graph and a memset that goes, nothing in the
/// graph writes the bytes that it clears. So it is where each product has a counter of its own
/// (kGemmCounterBytes). In a published trace (h200-best-step/gpt2-124m.slt) 136 of a step's 501
/// kernels clear a counter, 1.2 us each, and nothing else is on the device meanwhile; 108 of them
/// stand before a product.
std::int64_t gather_memset_nodes(cudaGraph_t graph, void* place, std::size_t num_bytes);

}  // namespace steplens
