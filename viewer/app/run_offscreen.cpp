#include <chrono>
#include <cstdio>
#include <thread>

#include <fmt/format.h>
#include <imgui.h>

#include "harness/files.h"
#include "viewer/app/gui.h"
#include "viewer/app/offscreen.h"
#include "viewer/app/script.h"
#include "viewer/app/session.h"
#include "viewer/draw/marks.h"

namespace steplens {
namespace {

constexpr int kDefaultWidth = 1440;
constexpr int kDefaultHeight = 900;
constexpr float kFrameS = 1.0F / 60;
// ImGui lays windows out in their first frame and tables in their second; panels that ask for data
// in a frame show it in the next.
constexpr int kNumSettlingFrames = 6;

}  // namespace

int run_offscreen(const ViewerOptions& options) {
  const int width = options.width > 0 ? options.width : kDefaultWidth;
  const int height = options.height > 0 ? options.height : kDefaultHeight;
  Script script;
  if (!options.script.empty()) script = Script(read_file(options.script), options.script.string());
  const Offscreen offscreen(width, height);
  Gui gui({.kind = options.theme.value_or(ThemeKind::kDark),
           .scale = options.scale > 0 ? options.scale : 1,
           .only_built_in_font = options.only_built_in_font});
  // Always the same picture: nothing that is remembered.
  Application application(options, Settings{}, [] {});
  StateFile state_file(options.dump_state);
  set_marks_enabled(true);

  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = {static_cast<float>(width), static_cast<float>(height)};
  io.DeltaTime = kFrameS;
  const auto draw_frame = [&] {
    gui.begin_frame();
    const FrameRequests requests = application.draw(gui.theme());
    gui.end_frame(width, height);
    if (application.is_busy()) std::this_thread::sleep_for(std::chrono::milliseconds(25));
    return requests;
  };
  const auto settle = [&] {
    for (int num_quiet = 0; num_quiet < kNumSettlingFrames; ++num_quiet) {
      const FrameRequests requests = draw_frame();
      if (application.is_busy() || requests.redraw_in_s == 0) num_quiet = 0;
    }
  };
  settle();
  while (!script.is_done()) {
    if (script.needs_settled_frame()) settle();
    script.play_next();
    draw_frame();
  }
  settle();
  write_png(options.screenshot, offscreen.picture());
  state_file.update(application, gui.theme());
  if (application.error().empty()) return 0;
  fmt::print(stderr, "steplens-viewer: {}\n", application.error());
  return 2;
}

}  // namespace steplens
