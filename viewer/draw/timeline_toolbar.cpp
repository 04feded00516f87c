#include "viewer/draw/timeline_toolbar.h"

#include <fmt/format.h>
#include <imgui.h>

#include "reports/format.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/text.h"

namespace steplens {
namespace {

void draw_hits(const Theme& theme, const SearchField& field, const TimelineSearch& search,
               const std::string& highlight, ToolbarEvents& events) {
  ImGui::SameLine();
  events.wants_previous_hit = ImGui::ArrowButton("##previous_hit", ImGuiDir_Left);
  mark("timeline.previous_hit");
  ImGui::SameLine(0, 2);
  events.wants_next_hit |= ImGui::ArrowButton("##next_hit", ImGuiDir_Right);
  mark("timeline.next_hit");
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  const auto count = static_cast<std::int64_t>(search.num_hits());
  const bool is_of_highlight = !highlight.empty() && field.text().empty();
  std::string text = fmt::format("{} {}", format_count(count), count == 1 ? "hit" : "hits");
  if (is_of_highlight) text += fmt::format(" of {}", fitted(highlight, theme.px(300)));
  text_in(theme.muted, search.is_running() ? std::string("searching...") : text);
  if (!is_of_highlight) return;
  ImGui::SameLine();
  events.wants_no_highlight = ImGui::SmallButton("clear");
  mark("timeline.clear_highlight");
}

}  // namespace

ToolbarEvents draw_timeline_toolbar(const Theme& theme, SearchField& field,
                                    const TimelineSearch& search, const std::string& highlight,
                                    int zero_step) {
  ToolbarEvents events;
  field.draw(theme, "kernel, range or call", theme.px(230));
  events.wants_next_hit = ImGui::IsItemDeactivatedAfterEdit() && search.is_active();
  if (search.is_active()) draw_hits(theme, field, search, highlight, events);
  const float right = ImGui::GetWindowWidth() - theme.px(14);
  ImGui::SameLine(right - theme.px(300));
  ImGui::AlignTextToFramePadding();
  text_in(theme.muted, "Zero at the start of");
  ImGui::SameLine();
  if (ImGui::ArrowButton("##step_before", ImGuiDir_Left)) events.zero_step_change = -1;
  mark("timeline.step_before");
  ImGui::SameLine(0, theme.px(6));
  text_in(theme.text, fmt::format("step {}", zero_step));
  ImGui::SameLine(0, theme.px(6));
  if (ImGui::ArrowButton("##step_after", ImGuiDir_Right)) events.zero_step_change = 1;
  mark("timeline.step_after");
  ImGui::SameLine(right - theme.px(42));
  events.wants_fit = ImGui::Button("Fit");
  mark("timeline.fit");
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Show everything (double click)");
  return events;
}

}  // namespace steplens
