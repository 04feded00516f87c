#pragma once

#include <cstdint>

#include "harness/run_config.h"

namespace steplens {

/// Keeps the device busy for `duration_ns`: on a GPU a kernel on the current stream that watches
/// the global timer, on a CPU a loop in the caller. The known slowdown that the matrix must find.
void spin(Device device, std::int64_t duration_ns);

}  // namespace steplens
