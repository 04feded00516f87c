#include "viewer/app/png.h"

#include <algorithm>
#include <memory>
#include <string>

#include <epoxy/gl.h>
#include <fmt/format.h>
#include <stb_image.h>
#include <stb_image_write.h>

#include "harness/error.h"
#include "harness/files.h"

namespace steplens {
namespace {

constexpr int kNumChannels = 3;

void append(void* text, void* data, int num_bytes) {
  static_cast<std::string*>(text)->append(static_cast<const char*>(data),
                                          static_cast<std::size_t>(num_bytes));
}

}  // namespace

Picture read_framebuffer(int width, int height) {
  Picture picture = {.width = width, .height = height};
  const auto row_bytes = static_cast<std::size_t>(width) * kNumChannels;
  picture.pixels.resize(row_bytes * static_cast<std::size_t>(height));
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, width, height, GL_RGB, GL_UNSIGNED_BYTE, picture.pixels.data());
  // OpenGL's first row is the bottom.
  for (int y = 0; y < height / 2; ++y) {
    const auto top = picture.pixels.begin() + static_cast<std::ptrdiff_t>(row_bytes) * y;
    const auto bottom =
        picture.pixels.begin() + static_cast<std::ptrdiff_t>(row_bytes) * (height - 1 - y);
    std::swap_ranges(top, top + static_cast<std::ptrdiff_t>(row_bytes), bottom);
  }
  return picture;
}

void write_png(const std::filesystem::path& path, const Picture& picture) {
  std::string content;
  stbi_write_png_to_func(&append, &content, picture.width, picture.height, kNumChannels,
                         picture.pixels.data(), picture.width * kNumChannels);
  write_file_atomically(path, content);
}

Picture read_png(const std::filesystem::path& path) {
  Picture picture;
  int num_channels = 0;
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load(path.c_str(), &picture.width, &picture.height, &num_channels, kNumChannels),
      &stbi_image_free);
  if (pixels == nullptr) {
    throw ConfigError(fmt::format("{}: no picture: {}", path.string(), stbi_failure_reason()));
  }
  picture.pixels.assign(pixels.get(), pixels.get() + static_cast<std::ptrdiff_t>(picture.width) *
                                                         picture.height * kNumChannels);
  return picture;
}

}  // namespace steplens
