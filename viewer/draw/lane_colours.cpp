#include "viewer/draw/lane_colours.h"

namespace steplens {
namespace {

ToneColours kernel_colours(const Theme& theme) {
  ToneColours colours;
  colours.fill(theme.muted);
  for (std::size_t i = 0; i < kNumKernelCategories; ++i) {
    colours[i] = theme.colour_of(static_cast<KernelCategory>(i));
  }
  return colours;
}

ToneColours range_colours(const Theme& theme) {
  ToneColours colours;
  const ImU32 structure = mix(theme.surface, theme.muted, 0.5F);
  colours.fill(structure);
  for (Tone tone = 1; tone < kStructureTone; ++tone) {
    colours[tone] = theme.colour_of(static_cast<Phase>(tone));
  }
  // Modules are many: four quiet shades that no phase has, so that phases and kernels keep the eye.
  constexpr std::array kPlaces = {2, 4, 7, 9};
  for (std::size_t i = 0; i < kNumModuleTones; ++i) {
    const ImU32 colour = theme.colour_of(series_swatch(static_cast<std::size_t>(kPlaces[i])));
    colours[kFirstModuleTone + i] = mix(theme.surface, colour, 0.5F);
  }
  return colours;
}

ToneColours call_colours(const Theme& theme) {
  ToneColours colours;
  colours.fill(mix(theme.surface, theme.muted, 0.55F));
  const auto set = [&](ApiTone tone, ImU32 colour) {
    colours[static_cast<std::size_t>(tone)] = colour;
  };
  set(ApiTone::kLaunch, mix(theme.surface, theme.accent, 0.75F));
  set(ApiTone::kCopy, theme.colour_of(KernelCategory::kCopy));
  set(ApiTone::kAllocator, theme.warning);
  set(ApiTone::kWait, mix(theme.surface, theme.bad, 0.75F));
  set(ApiTone::kGraph, mix(theme.surface, theme.good, 0.75F));
  return colours;
}

}  // namespace

ToneColours tone_colours(const Theme& theme, LaneKind kind) {
  switch (kind) {
    case LaneKind::kStream:
    case LaneKind::kGraph:
    case LaneKind::kOperators: return kernel_colours(theme);
    case LaneKind::kSteps:
    case LaneKind::kPhases:
    case LaneKind::kModules:
    case LaneKind::kRanges: return range_colours(theme);
    case LaneKind::kCalls:
    case LaneKind::kSyncs: break;
  }
  return call_colours(theme);
}

}  // namespace steplens
