#include "viewer/draw/strip_texture.h"

#include <algorithm>
#include <utility>

#include <epoxy/gl.h>

namespace steplens {
namespace {

// 1600 pixels make up to 2,134 buckets; a screen of 3,840 makes 5,120.
constexpr std::size_t kFirstWidth = 2560;
constexpr std::size_t kFirstHeight = 128;

}  // namespace

StripTexture::~StripTexture() {
  if (texture_ != 0) glDeleteTextures(1, &texture_);
}

void StripTexture::resize(std::size_t width, std::size_t height) {
  if (texture_ == 0) glGenTextures(1, &texture_);
  width_ = width;
  height_ = height;
  texels_.assign(width_ * height_, 0);
  versions_.assign(height_, 0);
  dirty_begin_ = dirty_end_ = 0;
  GLint bound = 0;
  glGetIntegerv(GL_TEXTURE_BINDING_2D, &bound);
  glBindTexture(GL_TEXTURE_2D, texture_);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, static_cast<GLsizei>(width_),
               static_cast<GLsizei>(height_), 0, GL_RGBA, GL_UNSIGNED_BYTE, texels_.data());
  glBindTexture(GL_TEXTURE_2D, static_cast<GLuint>(bound));
}

void StripTexture::draw(ImDrawList& list, std::span<const ImU32> texels, std::uint64_t version,
                        ImVec2 low, ImVec2 high) {
  if (texels.empty()) return;
  if (texture_ == 0 || texels.size() > width_ || num_rows_ >= height_) {
    // What was drawn in this frame already is drawn wrongly; `has_to_redraw` tells.
    has_to_redraw_ = texture_ != 0;
    resize(std::max({kFirstWidth, width_, texels.size()}),
           num_rows_ >= height_ ? std::max(kFirstHeight, 2 * height_) : height_);
  }
  const std::size_t row = num_rows_++;
  if (versions_[row] != version) {
    std::ranges::copy(texels, texels_.begin() + static_cast<std::ptrdiff_t>(row * width_));
    versions_[row] = version;
    if (dirty_begin_ == dirty_end_) dirty_begin_ = row;
    dirty_begin_ = std::min(dirty_begin_, row);
    dirty_end_ = std::max(dirty_end_, row + 1);
  }
  const float u = static_cast<float>(texels.size()) / static_cast<float>(width_);
  const float v = (static_cast<float>(row) + 0.5F) / static_cast<float>(height_);
  // A number or a pointer, by the version of Dear ImGui.
  const auto id = (ImTextureID)(std::uintptr_t{texture_});  // NOLINT(performance-no-int-to-ptr)
  list.AddImage(id, low, high, {0, v}, {u, v});
}

bool StripTexture::upload() {
  const bool has_to_redraw = std::exchange(has_to_redraw_, false);
  if (dirty_begin_ == dirty_end_) return has_to_redraw;
  GLint bound = 0;
  glGetIntegerv(GL_TEXTURE_BINDING_2D, &bound);
  glBindTexture(GL_TEXTURE_2D, texture_);
  glTexSubImage2D(GL_TEXTURE_2D, 0, 0, static_cast<GLint>(dirty_begin_),
                  static_cast<GLsizei>(width_), static_cast<GLsizei>(dirty_end_ - dirty_begin_),
                  GL_RGBA, GL_UNSIGNED_BYTE, texels_.data() + dirty_begin_ * width_);
  glBindTexture(GL_TEXTURE_2D, static_cast<GLuint>(bound));
  dirty_begin_ = dirty_end_ = 0;
  return has_to_redraw;
}

}  // namespace steplens
