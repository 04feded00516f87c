#include "viewer/app/gui.h"

#include <fstream>
#include <utility>

#include <backends/imgui_impl_opengl3.h>
#include <epoxy/gl.h>
#include <imgui.h>

#include "harness/error.h"
#include "viewer/draw/marks.h"

namespace steplens {

Gui::Gui(const ThemeOptions& options) : options_(options) {
  ImGui::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;  // Settings are the application's.
  io.ConfigWindowsMoveFromTitleBarOnly = true;
  theme_ = make_theme(options);
  if (!ImGui_ImplOpenGL3_Init("#version 330")) {
    ImGui::DestroyContext();
    throw DeviceError("no OpenGL 3.3 here: ImGui cannot load its functions");
  }
}

Gui::~Gui() {
  ImGui_ImplOpenGL3_Shutdown();
  ImGui::DestroyContext();
}

void Gui::set_theme(const ThemeOptions& options) {
  options_ = options;
  theme_ = make_theme(options);
#if IMGUI_VERSION_NUM < 19200
  ImGui_ImplOpenGL3_DestroyFontsTexture();
  ImGui_ImplOpenGL3_CreateFontsTexture();
#endif
}

void Gui::begin_frame() {
  ImGui_ImplOpenGL3_NewFrame();
  ImGui::NewFrame();
}

void Gui::end_frame(int width, int height) {
  ImGui::Render();
  const ImVec4 ground = ImGui::ColorConvertU32ToFloat4(theme_.background);
  glViewport(0, 0, width, height);
  glClearColor(ground.x, ground.y, ground.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
}

StateFile::StateFile(std::filesystem::path path) : path_(std::move(path)) {
  set_marks_enabled(!path_.empty());
}

void StateFile::update(const Application& application, const Theme& theme) {
  if (path_.empty()) return;
  std::string text =
      application.state(theme).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (text == last_) return;
  // Whole for every reader, but not synced to the disk: that would hold the window up.
  const std::filesystem::path temporary = path_.string() + ".new";
  std::ofstream(temporary) << text;
  std::filesystem::rename(temporary, path_);
  last_ = std::move(text);
}

}  // namespace steplens
