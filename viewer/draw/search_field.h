#pragma once

#include <array>
#include <string>
#include <string_view>

#include "viewer/draw/theme.h"

namespace steplens {

/// Does `text` contain `wanted`, upper and lower case alike? Everything contains nothing.
bool contains_ignoring_case(std::string_view text, std::string_view wanted);

/// A text field that filters what is beside it. Escape empties it.
class SearchField {
 public:
  /// `hint` says what is searched.
  void draw(const Theme& theme, const char* hint, float width);
  /// The next `draw` puts the cursor into it.
  void focus() { wants_focus_ = true; }
  void clear() { buffer_ = {}; }
  std::string text() const { return buffer_.data(); }
  void set_text(std::string_view text);
  bool matches(std::string_view candidate) const {
    return contains_ignoring_case(candidate, buffer_.data());
  }

 private:
  std::array<char, 256> buffer_ = {};  // ImGui edits a buffer; longer words find nothing anyhow.
  bool wants_focus_ = false;
};

}  // namespace steplens
