#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/error.h"

namespace steplens {

/// Input that is played into ImGui, one event a frame, as if somebody used mouse and keyboard.
class Script {
 public:
  Script() = default;
  /// Lines: move P, click P, double_click P, right_click P, drag P P, wheel N, key NAME, type TEXT,
  /// wait. P is "X Y" or the name of a mark. Empty lines and those with # pass. ConfigError names
  /// the line.
  explicit Script(std::string_view text, std::string_view source);

  bool is_done() const { return events_.empty(); }
  /// The next event needs to see what the ones before it led to.
  bool needs_settled_frame() const {
    return !events_.empty() && events_.front().kind == Event::Kind::kMove;
  }
  /// Before NewFrame: plays the next event. ConfigError if a mark is not on the screen.
  void play_next();

 private:
  struct Event {
    enum class Kind { kMove, kButton, kWheel, kKey, kCharacter, kWait };
    Kind kind = Kind::kWait;
    std::string mark;  // Of a move; empty: x and y.
    float x = 0;
    float y = 0;
    int code = 0;  // Button, key or character.
    bool is_down = false;
    std::size_t line = 0;
  };

  void add_position(std::vector<std::string>& words, std::size_t line);
  void add_button(int button, bool is_down, std::size_t line);

  std::string source_;
  std::deque<Event> events_;
};

}  // namespace steplens
