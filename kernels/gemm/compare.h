#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/vector.h"

namespace steplens {

/// ||values - reference|| / ||reference|| over `count` elements of `type`, in double; NaN if one of
/// them is. `sums`: two doubles of device memory. Waits for the stream. Throws DeviceError.
double relative_distance(const void* values, const void* reference, std::int64_t count,
                         ElementType type, double* sums, cudaStream_t stream);

}  // namespace steplens
