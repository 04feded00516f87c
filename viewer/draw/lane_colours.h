#pragma once

#include <array>

#include <imgui.h>

#include "viewer/data/trace_model.h"
#include "viewer/draw/theme.h"

namespace steplens {

/// The colours of a lane's slices, by tone.
using ToneColours = std::array<ImU32, kMaxTones>;

ToneColours tone_colours(const Theme& theme, LaneKind kind);

}  // namespace steplens
