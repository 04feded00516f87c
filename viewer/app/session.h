#pragma once

#include "viewer/app/options.h"

namespace steplens {

/// Draws into a picture without a display and writes it as PNG, when all that the panel wants is
/// loaded. Returns the exit code. ConfigError, DeviceError.
int run_offscreen(const ViewerOptions& options);

/// Opens a window and returns the exit code when it is closed. DeviceError if there is no display.
int run_window(const ViewerOptions& options);

}  // namespace steplens
