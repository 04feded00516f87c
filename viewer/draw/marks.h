#pragma once

#include <map>
#include <string>
#include <string_view>

#include <imgui.h>

/// Where things are on the screen, by name: --dump-state tells it to scripts that use the mouse.
/// Costs nothing unless it is switched on. For the thread that draws.
namespace steplens {

struct MarkedRect {
  ImVec2 low;
  ImVec2 high;
};

/// Remembers the last item.
void mark(std::string_view name);
void mark(std::string_view name, ImVec2 low, ImVec2 high);

void set_marks_enabled(bool is_enabled);
bool are_marks_enabled();
/// Those of the last frame that was drawn whole.
const std::map<std::string, MarkedRect, std::less<>>& marks();
/// Forgets the last frame's: called when a frame begins.
void begin_marks();

}  // namespace steplens
