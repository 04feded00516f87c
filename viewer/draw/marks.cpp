#include "viewer/draw/marks.h"

namespace steplens {
namespace {

struct Marks {
  bool is_enabled = false;
  std::map<std::string, MarkedRect, std::less<>> rects;
};

Marks& state() {
  static Marks marks;
  return marks;
}

}  // namespace

void mark(std::string_view name) {
  if (state().is_enabled) mark(name, ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
}

void mark(std::string_view name, ImVec2 low, ImVec2 high) {
  if (state().is_enabled) state().rects[std::string(name)] = {.low = low, .high = high};
}

void set_marks_enabled(bool is_enabled) { state().is_enabled = is_enabled; }

bool are_marks_enabled() { return state().is_enabled; }

const std::map<std::string, MarkedRect, std::less<>>& marks() { return state().rects; }

void begin_marks() { state().rects.clear(); }

}  // namespace steplens
