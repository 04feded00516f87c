#include "viewer/draw/theme.h"

#include <array>
#include <cmath>
#include <filesystem>

namespace steplens {
namespace {

constexpr float kBodyUnits = 15;  // Heights of fonts before scaling.
constexpr float kHeadingUnits = 20;
constexpr float kMonoUnits = 13.5F;

ImU32 packed(std::string_view colour) {
  const Rgb rgb = rgb_of(colour);
  return IM_COL32(rgb.red, rgb.green, rgb.blue, 255);
}

std::filesystem::path first_existing(std::initializer_list<const char*> paths) {
  for (const char* path : paths) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) return path;
  }
  return {};
}

// Where Debian, Fedora and Arch put them.
std::filesystem::path body_path() {
  return first_existing({"/usr/share/fonts/truetype/roboto/unhinted/RobotoTTF/Roboto-Regular.ttf",
                         "/usr/share/fonts/truetype/roboto/unhinted/Roboto-Regular.ttf",
                         "/usr/share/fonts/truetype/roboto/hinted/Roboto-Regular.ttf",
                         "/usr/share/fonts/google-roboto/Roboto-Regular.ttf",
                         "/usr/share/fonts/opentype/inter/Inter-Regular.otf",
                         "/usr/share/fonts/truetype/inter/Inter-Regular.ttf",
                         "/usr/share/fonts/inter/Inter-Regular.otf",
                         "/usr/share/fonts/TTF/Roboto-Regular.ttf"});
}

std::filesystem::path mono_path() {
  return first_existing({"/usr/share/fonts/truetype/jetbrains-mono/JetBrainsMono-Regular.ttf",
                         "/usr/share/fonts/jetbrains-mono-fonts/JetBrainsMono-Regular.otf",
                         "/usr/share/fonts/TTF/JetBrainsMono-Regular.ttf"});
}

// Latin with its supplements, and the signs that the viewer draws: dashes, bullets, arrows.
const ImWchar* glyph_ranges() {
  static constexpr std::array<ImWchar, 11> kRanges = {
      0x0020, 0x024F, 0x0370, 0x03FF, 0x2010, 0x2044, 0x2190, 0x21FF, 0x2200, 0x22FF, 0};
  return kRanges.data();
}

ImFont* load(const std::filesystem::path& path, float pixels) {
  ImFontAtlas& fonts = *ImGui::GetIO().Fonts;
  if (!path.empty()) {
    ImFontConfig config;
    config.OversampleH = 2;
    config.OversampleV = 1;
    ImFont* font =
        fonts.AddFontFromFileTTF(path.c_str(), std::round(pixels), &config, glyph_ranges());
    if (font != nullptr) return font;
  }
  // A bitmap of 13 pixels: sharp only at whole multiples.
  ImFontConfig config;
  config.SizePixels = 13 * std::max(1.0F, std::round(pixels / 15));
  return fonts.AddFontDefault(&config);
}

void load_fonts(Theme& theme, bool only_built_in) {
  ImGui::GetIO().Fonts->Clear();
  const std::filesystem::path body = only_built_in ? std::filesystem::path() : body_path();
  const std::filesystem::path mono = only_built_in ? std::filesystem::path() : mono_path();
  theme.body = load(body, theme.px(kBodyUnits));
  theme.heading = body.empty() ? theme.body : load(body, theme.px(kHeadingUnits));
  theme.mono = mono.empty() ? theme.body : load(mono, theme.px(kMonoUnits));
  ImGui::GetIO().FontDefault = theme.body;
}

void set_colours(Theme& theme) {
  const bool is_dark = theme.kind == ThemeKind::kDark;
  const auto pick = [&](std::string_view dark, std::string_view light) {
    return packed(is_dark ? dark : light);
  };
  theme.background = pick("#14171c", "#f6f7f9");
  theme.surface = pick("#1a1e25", "#ffffff");
  theme.raised = pick("#232932", "#eceff3");
  theme.border = pick("#323945", "#d3d9e1");
  theme.grid = pick("#262c36", "#e8ebf0");
  theme.text = pick("#e4e8ee", "#1c2128");
  theme.muted = pick("#95a0af", "#5b6675");
  theme.accent = pick("#5aa9f0", "#0b63b5");
  theme.selected = pick("#22405f", "#d4e6f8");
  theme.good = theme.colour_of(swatch_of(Verdict::kFaster));
  theme.bad = theme.colour_of(swatch_of(Verdict::kSlower));
  theme.warning = pick("#e6b450", "#8a5a00");
}

void set_style(const Theme& theme) {
  ImGuiStyle style;
  if (theme.kind == ThemeKind::kDark) {
    ImGui::StyleColorsDark(&style);
  } else {
    ImGui::StyleColorsLight(&style);
  }
  style.WindowPadding = {12, 10};
  style.FramePadding = {8, 4};
  style.CellPadding = {8, 3};
  style.ItemSpacing = {8, 6};
  style.ItemInnerSpacing = {6, 4};
  style.ScrollbarSize = 12;
  style.GrabMinSize = 10;
  style.WindowBorderSize = 0;
  style.ChildBorderSize = 1;
  style.PopupBorderSize = 1;
  style.FrameBorderSize = 0;
  style.FrameRounding = 4;
  style.ChildRounding = 4;
  style.PopupRounding = 5;
  style.WindowRounding = 0;
  style.TabRounding = 4;
  style.GrabRounding = 4;
  style.ScrollbarRounding = 6;

  const auto set = [&](ImGuiCol index, ImU32 colour) {
    style.Colors[index] = ImGui::ColorConvertU32ToFloat4(colour);
  };
  const ImU32 hovered = mix(theme.raised, theme.text, 0.08F);
  const ImU32 active = mix(theme.raised, theme.text, 0.16F);
  set(ImGuiCol_Text, theme.text);
  set(ImGuiCol_TextDisabled, theme.muted);
  set(ImGuiCol_WindowBg, theme.background);
  set(ImGuiCol_ChildBg, with_alpha(theme.background, 0));
  set(ImGuiCol_PopupBg, theme.raised);
  set(ImGuiCol_Border, theme.border);
  set(ImGuiCol_FrameBg, theme.raised);
  set(ImGuiCol_FrameBgHovered, hovered);
  set(ImGuiCol_FrameBgActive, active);
  set(ImGuiCol_MenuBarBg, theme.raised);
  set(ImGuiCol_ScrollbarBg, with_alpha(theme.background, 0));
  set(ImGuiCol_ScrollbarGrab, theme.border);
  set(ImGuiCol_ScrollbarGrabHovered, mix(theme.border, theme.text, 0.2F));
  set(ImGuiCol_ScrollbarGrabActive, mix(theme.border, theme.text, 0.35F));
  set(ImGuiCol_CheckMark, theme.accent);
  set(ImGuiCol_SliderGrab, theme.accent);
  set(ImGuiCol_SliderGrabActive, theme.accent);
  set(ImGuiCol_Button, theme.raised);
  set(ImGuiCol_ButtonHovered, hovered);
  set(ImGuiCol_ButtonActive, active);
  set(ImGuiCol_Header, theme.selected);
  set(ImGuiCol_HeaderHovered, hovered);
  set(ImGuiCol_HeaderActive, active);
  set(ImGuiCol_Separator, theme.border);
  set(ImGuiCol_Tab, with_alpha(theme.background, 0));
  set(ImGuiCol_TabHovered, hovered);
  set(ImGuiCol_TabActive, theme.raised);
  set(ImGuiCol_TabUnfocused, with_alpha(theme.background, 0));
  set(ImGuiCol_TabUnfocusedActive, theme.raised);
  set(ImGuiCol_PlotHistogram, theme.accent);
  set(ImGuiCol_TableHeaderBg, theme.raised);
  set(ImGuiCol_TableBorderStrong, theme.border);
  set(ImGuiCol_TableBorderLight, theme.grid);
  set(ImGuiCol_TableRowBg, with_alpha(theme.background, 0));
  set(ImGuiCol_TableRowBgAlt, with_alpha(theme.text, 0.025F));
  set(ImGuiCol_TextSelectedBg, with_alpha(theme.accent, 0.35F));
  set(ImGuiCol_NavHighlight, theme.accent);
  set(ImGuiCol_ModalWindowDimBg, with_alpha(theme.background, 0.6F));
  style.ScaleAllSizes(theme.scale);
  ImGui::GetStyle() = style;
}

int channel(ImU32 colour, int shift) { return static_cast<int>((colour >> shift) & 0xFFU); }

}  // namespace

std::string_view name_of(ThemeKind kind) { return kind == ThemeKind::kDark ? "dark" : "light"; }

ImU32 Theme::colour_of(const Swatch& swatch) const {
  return packed(kind == ThemeKind::kDark ? swatch.on_dark : swatch.colour);
}

ImU32 Theme::colour_of(IdleClass idle) const {
  const ImU32 pale = packed(swatch_of(idle).colour);
  return kind == ThemeKind::kDark ? mix(surface, pale, 0.5F) : pale;
}

Theme make_theme(const ThemeOptions& options) {
  Theme theme = {.kind = options.kind, .scale = options.scale};
  load_fonts(theme, options.only_built_in_font);
  set_colours(theme);
  set_style(theme);
  return theme;
}

ImU32 with_alpha(ImU32 colour, float alpha) {
  const auto alpha_255 = static_cast<ImU32>(std::lround(255 * alpha));
  return (colour & ~IM_COL32_A_MASK) | (alpha_255 << IM_COL32_A_SHIFT);
}

ImU32 mix(ImU32 from, ImU32 to, float share) {
  const auto between = [&](int shift) {
    const auto begin = static_cast<float>(channel(from, shift));
    const auto end = static_cast<float>(channel(to, shift));
    return static_cast<ImU32>(std::lround(begin + (end - begin) * share));
  };
  return IM_COL32(between(IM_COL32_R_SHIFT), between(IM_COL32_G_SHIFT), between(IM_COL32_B_SHIFT),
                  255);
}

ImU32 text_on(ImU32 ground) {
  const float luma = 0.299F * static_cast<float>(channel(ground, IM_COL32_R_SHIFT)) +
                     0.587F * static_cast<float>(channel(ground, IM_COL32_G_SHIFT)) +
                     0.114F * static_cast<float>(channel(ground, IM_COL32_B_SHIFT));
  return luma > 140 ? IM_COL32(20, 24, 30, 255) : IM_COL32(255, 255, 255, 255);
}

}  // namespace steplens
