#pragma once

#include <filesystem>
#include <string>

#include "viewer/app/application.h"
#include "viewer/draw/theme.h"

namespace steplens {

/// An ImGui context with its OpenGL renderer and a theme; OpenGL's context must be current.
class Gui {
 public:
  [[nodiscard]] explicit Gui(const ThemeOptions& options);
  ~Gui();
  Gui(const Gui&) = delete;
  Gui& operator=(const Gui&) = delete;

  const Theme& theme() const { return theme_; }
  /// Outside of a frame.
  void set_theme(const ThemeOptions& options);
  const ThemeOptions& theme_options() const { return options_; }

  void begin_frame();
  /// Draws into the framebuffer that is bound.
  void end_frame(int width, int height);

 private:
  ThemeOptions options_;
  Theme theme_;
};

/// Writes the state where --dump-state wants it, if it is another one than before.
class StateFile {
 public:
  explicit StateFile(std::filesystem::path path);
  void update(const Application& application, const Theme& theme);

 private:
  std::filesystem::path path_;
  std::string last_;
};

}  // namespace steplens
