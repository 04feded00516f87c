#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <imgui.h>

#include "reports/format.h"
#include "viewer/data/background_task.h"
#include "viewer/data/memory_series.h"
#include "viewer/data/slice_facts.h"
#include "viewer/draw/child.h"
#include "viewer/draw/fact_tooltip.h"
#include "viewer/draw/keys.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/memory_chart.h"
#include "viewer/draw/text.h"
#include "viewer/draw/timeline_navigation.h"
#include "viewer/panels/panel.h"

namespace steplens {
namespace {

constexpr float kAxisUnits = 76;      // Of the labels on the left.
constexpr float kAccountUnits = 348;  // Of the pane on the right.
constexpr float kTicksUnits = 22;
constexpr std::size_t kNumModules = 7;

using Model = std::shared_ptr<const TraceModel>;
using Series = std::optional<MemorySeries>;

/// One arm.
struct MemorySide {
  std::string arm;
  Model model;
  Series series;
  bool is_ready = false;
  std::unique_ptr<BackgroundTask<Series>> task;
  std::string message;  // What stands there instead of a chart.

  const CounterSeries* reserved() const {
    const auto it = std::ranges::find(model->counters, "reserved", &CounterSeries::name);
    return it == model->counters.end() ? nullptr : &*it;
  }
};

class MemoryPanel final : public Panel {
 public:
  std::string_view key() const override { return "memory"; }
  const char* title() const override { return "Memory"; }

  void reset() override {
    sides_.clear();
    view_ = {};
    needs_fit_ = true;
  }

  void draw(PanelContext& context) override {
    update_sides(context);
    const bool has_series =
        std::ranges::any_of(sides_, [](const MemorySide& side) { return side.series.has_value(); });
    if (!has_series) {
      draw_empty(context);
      return;
    }
    draw_legend(context.theme);
    draw_sides(context);
  }

  nlohmann::json state() const override {
    nlohmann::json sides = nlohmann::json::array();
    for (const MemorySide& side : sides_) {
      nlohmann::json entry = {{"arm", side.arm}, {"message", side.message}};
      if (side.series) {
        entry["num_points"] = side.series->points.size();
        entry["peak_bytes"] = side.series->use.peak.allocated_bytes();
      }
      sides.push_back(std::move(entry));
    }
    return {
        {"sides", sides}, {"start_ns", view_.axis.start_ns}, {"ns_per_px", view_.axis.ns_per_px}};
  }

 private:
  // The memory run of the arm, or its trace where that has allocations.
  void update_sides(PanelContext& context) {
    std::vector<std::string> arms = {context.selection.arm_a};
    if (!context.selection.arm_b.empty()) arms.push_back(context.selection.arm_b);
    sides_.resize(arms.size());
    for (std::size_t i = 0; i < arms.size(); ++i) {
      MemorySide& side = sides_[i];
      Model model;
      std::string message;
      const bool has_memory_run = context.document.find_trace(arms[i], true) != nullptr;
      const TraceEntry* entry = context.document.find_trace(arms[i], has_memory_run);
      if (entry == nullptr) {
        message = "no memory run of this arm";
      } else if (context.document.want_trace(arms[i], has_memory_run) == nullptr) {
        message = entry->error.empty() ? "loading..." : entry->error;
        context.requests.needs_next_frame |= entry->error.empty();
      } else {
        model = entry->model;
      }
      if (side.arm != arms[i] || side.model != model) {
        side = {};
        side.arm = arms[i];
        side.model = model;
        needs_fit_ = true;
        if (model != nullptr) start(side);
      }
      if (side.task != nullptr) {
        context.requests.needs_next_frame = true;
        if (auto series = side.task->take()) {
          side.series = std::move(*series);
          side.task = nullptr;
          side.is_ready = true;
          needs_fit_ = true;
        }
        message = "counting...";
      }
      if (side.is_ready && !side.series) message = "this trace has no allocations";
      side.message = message;
    }
  }

  static void start(MemorySide& side) {
    const auto work = [model = side.model](LoadProgress&) { return memory_series(model->tables); };
    constexpr std::size_t kMaxAllocationsAtOnce = 200'000;  // Some 100 ns each.
    if (side.model->tables.allocs.size() <= kMaxAllocationsAtOnce) {
      LoadProgress progress;
      side.series = work(progress);
      side.is_ready = true;
    } else {
      side.task = std::make_unique<BackgroundTask<Series>>();
      side.task->start(work);
    }
  }

  void draw_empty(PanelContext& context) const {
    const bool is_waiting = std::ranges::any_of(sides_, [](const MemorySide& side) {
      return side.message == "loading..." || side.message == "counting...";
    });
    if (is_waiting) {
      empty_state(context.theme, "Loading allocations", "The chart appears when they are there.");
      return;
    }
    empty_state(context.theme, "No allocations to show",
                fmt::format("{}: {}. `steplens matrix` records every allocation of each of its own "
                            "arms after the traces, in blocks of the kind memory.",
                            sides_[0].arm, sides_[0].message));
  }

  static void draw_legend(const Theme& theme) {
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {theme.px(14), theme.px(6)});
    for (std::size_t i = 0; i < kNumMemoryOwners; ++i) {
      const auto owner = static_cast<MemoryOwner>(i);
      if (i > 0) ImGui::SameLine();
      legend_entry(theme, theme.colour_of(owner), label_of(owner));
    }
    ImGui::SameLine();
    text_in(theme.muted, "line: held by the cache     strip below: phase");
    ImGui::PopStyleVar();
  }

  double max_bytes() const {
    double max = 1;
    for (const MemorySide& side : sides_) {
      if (!side.series) continue;
      max = std::max(max, static_cast<double>(side.series->use.peak.allocated_bytes()));
      if (const CounterSeries* reserved = side.reserved()) {
        max = std::max(max, reserved->extent().max);
      }
    }
    return max * 1.06;
  }

  // Zero of the axis: the first step of each.
  static std::int64_t origin_of(const MemorySide& side) { return side.model->origin_ns(0); }

  void fit() {
    double from = 0;
    double to = 1;
    for (const MemorySide& side : sides_) {
      if (!side.series) continue;
      const auto& points = side.series->points;
      from = std::min(from, static_cast<double>(points.front().time_ns - origin_of(side)));
      to = std::max(to, static_cast<double>(points.back().time_ns - origin_of(side)));
    }
    view_.axis.show(from, to, 0.01);
    needs_fit_ = false;
  }

  void draw_sides(PanelContext& context) {
    const Theme& theme = context.theme;
    const ImVec2 low = ImGui::GetCursorScreenPos();
    const ImVec2 room = ImGui::GetContentRegionAvail();
    view_.axis.left = low.x + theme.px(kAxisUnits);
    view_.axis.width =
        std::max(60.0F, room.x - theme.px(kAxisUnits) - theme.px(kAccountUnits) - theme.px(20));
    if (needs_fit_) fit();
    const float bottom = low.y + room.y;
    const TimelineAreas areas{.overview_low = {low.x, low.y},
                              .overview_high = {low.x + 1, low.y + 1},
                              .low = {low.x, low.y},
                              .high = {view_.axis.right(), bottom},
                              .lanes_top = low.y,
                              .content_height = 0};
    const TimelineEvents events = view_.update(theme, areas, view_.axis);
    if (events.is_double_clicked || is_pressed(Key::kF)) fit();
    if (is_pressed(Key::kEscape)) view_.measured.reset();
    context.requests.needs_next_frame |= events.is_moving;

    ImDrawList& list = *ImGui::GetWindowDrawList();
    const float ticks_height = theme.px(kTicksUnits);
    const float header = ImGui::GetTextLineHeight() + theme.px(8);
    const float height = (room.y - ticks_height) / static_cast<float>(sides_.size());
    for (const Tick& tick : ticks_of(view_.axis, theme.px(90))) {
      if (tick.label.empty()) continue;
      draw_text(list, std::round(view_.axis.x_of(tick.time_ns)),
                bottom - ticks_height + theme.px(4), theme.muted, tick.label,
                HorizontalAlign::kCentre);
    }
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      const MemorySide& side = sides_[i];
      const float top = low.y + height * static_cast<float>(i);
      const std::string name =
          sides_.size() > 1 ? fmt::format("{}   {}", i == 0 ? "A" : "B", side.arm) : side.arm;
      draw_text(list, view_.axis.left, top + theme.px(2), theme.text, name);
      if (!side.series) {
        draw_text(list, view_.axis.left, top + header + theme.px(10), theme.muted, side.message);
        continue;
      }
      const float chart_bottom = top + height - theme.px(10);
      const MemoryChart chart{.series = &*side.series,
                              .reserved = side.reserved(),
                              .origin_ns = origin_of(side),
                              .max_bytes = max_bytes()};
      draw_memory_chart(list, theme, chart, view_.axis, top + header, chart_bottom);
      draw_measured(list, theme, top + header, chart_bottom);
      const std::optional<std::size_t> hovered =
          hovered_point(side, *side.series, events, top + header, chart_bottom);
      if (hovered) {
        const float x = std::round(ImGui::GetIO().MousePos.x);
        list.AddLine({x, top + header}, {x, chart_bottom}, with_alpha(theme.text, 0.5F));
      }
      mark(fmt::format("memory.{}", i == 0 ? "a" : "b"), {view_.axis.left, top + header},
           {view_.axis.right(), chart_bottom});
      ImGui::SetCursorScreenPos({low.x + room.x - theme.px(kAccountUnits), top});
      draw_account(context, side, *side.series, hovered,
                   {theme.px(kAccountUnits), height - theme.px(10)}, i);
    }
  }

  void draw_measured(ImDrawList& list, const Theme& theme, float top, float bottom) const {
    if (!view_.measured) return;
    const auto [from, to] = std::minmax(view_.measured->first, view_.measured->second);
    list.AddRectFilled({view_.axis.x_of(from), top}, {view_.axis.x_of(to), bottom},
                       with_alpha(theme.accent, 0.18F));
    draw_text(list, view_.axis.x_of(to) + theme.px(4), top + theme.px(4), theme.text,
              format_duration_ns(to - from));
  }

  std::optional<std::size_t> hovered_point(const MemorySide& side, const MemorySeries& series,
                                           const TimelineEvents& events, float top,
                                           float bottom) const {
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    if (!events.is_hovered || mouse.x < view_.axis.left || mouse.y < top || mouse.y > bottom) {
      return std::nullopt;
    }
    const auto at_ns = origin_of(side) + static_cast<std::int64_t>(view_.axis.ns_of(mouse.x - 1));
    const auto to_ns = origin_of(side) + static_cast<std::int64_t>(view_.axis.ns_of(mouse.x + 1));
    return series.largest_within(at_ns, std::max(at_ns + 1, to_ns));
  }

  // At the cursor, or at the peak.
  static void draw_account(PanelContext& context, const MemorySide& side,
                           const MemorySeries& series, std::optional<std::size_t> hovered,
                           ImVec2 size, std::size_t index) {
    const Theme& theme = context.theme;
    const MemoryAccount& peak = series.use.peak;
    ImGui::PushStyleColor(ImGuiCol_ChildBg, theme.surface);
    ImGui::PushID(static_cast<int>(index));
    begin_padded_child("##account", size, true);
    ImGui::PopStyleColor();
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {theme.px(8), theme.px(3)});
    const float width = ImGui::GetContentRegionAvail().x;
    const OwnerBytes bytes = hovered ? series.points[*hovered].by_owner : peak.by_owner;
    const std::int64_t time_ns = hovered ? series.points[*hovered].time_ns : peak.time_ns;
    text_in(theme.accent, hovered ? "At the cursor" : "At the peak");
    const std::string total = format_bytes(static_cast<double>(sum_of(bytes)));
    ImGui::SameLine(ImGui::GetCursorPosX() + width - text_width(total));
    text_in(theme.text, total);
    const Phase phase = hovered ? series.points[*hovered].phase : peak.phase;
    std::string place = moment_text(*side.model, time_ns);
    if (phase != Phase::kNone) place += fmt::format(", {}", name_of(phase));
    if (!hovered && !peak.module.empty()) place += fmt::format(", {}", peak.module);
    text_in(theme.muted, fitted(place, width));
    ImGui::Dummy({0, theme.px(3)});
    draw_owners(theme, bytes, static_cast<double>(peak.allocated_bytes()), width);
    if (!hovered) draw_peak_facts(theme, series.use, width);
    ImGui::PopStyleVar();
    ImGui::EndChild();
    ImGui::PopID();
  }

  static void draw_peak_facts(const Theme& theme, const MemoryUse& use, float width) {
    const auto line = [&](std::string_view label, const std::string& value, ImU32 colour) {
      text_in(colour, fitted(label, width - text_width(value) - theme.px(12)));
      ImGui::SameLine(ImGui::GetCursorPosX() + width - text_width(value));
      text_in(theme.text, value);
    };
    const auto bytes_line = [&](std::string_view label, const std::optional<std::int64_t>& bytes) {
      if (bytes) line(label, format_bytes(static_cast<double>(*bytes)), theme.muted);
    };
    ImGui::Dummy({0, theme.px(4)});
    bytes_line("Held by the cache", use.peak.reserved_bytes);
    bytes_line("of it free", use.peak.cache_slack_bytes());
    bytes_line("Driver, at most", use.driver_used_peak_bytes);
    if (use.peak.modules.empty()) return;
    ImGui::Dummy({0, theme.px(4)});
    text_in(theme.accent, "Allocated by module");
    for (std::size_t i = 0; i < use.peak.modules.size() && i < kNumModules; ++i) {
      const ModuleMemory& module = use.peak.modules[i];
      line(module.module, format_bytes(static_cast<double>(sum_of(module.by_owner))), theme.text);
    }
    if (use.peak.modules.size() > kNumModules) {
      text_in(theme.muted, fmt::format("and {} more", use.peak.modules.size() - kNumModules));
    }
  }

  std::vector<MemorySide> sides_;
  TimelineNavigation view_;
  bool needs_fit_ = true;
};

}  // namespace

std::unique_ptr<Panel> make_memory_panel() { return std::make_unique<MemoryPanel>(); }

}  // namespace steplens
