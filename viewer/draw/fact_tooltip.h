#pragma once

#include "viewer/data/slice_facts.h"
#include "viewer/draw/theme.h"

namespace steplens {

/// A tooltip at the cursor: the title, then labels and values in two columns.
void show_facts(const Theme& theme, const SliceFacts& facts);

/// The same, as items of the current window.
void draw_facts(const Theme& theme, const SliceFacts& facts, float wrap_width);

}  // namespace steplens
