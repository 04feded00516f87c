#pragma once

#include <string>

#include "viewer/draw/search_field.h"
#include "viewer/draw/theme.h"
#include "viewer/draw/timeline_search.h"

namespace steplens {

/// What was pressed.
struct ToolbarEvents {
  bool wants_next_hit = false;
  bool wants_previous_hit = false;
  bool wants_no_highlight = false;
  bool wants_fit = false;
  int zero_step_change = 0;
};

/// The line above the timeline. `highlight`: what another panel made stand out; empty: nothing.
ToolbarEvents draw_timeline_toolbar(const Theme& theme, SearchField& field,
                                    const TimelineSearch& search, const std::string& highlight,
                                    int zero_step);

}  // namespace steplens
