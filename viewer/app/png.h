#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace steplens {

/// RGB, 8 bits each; the first row is the top.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> pixels;
};

/// What is in the framebuffer that is bound.
Picture read_framebuffer(int width, int height);

/// Atomically. ConfigError names path and cause.
void write_png(const std::filesystem::path& path, const Picture& picture);
/// ConfigError if it is no picture.
Picture read_png(const std::filesystem::path& path);

}  // namespace steplens
