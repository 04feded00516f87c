#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <imgui.h>

#include "viewer/app/application.h"
#include "viewer/draw/child.h"
#include "viewer/draw/keys.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/text.h"

/// How a frame is put together: top bar, tabs, banners, the panel, status bar, help.
namespace steplens {
namespace {

constexpr float kBarUnits = 44;
constexpr float kStatusUnits = 28;
constexpr float kMinUnitsForName = 1100;  // Narrower windows need the room for tabs and arms.
constexpr double kBusyRedrawS = 0.1;      // Of the progress bar.
constexpr double kCursorRedrawS = 0.4;    // Of a blinking text cursor.

void begin_bar(const char* id, float height, ImU32 colour, ImVec2 padding) {
  ImGui::PushStyleColor(ImGuiCol_ChildBg, colour);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, padding);
  ImGui::PushStyleVar(ImGuiStyleVar_ChildRounding, 0);
  begin_padded_child(id, {0, height}, false,
                     ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::PopStyleVar(2);
}

void end_bar() {
  ImGui::EndChild();
  ImGui::PopStyleColor();
}

bool bar_button(const char* label, const char* tooltip) {
  const bool is_clicked = ImGui::Button(label);
  mark(label);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", tooltip);
  return is_clicked;
}

// "A" on the colour of its side, then a list of arms. Returns true if another one was picked.
bool arm_combo(const Theme& theme, const char* id, std::string& arm,
               const std::vector<std::string>& arms, bool may_be_empty, float width) {
  bool is_changed = false;
  ImGui::SetNextItemWidth(width);
  const bool is_open = ImGui::BeginCombo(id, arm.empty() ? "nothing" : arm.c_str());
  mark(id);
  if (!is_open) return false;
  if (may_be_empty && ImGui::Selectable("nothing", arm.empty())) {
    arm.clear();
    is_changed = true;
  }
  for (const std::string& name : arms) {
    if (ImGui::Selectable(name.c_str(), name == arm)) {
      arm = name;
      is_changed = true;
    }
    mark(fmt::format("{}/{}", id, name));
  }
  ImGui::EndCombo();
  (void)theme;
  return is_changed;
}

struct KeyHelp {
  const char* keys;
  const char* what;
};
constexpr std::array<KeyHelp, 20> kKeyHelp = {{
    {"1 ... 6", "panel by its place"},
    {"/", "search"},
    {"?", "this help"},
    {"Ctrl O", "open, recent documents"},
    {"Ctrl S", "save what you see as PNG"},
    {"Ctrl T", "dark or light"},
    {"Ctrl Q", "quit"},
    {"", ""},
    {"wheel", "timeline: zoom at the cursor"},
    {"W  S", "timeline: zoom in and out"},
    {"drag", "timeline: pan"},
    {"A  D", "timeline: pan left and right"},
    {"right drag", "timeline: measure"},
    {"double click", "timeline: fit what is under the cursor"},
    {"F", "timeline: frame the selection"},
    {"M", "timeline: mark it"},
    {"Esc", "drop the selection or close this"},
    {"", ""},
    {"click a row", "select it in all panels"},
    {"double click a row", "go on: matrix to breakdown, kernels to timeline"},
}};

}  // namespace

FrameRequests Application::draw(const Theme& theme) {
  begin_marks();
  FrameRequests requests;
  collect();
  handle_keys(requests);
  selection_.hovered.reset();

  const ImGuiIO& io = ImGui::GetIO();
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(io.DisplaySize);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, 0});
  ImGui::Begin("##steplens", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse);
  draw_top_bar(theme, requests);
  draw_banners(theme);
  draw_page(theme, requests);
  draw_status_bar(theme, requests);
  ImGui::End();
  ImGui::PopStyleVar(2);
  if (shows_help_) draw_help(theme);

  const double notice_left_s = notice_.end_s - ImGui::GetTime();
  const auto redraw_within = [&](double duration_s) {
    if (requests.redraw_in_s < 0 || duration_s < requests.redraw_in_s) {
      requests.redraw_in_s = duration_s;
    }
  };
  if (notice_left_s > 0) redraw_within(notice_left_s + 0.01);
  if (loader_.is_busy()) redraw_within(kBusyRedrawS);
  if (io.WantTextInput) redraw_within(kCursorRedrawS);
  return requests;
}

void Application::draw_top_bar(const Theme& theme, FrameRequests& requests) {
  begin_bar("##top", theme.px(kBarUnits), theme.raised, {theme.px(14), theme.px(8)});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {theme.px(8), 0});
  if (ImGui::GetWindowWidth() >= theme.px(kMinUnitsForName)) {
    heading_in_line(theme, "Steplens", theme.accent);
    ImGui::SameLine(0, theme.px(18));
  }
  draw_tabs(theme);
  const float buttons_width = theme.px(190);
  if (document_) draw_arm_choice(theme);
  ImGui::SameLine(ImGui::GetWindowWidth() - buttons_width);
  ImGui::PushStyleColor(ImGuiCol_Button, with_alpha(theme.raised, 0));
  if (bar_button("Open", "Open a bundle or a trace (Ctrl O)")) {
    shows_start_page_ = !shows_start_page_;
  }
  ImGui::SameLine();
  if (bar_button("PNG", "Save what you see as PNG (Ctrl S)")) requests.wants_screenshot = true;
  ImGui::SameLine();
  if (bar_button(theme.kind == ThemeKind::kDark ? "Light" : "Dark", "Other theme (Ctrl T)")) {
    requests.wants_other_theme = true;
  }
  ImGui::SameLine();
  if (bar_button("?", "Keys (?)")) shows_help_ = !shows_help_;
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
  end_bar();
}

void Application::draw_tabs(const Theme& theme) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  bool is_first = true;
  for (const std::size_t i : shown_panels()) {
    ImGui::SameLine(0, is_first ? -1 : theme.px(2));
    is_first = false;
    const char* title = panels_[i]->title();
    const bool is_front = i == panel_index_ && document_ && !shows_start_page_;
    const ImVec2 position = ImGui::GetCursorScreenPos();
    const ImVec2 size = {text_width(title) + theme.px(20), ImGui::GetFrameHeight()};
    ImGui::PushID(static_cast<int>(i));
    const bool is_clicked = ImGui::InvisibleButton("tab", size);
    ImGui::PopID();
    mark(fmt::format("tab.{}", panels_[i]->key()));
    if (is_clicked) {
      panel_index_ = i;
      shows_start_page_ = false;
    }
    const bool is_hovered = ImGui::IsItemHovered();
    draw_text(list, position.x + size.x / 2, position.y + (size.y - ImGui::GetTextLineHeight()) / 2,
              is_front || is_hovered ? theme.text : theme.muted, title, HorizontalAlign::kCentre);
    if (is_front) {
      const float bottom = position.y + size.y + theme.px(8);
      list.AddRectFilled({position.x + theme.px(4), bottom - theme.px(3)},
                         {position.x + size.x - theme.px(4), bottom}, theme.accent);
    }
  }
}

void Application::draw_arm_choice(const Theme& theme) {
  const std::vector<std::string> arms = document_->arms();
  if (arms.size() < 2) return;
  const float room = ImGui::GetWindowWidth() - theme.px(190) - ImGui::GetItemRectMax().x;
  const float width = std::clamp((room - theme.px(150)) / 2, theme.px(60), theme.px(190));
  ImGui::SameLine(0, theme.px(20));
  ImGui::AlignTextToFramePadding();
  text_in(theme.muted, "A");
  ImGui::SameLine();
  const std::string before_a = selection_.arm_a;
  if (arm_combo(theme, "##arm_a", selection_.arm_a, arms, false, width) &&
      selection_.arm_a == selection_.arm_b) {
    selection_.arm_b = before_a;
  }
  ImGui::SameLine();
  if (ImGui::Button("swap") && !selection_.arm_b.empty()) {
    std::swap(selection_.arm_a, selection_.arm_b);
  }
  mark("swap_arms");
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Swap A and B");
  ImGui::SameLine();
  text_in(theme.muted, "B");
  ImGui::SameLine();
  const std::string before_b = selection_.arm_b;
  if (arm_combo(theme, "##arm_b", selection_.arm_b, arms, true, width) &&
      selection_.arm_a == selection_.arm_b) {
    selection_.arm_a = before_b.empty() ? selection_.arm_a : before_b;
    if (selection_.arm_a == selection_.arm_b) selection_.arm_b.clear();
  }
}

void Application::draw_banners(const Theme& theme) {
  std::vector<std::string> lines = banners();
  if (!error_.empty()) lines.insert(lines.begin(), error_);
  if (lines.empty() || (!document_ && !error_.empty())) return;
  const std::size_t num_shown = shows_all_banners_ ? lines.size() : 1;
  const float line_height = ImGui::GetTextLineHeight() + theme.px(4);
  const float height = line_height * static_cast<float>(num_shown) + theme.px(10);
  begin_bar("##banners", height, mix(theme.background, theme.warning, 0.16F),
            {theme.px(14), theme.px(6)});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {theme.px(8), theme.px(4)});
  const float room = ImGui::GetWindowWidth() - theme.px(190);
  for (std::size_t i = 0; i < num_shown; ++i) {
    text_in(theme.warning, i == 0 ? "!" : " ");
    ImGui::SameLine();
    text_in(theme.text, fitted(lines[i], room));
    if (i == 0) mark("banner");
    if (ImGui::IsItemHovered() && text_width(lines[i]) > room) {
      ImGui::SetTooltip("%s", lines[i].c_str());
    }
    if (i > 0) continue;
    ImGui::SameLine(ImGui::GetWindowWidth() - theme.px(140));
    if (lines.size() > 1) {
      const std::string more =
          shows_all_banners_ ? std::string("fewer") : fmt::format("{} more", lines.size() - 1);
      if (ImGui::SmallButton(more.c_str())) shows_all_banners_ = !shows_all_banners_;
      ImGui::SameLine();
    }
    if (ImGui::SmallButton("hide")) {
      hidden_banners_.insert(hidden_banners_.end(), lines.begin(), lines.end());
      error_.clear();
    }
    mark("hide_banners");
  }
  ImGui::PopStyleVar();
  end_bar();
}

void Application::draw_page(const Theme& theme, FrameRequests& requests) {
  const float height = ImGui::GetContentRegionAvail().y - theme.px(kStatusUnits);
  const bool is_start_page = !document_ || shows_start_page_;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {theme.px(14), theme.px(12)});
  ImGui::PushStyleVar(ImGuiStyleVar_ChildRounding, 0);
  begin_padded_child("##page", {0, height}, false);
  ImGui::PopStyleVar(2);
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {theme.px(8), theme.px(6)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {theme.px(12), theme.px(10)});
  if (is_start_page) {
    draw_start_page(theme);
  } else {
    PanelRequests panel_requests;
    PanelContext context = {.document = *document_,
                            .selection = selection_,
                            .theme = theme,
                            .requests = panel_requests};
    panels_[panel_index_]->draw(context);
    if (panel_requests.needs_next_frame) requests.redraw_in_s = 0;
    carry_out(panel_requests);
  }
  ImGui::PopStyleVar(2);
  ImGui::EndChild();
}

void Application::draw_status_bar(const Theme& theme, FrameRequests& /*requests*/) {
  begin_bar("##status", theme.px(kStatusUnits), theme.raised, {theme.px(14), theme.px(5)});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {theme.px(8), 0});
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {theme.px(6), 0});
  if (const std::optional<JobStatus> job = loader_.status()) {
    // In front of what changes its width: it must not run away from the cursor.
    if (ImGui::Button("Cancel")) loader_.cancel();
    mark("cancel");
    ImGui::SameLine();
    const float phase = static_cast<float>(std::fmod(ImGui::GetTime(), 1.0));
    ImGui::ProgressBar(job->done_ratio < 0 ? phase : job->done_ratio,
                       {theme.px(160), ImGui::GetTextLineHeight()},
                       job->done_ratio < 0 ? "" : nullptr);
    ImGui::SameLine();
    text_in(theme.muted, fmt::format("{}: {}", job->what, job->stage));
  } else if (ImGui::GetTime() < notice_.end_s) {
    text_in(theme.accent, notice_.text);
  } else if (document_) {
    std::string path;
    for (const auto& one : document_->paths) path += (path.empty() ? "" : "  ") + one.string();
    text_in(theme.muted, fitted(path, ImGui::GetWindowWidth() - theme.px(160)));
  }
  constexpr std::string_view kHint = "? keys    / search";
  draw_text(*ImGui::GetWindowDrawList(),
            ImGui::GetWindowPos().x + ImGui::GetWindowWidth() - theme.px(14),
            ImGui::GetWindowPos().y + theme.px(5), theme.muted, kHint, HorizontalAlign::kRight);
  ImGui::PopStyleVar(2);
  end_bar();
}

void Application::draw_help(const Theme& theme) {
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  ImGui::GetForegroundDrawList();
  ImGui::SetNextWindowPos({display.x / 2, display.y / 2}, ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowFocus();
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {theme.px(28), theme.px(22)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, theme.px(8));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, theme.raised);
  ImGui::Begin("##help", &shows_help_,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_AlwaysAutoResize |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove);
  ImGui::PushFont(theme.heading);
  text_in(theme.text, "Keys");
  ImGui::PopFont();
  ImGui::Dummy({0, theme.px(6)});
  for (const KeyHelp& row : kKeyHelp) {
    if (*row.keys == '\0') {
      ImGui::Dummy({0, theme.px(6)});
      continue;
    }
    ImGui::PushFont(theme.mono);
    text_in(theme.accent, row.keys);
    ImGui::PopFont();
    ImGui::SameLine(theme.px(200));
    text_in(theme.text, row.what);
  }
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Left) && !ImGui::IsWindowHovered()) {
    shows_help_ = false;
  }
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(3);
}

}  // namespace steplens
