#include "viewer/draw/timeline_details.h"

#include <algorithm>

#include <imgui.h>

#include "reports/format.h"
#include "viewer/draw/child.h"
#include "viewer/draw/counter_painter.h"
#include "viewer/draw/fact_tooltip.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/text.h"

namespace steplens {
namespace {

constexpr float kColumnUnits = 330;
constexpr float kLabelUnits = 104;

void show_gap(const Theme& theme, const TraceModel& model, const TimelinePick& picked) {
  if (picked.end_ns <= picked.start_ns) return;
  SliceFacts facts{.title = "Nothing here"};
  facts.add("For", format_duration_ns(static_cast<double>(picked.end_ns - picked.start_ns)));
  facts.add("From", moment_text(model, picked.start_ns));
  show_facts(theme, facts);
}

void show_counter(const Theme& theme, const TimelineSide& side, const CounterSeries& series,
                  double axis_ns) {
  if (series.points().empty()) return;
  const std::int64_t time_ns = side.origin_ns + static_cast<std::int64_t>(axis_ns);
  const auto value = series.value_at(time_ns);
  SliceFacts facts{.title = series.name()};
  facts.add("Value", value ? counter_text(*value, series.unit()) : std::string("none yet"));
  facts.add("At", moment_text(*side.model, time_ns));
  show_facts(theme, facts);
}

}  // namespace

void TimelineTooltip::show(const Theme& theme, const std::vector<TimelineSide>& sides,
                           const TimeAxis& axis, const TimelinePick& picked) {
  switch (picked.kind) {
    case TimelinePick::Kind::kSlice:
      if (picked.slice != slice_) {
        slice_ = picked.slice;
        facts_ = facts_of(*sides[picked.slice.side].model, picked.slice.ref);
      }
      show_facts(theme, facts_);
      break;
    case TimelinePick::Kind::kStretch:
      show_facts(theme,
                 facts_of_stretch(*sides[picked.slice.side].model, picked.slice.ref.lane,
                                  picked.slice.ref.lane_row, picked.start_ns, picked.end_ns));
      break;
    case TimelinePick::Kind::kGap: show_gap(theme, *sides[picked.item->side].model, picked); break;
    case TimelinePick::Kind::kCounter: {
      const TimelineSide& side = sides[picked.item->side];
      show_counter(theme, side, side.model->counters[picked.item->index],
                   axis.ns_of(ImGui::GetIO().MousePos.x));
      break;
    }
    default: break;
  }
}

DetailEvents draw_facts_pane(const Theme& theme, const SliceFacts& facts, bool is_operation,
                             bool has_counterpart) {
  DetailEvents events;
  ImGui::PushStyleColor(ImGuiCol_ChildBg, theme.surface);
  begin_padded_child("##selected", {0, 0}, true);
  ImGui::PopStyleColor();
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {theme.px(8), theme.px(3)});
  const float room = ImGui::GetContentRegionAvail().x;
  text_in(theme.accent, fitted(facts.title, room - theme.px(240)));
  ImGui::SameLine(room - theme.px(196));
  if (has_counterpart) {
    events.wants_counterpart = ImGui::SmallButton("Other arm");
    mark("timeline.counterpart");
  } else {
    ImGui::Dummy({0, 0});
  }
  if (is_operation) {
    ImGui::SameLine(room - theme.px(86));
    events.wants_kernel_table = ImGui::SmallButton("Kernel table");
    mark("timeline.to_kernels");
  }
  const float top = ImGui::GetCursorPosY();
  const float left = ImGui::GetCursorPosX();
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const auto num_lines = std::max<std::size_t>(
      1, static_cast<std::size_t>((ImGui::GetContentRegionAvail().y + theme.px(3)) / line));
  for (std::size_t i = 0; i < facts.lines.size(); ++i) {
    const auto& [label, value] = facts.lines[i];
    const std::size_t column = i / num_lines;
    const float x = left + theme.px(kColumnUnits) * static_cast<float>(column);
    const float y = top + line * static_cast<float>(i % num_lines);
    ImGui::SetCursorPos({x, y});
    text_in(theme.muted, label);
    ImGui::SetCursorPos({x + theme.px(kLabelUnits), y});
    text_in(theme.text, fitted(value, theme.px(kColumnUnits - kLabelUnits - 16)));
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", value.c_str());
  }
  ImGui::PopStyleVar();
  ImGui::EndChild();
  return events;
}

void draw_category_legend(const Theme& theme, const std::vector<TimelineSide>& sides) {
  std::vector<bool> is_there(kNumKernelCategories);
  for (const TimelineSide& side : sides) {
    if (side.model == nullptr) continue;
    for (const NameId name : side.model->names.operations()) {
      is_there[static_cast<std::size_t>(side.model->names.category(name))] = true;
    }
  }
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {theme.px(14), 0});
  bool is_first = true;
  for (std::size_t i = 0; i < is_there.size(); ++i) {
    if (!is_there[i]) continue;
    const auto category = static_cast<KernelCategory>(i);
    if (!is_first) ImGui::SameLine();
    is_first = false;
    legend_entry(theme, theme.colour_of(category), swatch_of(category).label);
  }
  ImGui::PopStyleVar();
}

}  // namespace steplens
