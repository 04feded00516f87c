#include "viewer/draw/child.h"

namespace steplens {

bool begin_padded_child(const char* id, ImVec2 size, bool has_border, ImGuiWindowFlags flags) {
#if IMGUI_VERSION_NUM < 19000
  return ImGui::BeginChild(id, size, has_border, flags | ImGuiWindowFlags_AlwaysUseWindowPadding);
#else
  const ImGuiChildFlags border = has_border ? 1 : 0;  // Borders: its name changed with 1.91.1.
  return ImGui::BeginChild(id, size, border | ImGuiChildFlags_AlwaysUseWindowPadding, flags);
#endif
}

}  // namespace steplens
