// steplens-viewer: looks at bundles and traces. No CUDA, no LibTorch.

#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "harness/error.h"
#include "viewer/app/options.h"
#include "viewer/app/session.h"

int main(int argc, char** argv) {
  using namespace steplens;
  int exit_code = 0;
  try {
    const std::optional<ViewerOptions> options = parse_options(argc, argv, exit_code);
    if (!options) return exit_code;
    return options->screenshot.empty() ? run_window(*options) : run_offscreen(*options);
  } catch (const ConfigError& error) {
    fmt::print(stderr, "steplens-viewer: {}\n", error.what());
    return 2;
  } catch (const DeviceError& error) {
    fmt::print(stderr, "steplens-viewer: {}\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "steplens-viewer: {}\n", error.what());
    return 1;
  }
}
