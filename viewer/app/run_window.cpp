#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <epoxy/gl.h>
#include <fmt/format.h>
#include <imgui.h>

#include "harness/error.h"
#include "viewer/app/gui.h"
#include "viewer/app/png.h"
#include "viewer/app/session.h"

namespace steplens {
namespace {

// After an event ImGui needs frames to settle: hover, then click, then what the click opened.
constexpr int kNumFramesAfterEvent = 3;

std::string glfw_error() {
  const char* text = nullptr;
  glfwGetError(&text);
  return text == nullptr ? "unknown reason" : text;
}

/// GLFW and one window with a current OpenGL context.
class Window {
 public:
  [[nodiscard]] Window(int width, int height) {
    if (glfwInit() == GLFW_FALSE) fail();
    glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
    glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
    glfwWindowHint(GLFW_SCALE_TO_MONITOR, GLFW_TRUE);
    handle_ = glfwCreateWindow(width, height, "Steplens", nullptr, nullptr);
    if (handle_ == nullptr) fail();
    glfwMakeContextCurrent(handle_);
    glfwSwapInterval(1);
  }
  ~Window() {
    glfwDestroyWindow(handle_);
    glfwTerminate();
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  GLFWwindow* handle() const { return handle_; }

  float scale() const {
    float x = 1;
    float y = 1;
    glfwGetWindowContentScale(handle_, &x, &y);
    return std::max(x, y);
  }

 private:
  [[noreturn]] static void fail() {
    const std::string reason = glfw_error();
    glfwTerminate();
    throw DeviceError(fmt::format(
        "no window: {}; without a display, --screenshot out.png draws into a file", reason));
  }

  GLFWwindow* handle_ = nullptr;
};

// What the window's callbacks leave for the loop.
struct Inbox {
  struct PressedKey {
    int key;
    int modifiers;
  };
  std::vector<std::filesystem::path> dropped;
  std::vector<PressedKey> pressed_keys;
};

void on_key(GLFWwindow* window, int key, int /*scancode*/, int action, int modifiers) {
  if (action != GLFW_PRESS || key < 0) return;
  Inbox& inbox = *static_cast<Inbox*>(glfwGetWindowUserPointer(window));
  inbox.pressed_keys.push_back({.key = key, .modifiers = modifiers});
}

/// ImGui 1.86 looks at keys once a frame: one that went down and up since the last frame, as on a
/// slow machine, would be lost. This holds it down for the next frame.
class ShortKeys {
 public:
  /// Before a frame.
  void hold([[maybe_unused]] std::vector<Inbox::PressedKey>& pressed) {
#if IMGUI_VERSION_NUM < 18700
    ImGuiIO& io = ImGui::GetIO();
    for (const Inbox::PressedKey& one : pressed) {
      if (static_cast<std::size_t>(one.key) >= std::size(io.KeysDown) || io.KeysDown[one.key])
        continue;
      io.KeysDown[one.key] = true;
      io.KeyCtrl = (one.modifiers & GLFW_MOD_CONTROL) != 0;
      io.KeyShift = (one.modifiers & GLFW_MOD_SHIFT) != 0;
      held_.push_back(one.key);
    }
#endif
    pressed.clear();
  }
  /// After it.
  void release() {
#if IMGUI_VERSION_NUM < 18700
    ImGuiIO& io = ImGui::GetIO();
    for (const int key : held_) io.KeysDown[key] = false;
    if (!held_.empty()) {
      io.KeyCtrl = io.KeysDown[GLFW_KEY_LEFT_CONTROL] || io.KeysDown[GLFW_KEY_RIGHT_CONTROL];
      io.KeyShift = io.KeysDown[GLFW_KEY_LEFT_SHIFT] || io.KeysDown[GLFW_KEY_RIGHT_SHIFT];
    }
    held_.clear();
#endif
  }

 private:
#if IMGUI_VERSION_NUM < 18700
  std::vector<int> held_;
#endif
};

void on_drop(GLFWwindow* window, int num_paths, const char** paths) {
  Inbox& inbox = *static_cast<Inbox*>(glfwGetWindowUserPointer(window));
  inbox.dropped.assign(paths, paths + num_paths);
}

class Session {
 public:
  Session(const ViewerOptions& options, const Settings& settings)
      : options_(options),
        window_(options.width > 0 ? options.width : settings.window_width,
                options.height > 0 ? options.height : settings.window_height),
        gui_({.kind = options.theme.value_or(settings.theme),
              .scale = options.scale > 0 ? options.scale : window_.scale(),
              .only_built_in_font = options.only_built_in_font}),
        application_(options, settings, [] { glfwPostEmptyEvent(); }),
        state_file_(options.dump_state) {
    glfwSetWindowUserPointer(window_.handle(), &inbox_);
    glfwSetDropCallback(window_.handle(), &on_drop);
    glfwSetKeyCallback(window_.handle(), &on_key);
    // Installs its callbacks in front of those that are there.
    ImGui_ImplGlfw_InitForOpenGL(window_.handle(), true);
  }
  ~Session() { ImGui_ImplGlfw_Shutdown(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int run() {
    int num_frames_left = kNumFramesAfterEvent;
    double redraw_in_s = -1;
    while (glfwWindowShouldClose(window_.handle()) == GLFW_FALSE) {
      if (num_frames_left > 0) {
        glfwPollEvents();
        --num_frames_left;
      } else {
        state_file_.update(application_, gui_.theme());
        if (redraw_in_s > 0) {
          glfwWaitEventsTimeout(redraw_in_s);
        } else if (redraw_in_s < 0) {
          glfwWaitEvents();
        } else {
          glfwPollEvents();
        }
        num_frames_left = kNumFramesAfterEvent - 1;
      }
      if (!inbox_.dropped.empty()) application_.open(std::exchange(inbox_.dropped, {}));
      follow_scale();
      const FrameRequests requests = draw();
      redraw_in_s = requests.redraw_in_s;
      if (requests.wants_quit) break;
      if (requests.wants_other_theme) {
        ThemeOptions theme = gui_.theme_options();
        theme.kind = theme.kind == ThemeKind::kDark ? ThemeKind::kLight : ThemeKind::kDark;
        gui_.set_theme(theme);
        num_frames_left = kNumFramesAfterEvent;
      }
    }
    state_file_.update(application_, gui_.theme());
    return keep_settings();
  }

 private:
  void follow_scale() {
    ThemeOptions theme = gui_.theme_options();
    const float scale = options_.scale > 0 ? options_.scale : window_.scale();
    if (scale == theme.scale) return;
    theme.scale = scale;
    gui_.set_theme(theme);
  }

  FrameRequests draw() {
    ImGui_ImplGlfw_NewFrame();
    short_keys_.hold(inbox_.pressed_keys);
    gui_.begin_frame();
    const FrameRequests requests = application_.draw(gui_.theme());
    short_keys_.release();
    int width = 0;
    int height = 0;
    glfwGetFramebufferSize(window_.handle(), &width, &height);
    gui_.end_frame(width, height);
    if (requests.wants_screenshot) save_picture(width, height);
    glfwSwapBuffers(window_.handle());
    const std::string title = application_.window_title();
    if (title != title_) {
      glfwSetWindowTitle(window_.handle(), title.c_str());
      title_ = title;
    }
    return requests;
  }

  // Never over a file that is there.
  void save_picture(int width, int height) {
    std::filesystem::path path = application_.picture_name();
    const std::string stem = path.stem().string();
    std::error_code error;
    for (int number = 2; std::filesystem::exists(path, error); ++number) {
      path = fmt::format("{}-{}.png", stem, number);
    }
    try {
      write_png(path, read_framebuffer(width, height));
      application_.show_notice(
          fmt::format("Saved {}", std::filesystem::absolute(path, error).string()));
    } catch (const ConfigError& failure) {
      application_.show_notice(failure.what());
    }
  }

  int keep_settings() {
    Settings settings = application_.settings_to_keep();
    settings.theme = gui_.theme_options().kind;
    glfwGetWindowSize(window_.handle(), &settings.window_width, &settings.window_height);
    const std::string error = write_settings(settings);
    if (!error.empty()) fmt::print(stderr, "steplens-viewer: settings are lost: {}\n", error);
    return 0;
  }

  ViewerOptions options_;
  Window window_;
  Gui gui_;
  Application application_;
  StateFile state_file_;
  Inbox inbox_;
  ShortKeys short_keys_;
  std::string title_;
};

}  // namespace

int run_window(const ViewerOptions& options) { return Session(options, read_settings()).run(); }

}  // namespace steplens
