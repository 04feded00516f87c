#pragma once

namespace steplens {

/// Is there a device that CUDA can use?
bool has_gpu();

/// Of the current device. Throws DeviceError if there is none.
int num_multiprocessors();

}  // namespace steplens
