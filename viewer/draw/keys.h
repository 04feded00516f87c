#pragma once

#include <cstdint>
#include <string_view>

namespace steplens {

/// The keys that the viewer knows; Dear ImGui's own names changed with 1.87.
enum class Key : std::uint8_t {
  kA,
  kC,
  kD,
  kF,
  kM,
  kO,
  kP,
  kQ,
  kS,
  kT,
  kW,
  k1,
  k2,
  k3,
  k4,
  k5,
  k6,
  k7,
  k8,
  k9,
  k0,
  kSlash,
  kEscape,
  kEnter,
  kTab,
  kSpace,
  kBackspace,
  kLeft,
  kRight,
  kUp,
  kDown,
  kHome,
  kEnd,
  kPageUp,
  kPageDown,
  kPlus,
  kMinus,
};

/// The key went down in this frame (or repeats), without Control, Alt or Super, and no text field
/// wants it.
bool is_pressed(Key key, bool repeats = false);
/// The same with Control.
bool is_pressed_with_control(Key key);
/// The key is held, under the same conditions.
bool is_held(Key key);
/// Shift and slash: '?' on most keyboards.
bool is_question_mark_pressed();

/// "f", "7", "escape", "left", "plus", ... Returns false if no key is called so.
bool key_from_name(std::string_view name, Key& key);
/// As if the key went down or up; before NewFrame.
void play_key(Key key, bool is_down);

}  // namespace steplens
