#pragma once

#include <imgui.h>

namespace steplens {

/// ImGui::BeginChild with the style's padding inside, whether or not it has a border; the flag for
/// it moved with 1.90. Ends with ImGui::EndChild.
bool begin_padded_child(const char* id, ImVec2 size, bool has_border, ImGuiWindowFlags flags = 0);

}  // namespace steplens
