#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace steplens {

/// Replaces the memset nodes of a captured graph that write at most `max_bytes` in one row by
/// kernel nodes that write the same, with the same dependencies. Call between capture and
/// instantiation. Returns how many.
///
/// Why: cuBLAS and cuDNN clear a counter of 4 bytes before most of their kernels. On an H200 such a
/// memset took 0.8 us, and the device stood still for 1.5 us before it and 2.3 us behind it;
/// between two kernels of a graph it stands still for 0.2 us.
std::int64_t replace_memset_nodes(cudaGraph_t graph, std::int64_t max_bytes = 4096);

}  // namespace steplens
