#include "viewer/app/script.h"

#include <charconv>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <imgui.h>

#include "viewer/draw/keys.h"
#include "viewer/draw/marks.h"

namespace steplens {
namespace {

bool parse_float(const std::string& text, float& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

void move_mouse(float x, float y) {
#if IMGUI_VERSION_NUM < 18700
  ImGui::GetIO().MousePos = {x, y};
#else
  ImGui::GetIO().AddMousePosEvent(x, y);
#endif
}

void press_button(int button, bool is_down) {
#if IMGUI_VERSION_NUM < 18700
  ImGui::GetIO().MouseDown[button] = is_down;
#else
  ImGui::GetIO().AddMouseButtonEvent(button, is_down);
#endif
}

void turn_wheel(float notches) {
#if IMGUI_VERSION_NUM < 18700
  ImGui::GetIO().MouseWheel += notches;
#else
  ImGui::GetIO().AddMouseWheelEvent(0, notches);
#endif
}

}  // namespace

Script::Script(std::string_view text, std::string_view source) : source_(source) {
  std::istringstream lines{std::string(text)};
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    std::istringstream stream(line);
    std::string verb;
    if (!(stream >> verb) || verb.starts_with('#')) continue;
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    const auto fail = [&] {
      throw ConfigError(fmt::format(
          "{}: line {}: '{}' is not allowed; allowed: move, click, double_click, right_click P, "
          "drag P P, wheel N, key NAME, type TEXT, wait, where P is X Y or a name",
          source_, number, line));
    };
    float notches = 0;
    Key key = Key::kA;
    if (verb == "move" && !words.empty()) {
      add_position(words, number);
    } else if ((verb == "click" || verb == "double_click" || verb == "right_click") &&
               !words.empty()) {
      add_position(words, number);
      const int button = verb == "right_click" ? 1 : 0;
      for (int i = 0; i < (verb == "double_click" ? 2 : 1); ++i) {
        add_button(button, true, number);
        add_button(button, false, number);
      }
    } else if (verb == "drag" && words.size() >= 2) {
      add_position(words, number);
      add_button(0, true, number);
      if (words.empty()) fail();
      add_position(words, number);
      add_button(0, false, number);
    } else if (verb == "wheel" && words.size() == 1 && parse_float(words[0], notches)) {
      events_.push_back({.kind = Event::Kind::kWheel, .x = notches, .line = number});
      words.clear();
    } else if (verb == "key" && words.size() == 1 && key_from_name(words[0], key)) {
      for (const bool is_down : {true, false}) {
        events_.push_back({.kind = Event::Kind::kKey,
                           .code = static_cast<int>(key),
                           .is_down = is_down,
                           .line = number});
      }
      words.clear();
    } else if (verb == "type" && words.size() == 1) {
      for (const char c : words[0]) {
        events_.push_back({.kind = Event::Kind::kCharacter, .code = c, .line = number});
      }
      words.clear();
    } else if (verb == "wait" && words.empty()) {
      events_.push_back({.line = number});
    } else {
      fail();
    }
    if (!words.empty()) fail();
  }
}

void Script::add_position(std::vector<std::string>& words, std::size_t line) {
  Event event = {.kind = Event::Kind::kMove, .line = line};
  if (words.size() >= 2 && parse_float(words[0], event.x) && parse_float(words[1], event.y)) {
    words.erase(words.begin(), words.begin() + 2);
  } else {
    event.mark = words.front();
    words.erase(words.begin());
  }
  events_.push_back(std::move(event));
}

void Script::add_button(int button, bool is_down, std::size_t line) {
  events_.push_back(
      {.kind = Event::Kind::kButton, .code = button, .is_down = is_down, .line = line});
}

void Script::play_next() {
  if (events_.empty()) return;
  const Event event = events_.front();
  events_.pop_front();
  switch (event.kind) {
    case Event::Kind::kMove: {
      float x = event.x;
      float y = event.y;
      if (!event.mark.empty()) {
        const auto found = marks().find(event.mark);
        if (found == marks().end()) {
          throw ConfigError(fmt::format("{}: line {}: '{}' is not on the screen", source_,
                                        event.line, event.mark));
        }
        x = (found->second.low.x + found->second.high.x) / 2;
        y = (found->second.low.y + found->second.high.y) / 2;
      }
      move_mouse(x, y);
      break;
    }
    case Event::Kind::kButton: press_button(event.code, event.is_down); break;
    case Event::Kind::kWheel: turn_wheel(event.x); break;
    case Event::Kind::kKey: play_key(static_cast<Key>(event.code), event.is_down); break;
    case Event::Kind::kCharacter:
      ImGui::GetIO().AddInputCharacter(static_cast<unsigned>(event.code));
      break;
    case Event::Kind::kWait: break;
  }
}

}  // namespace steplens
