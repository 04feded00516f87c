#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include <imgui.h>

#include "viewer/app/application.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/text.h"

/// What is there when nothing is open: how to open something, and what was open before.
namespace steplens {
namespace {

constexpr float kColumnUnits = 640;

// ImGui edits a buffer of fixed size; longer paths than this are none of the system's.
constexpr std::size_t kMaxPath = 4096;

bool path_field(const Theme& theme, std::string& text) {
  std::array<char, kMaxPath> buffer = {};
  text.copy(buffer.data(), buffer.size() - 1);
  ImGui::SetNextItemWidth(theme.px(kColumnUnits) - theme.px(90));
  const bool is_entered =
      ImGui::InputTextWithHint("##path", "Path of a bundle, a sweep or a trace", buffer.data(),
                               buffer.size(), ImGuiInputTextFlags_EnterReturnsTrue);
  mark("path");
  text = buffer.data();
  return is_entered;
}

}  // namespace

void Application::draw_start_page(const Theme& theme) {
  const float left = std::max(theme.px(14), (ImGui::GetWindowWidth() - theme.px(kColumnUnits)) / 2);
  ImGui::SetCursorPos({left, std::max(theme.px(24), ImGui::GetWindowHeight() * 0.16F)});
  ImGui::BeginGroup();
  ImGui::PushFont(theme.heading);
  text_in(theme.text, !error_.empty() ? "This cannot be opened"
                      : document_     ? "Open another document"
                                      : "Nothing is open");
  ImGui::PopFont();
  text_in(theme.muted, "Drop a bundle's folder or a trace onto this window, or name it here:");
  ImGui::Dummy({0, theme.px(4)});
  const bool is_entered = path_field(theme, path_input_);
  ImGui::SameLine();
  const bool is_clicked = ImGui::Button("Open##path", {theme.px(82), 0});
  mark("open_path");
  if ((is_entered || is_clicked) && !path_input_.empty()) open({path_input_});

  ImGui::Dummy({0, theme.px(2)});
  if (!opening_.empty()) {
    text_in(theme.muted, fmt::format("Opening {} ...", opening_));
  } else if (!error_.empty()) {
    ImGui::PushTextWrapPos(left + theme.px(kColumnUnits));
    text_in(theme.bad, error_);
    mark("error");
    ImGui::PopTextWrapPos();
    text_in(
        theme.muted,
        "What opens: bundles and sweeps of `steplens matrix`, trace.slt, Chrome or Kineto JSON\n"
        "(.gz too), and the SQLite that `nsys export` writes.");
  }

  ImGui::Dummy({0, theme.px(18)});
  text_in(theme.muted, settings_.recent.empty() ? "Nothing was open before" : "Recent");
  std::size_t index = 0;
  for (const std::filesystem::path& path : settings_.recent) {
    const std::string name = path.has_filename() ? path.filename().string() : path.string();
    ImGui::PushID(static_cast<int>(index));
    const ImVec2 position = ImGui::GetCursorScreenPos();
    const bool is_picked =
        ImGui::Selectable("##recent", false, 0, {theme.px(kColumnUnits), theme.px(22)});
    mark(fmt::format("recent.{}", index));
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const float name_width = std::min(text_width(name), theme.px(300));
    draw_text(list, position.x, position.y + theme.px(2), theme.accent,
              fitted(name, theme.px(300)));
    draw_text(
        list, position.x + name_width + theme.px(12), position.y + theme.px(2), theme.muted,
        fitted(path.parent_path().string(), theme.px(kColumnUnits) - name_width - theme.px(12)));
    ImGui::PopID();
    ++index;
    if (is_picked) {
      open({path});
      break;  // The list may change.
    }
  }
  ImGui::Dummy({0, theme.px(18)});
  text_in(theme.muted, "No bundle yet? This makes one:");
  ImGui::PushFont(theme.mono);
  text_in(theme.text, "steplens matrix --out runs/first");
  ImGui::PopFont();
  ImGui::EndGroup();
}

}  // namespace steplens
