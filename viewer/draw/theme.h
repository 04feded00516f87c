#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <imgui.h>

#include "reports/palette.h"

struct ImFont;

namespace steplens {

enum class ThemeKind : std::uint8_t { kDark, kLight };
std::string_view name_of(ThemeKind kind);  // "dark", "light"

/// Fonts and colours of a frame. Colours are ImGui's packed ones.
struct Theme {
  ThemeKind kind = ThemeKind::kDark;
  float scale = 1;  // Pixels a unit: all lengths below and in panels are multiplied by it.

  ImFont* body = nullptr;     // Proportional.
  ImFont* heading = nullptr;  // Larger.
  ImFont* mono = nullptr;     // Digits and names of kernels.

  ImU32 background = 0;  // Of the window,
  ImU32 surface = 0;     // of tables and lanes,
  ImU32 raised = 0;      // of headers, toolbars and tooltips.
  ImU32 border = 0;
  ImU32 grid = 0;  // Lines of axes, barely there.
  ImU32 text = 0;
  ImU32 muted = 0;  // Units, secondary text.
  ImU32 accent = 0;
  ImU32 selected = 0;  // Ground of the selected row.
  ImU32 good = 0;      // Faster.
  ImU32 bad = 0;       // Slower.
  ImU32 warning = 0;

  float px(float units) const { return units * scale; }

  ImU32 colour_of(KernelCategory category) const { return colour_of(swatch_of(category)); }
  /// Between the ground and the swatch: idle time must not outshine work.
  ImU32 colour_of(IdleClass idle) const;
  ImU32 colour_of(MemoryOwner owner) const { return colour_of(swatch_of(owner)); }
  ImU32 colour_of(Phase phase) const { return colour_of(swatch_of(phase)); }
  ImU32 colour_of(const Swatch& swatch) const;
};

struct ThemeOptions {
  ThemeKind kind = ThemeKind::kDark;
  float scale = 1;
  bool only_built_in_font = false;  // The same pixels on every machine.
};

/// Sets the style of the current ImGui context and its fonts: Roboto or Inter,
/// and JetBrains Mono, where installed; ImGui's own otherwise. Fonts are to be loaded outside of a
/// frame; the renderer's texture must be made anew afterwards.
Theme make_theme(const ThemeOptions& options);

/// `alpha` 0 to 1 replaces the colour's own.
ImU32 with_alpha(ImU32 colour, float alpha);
/// `share` 0 gives `from`, 1 gives `to`; opaque.
ImU32 mix(ImU32 from, ImU32 to, float share);
/// Black or white, whichever reads better on `ground`.
ImU32 text_on(ImU32 ground);

}  // namespace steplens
