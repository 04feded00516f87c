#pragma once

#include <memory>

#include "viewer/app/png.h"

namespace steplens {

/// An OpenGL context without window and display, by EGL, with a picture to draw into. Bound on the
/// thread that made it.
class Offscreen {
 public:
  /// DeviceError says what EGL lacks.
  [[nodiscard]] Offscreen(int width, int height);
  ~Offscreen();
  Offscreen(const Offscreen&) = delete;
  Offscreen& operator=(const Offscreen&) = delete;

  Picture picture() const;

 private:
  void* display_ = nullptr;
  void* context_ = nullptr;
  unsigned texture_ = 0;
  unsigned framebuffer_ = 0;
  int width_ = 0;
  int height_ = 0;
};

}  // namespace steplens
