#pragma once

namespace steplens {

/// Of the current device. Throws DeviceError if there is none.
int num_multiprocessors();

}  // namespace steplens
