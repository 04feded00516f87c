#include "viewer/draw/keys.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include <imgui.h>
#if IMGUI_VERSION_NUM < 18700
#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#endif

namespace steplens {
namespace {

#if IMGUI_VERSION_NUM < 18700
using NativeKey = int;  // Before 1.87 ImGui takes the window system's own codes.
#define SL_KEY(glfw_name, imgui_name) GLFW_KEY_##glfw_name
#else
using NativeKey = ImGuiKey;
#define SL_KEY(glfw_name, imgui_name) ImGuiKey_##imgui_name
#endif

// In the order of Key.
constexpr std::array kNativeKeys = {
    SL_KEY(A, A),
    SL_KEY(C, C),
    SL_KEY(D, D),
    SL_KEY(F, F),
    SL_KEY(M, M),
    SL_KEY(O, O),
    SL_KEY(P, P),
    SL_KEY(Q, Q),
    SL_KEY(S, S),
    SL_KEY(T, T),
    SL_KEY(W, W),
    SL_KEY(1, 1),
    SL_KEY(2, 2),
    SL_KEY(3, 3),
    SL_KEY(4, 4),
    SL_KEY(5, 5),
    SL_KEY(6, 6),
    SL_KEY(7, 7),
    SL_KEY(8, 8),
    SL_KEY(9, 9),
    SL_KEY(0, 0),
    SL_KEY(SLASH, Slash),
    SL_KEY(ESCAPE, Escape),
    SL_KEY(ENTER, Enter),
    SL_KEY(TAB, Tab),
    SL_KEY(SPACE, Space),
    SL_KEY(BACKSPACE, Backspace),
    SL_KEY(LEFT, LeftArrow),
    SL_KEY(RIGHT, RightArrow),
    SL_KEY(UP, UpArrow),
    SL_KEY(DOWN, DownArrow),
    SL_KEY(HOME, Home),
    SL_KEY(END, End),
    SL_KEY(PAGE_UP, PageUp),
    SL_KEY(PAGE_DOWN, PageDown),
    SL_KEY(EQUAL, Equal),
    SL_KEY(MINUS, Minus),
};
#undef SL_KEY
static_assert(kNativeKeys.size() == static_cast<std::size_t>(Key::kMinus) + 1);

// In the order of Key, for scripts.
constexpr std::array<std::string_view, kNativeKeys.size()> kNames = {
    "a",    "c",     "d",      "f",       "m",         "o",     "p",         "q",    "s",     "t",
    "w",    "1",     "2",      "3",       "4",         "5",     "6",         "7",    "8",     "9",
    "0",    "slash", "escape", "enter",   "tab",       "space", "backspace", "left", "right", "up",
    "down", "home",  "end",    "page_up", "page_down", "plus",  "minus"};

NativeKey native(Key key) { return kNativeKeys[static_cast<std::size_t>(key)]; }

bool has_modifier(const ImGuiIO& io) { return io.KeyCtrl || io.KeyAlt || io.KeySuper; }

}  // namespace

bool is_pressed(Key key, bool repeats) {
  const ImGuiIO& io = ImGui::GetIO();
  return !io.WantTextInput && !has_modifier(io) && ImGui::IsKeyPressed(native(key), repeats);
}

bool is_pressed_with_control(Key key) {
  const ImGuiIO& io = ImGui::GetIO();
  return io.KeyCtrl && !io.KeyAlt && !io.KeySuper && ImGui::IsKeyPressed(native(key), false);
}

bool is_held(Key key) {
  const ImGuiIO& io = ImGui::GetIO();
  return !io.WantTextInput && !has_modifier(io) && ImGui::IsKeyDown(native(key));
}

bool is_question_mark_pressed() {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.WantTextInput) return false;
  // Where '?' is elsewhere than above the slash, the typed character tells.
  return (io.KeyShift && is_pressed(Key::kSlash)) ||
         std::ranges::find(io.InputQueueCharacters, ImWchar('?')) != io.InputQueueCharacters.end();
}

bool key_from_name(std::string_view name, Key& key) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return false;
  key = static_cast<Key>(found - kNames.begin());
  return true;
}

void play_key(Key key, bool is_down) {
#if IMGUI_VERSION_NUM < 18700
  ImGui::GetIO().KeysDown[native(key)] = is_down;
#else
  ImGui::GetIO().AddKeyEvent(native(key), is_down);
#endif
}

}  // namespace steplens
