#include "viewer/app/offscreen.h"

#include <array>

#include <epoxy/egl.h>
#include <epoxy/gl.h>
#include <fmt/format.h>

#include "harness/error.h"

namespace steplens {
namespace {

[[noreturn]] void fail(const char* call) {
  throw DeviceError(fmt::format(
      "{}: EGL error 0x{:x}; drawing without a display needs Mesa's EGL (packages libegl1, "
      "libgl1-mesa-dri)",
      call, eglGetError()));
}

EGLContext make_context(EGLDisplay display) {
  if (eglBindAPI(EGL_OPENGL_API) == EGL_FALSE) fail("eglBindAPI");
  constexpr std::array<EGLint, 5> kWanted = {EGL_SURFACE_TYPE, EGL_DONT_CARE, EGL_RENDERABLE_TYPE,
                                             EGL_OPENGL_BIT, EGL_NONE};
  constexpr std::array<EGLint, 7> kVersion = {EGL_CONTEXT_MAJOR_VERSION,
                                              3,
                                              EGL_CONTEXT_MINOR_VERSION,
                                              3,
                                              EGL_CONTEXT_OPENGL_PROFILE_MASK,
                                              EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT,
                                              EGL_NONE};
  EGLConfig config = EGL_NO_CONFIG_KHR;
  EGLint num_configs = 0;
  eglChooseConfig(display, kWanted.data(), &config, 1, &num_configs);
  return eglCreateContext(display, num_configs > 0 ? config : EGL_NO_CONFIG_KHR, EGL_NO_CONTEXT,
                          kVersion.data());
}

}  // namespace

Offscreen::Offscreen(int width, int height) : width_(width), height_(height) {
  display_ = eglGetPlatformDisplayEXT(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
  if (display_ == EGL_NO_DISPLAY) fail("eglGetPlatformDisplayEXT");
  if (eglInitialize(display_, nullptr, nullptr) == EGL_FALSE) fail("eglInitialize");
  context_ = make_context(display_);
  if (context_ == EGL_NO_CONTEXT ||
      eglMakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, context_) == EGL_FALSE) {
    eglTerminate(display_);
    fail("eglCreateContext");
  }
  glGenTextures(1, &texture_);
  glBindTexture(GL_TEXTURE_2D, texture_);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, width, height, 0, GL_RGBA, GL_UNSIGNED_BYTE, nullptr);
  glGenFramebuffers(1, &framebuffer_);
  glBindFramebuffer(GL_FRAMEBUFFER, framebuffer_);
  glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, texture_, 0);
}

Offscreen::~Offscreen() {
  glDeleteFramebuffers(1, &framebuffer_);
  glDeleteTextures(1, &texture_);
  eglMakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
  eglDestroyContext(display_, context_);
  eglTerminate(display_);
}

Picture Offscreen::picture() const { return read_framebuffer(width_, height_); }

}  // namespace steplens
