#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <imgui.h>

#include "reports/format.h"
#include "viewer/data/step_parts.h"
#include "viewer/draw/data_table.h"
#include "viewer/draw/kernel_changes.h"
#include "viewer/draw/keys.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/search_field.h"
#include "viewer/draw/segmented.h"
#include "viewer/draw/stacked_bars.h"
#include "viewer/draw/text.h"
#include "viewer/draw/waterfall_chart.h"
#include "viewer/panels/panel.h"

namespace steplens {
namespace {

// Of the reference's step; smaller changes share a bar of the waterfall, as in the report.
constexpr double kMinBarRatio = 0.0005;

std::string key_of(const Highlight& highlight) {
  return highlight.kind == HighlightKind::kIdle ? "idle." + highlight.key : highlight.key;
}

Highlight highlight_of(const std::string& key, StepDimension dimension) {
  if (const std::optional<IdleClass> idle = idle_of_key(key)) {
    return {.kind = HighlightKind::kIdle, .key = std::string(name_of(*idle))};
  }
  if (key == "rest" || key == "idle") return {};
  switch (dimension) {
    case StepDimension::kCategory: return {.kind = HighlightKind::kCategory, .key = key};
    case StepDimension::kPhase: return {.kind = HighlightKind::kPhase, .key = key};
    case StepDimension::kModule: break;
  }
  return {.kind = HighlightKind::kModule, .key = key};
}

ImU32 colour_of(const Theme& theme, const std::string& key, StepDimension dimension,
                std::size_t index) {
  if (const std::optional<IdleClass> idle = idle_of_key(key)) return theme.colour_of(*idle);
  if (key == "idle") return theme.colour_of(IdleClass::kDependency);
  if (key == "rest" || key == "none") return theme.colour_of(KernelCategory::kOther);
  if (dimension == StepDimension::kCategory) {
    return theme.colour_of(category_of_key(key).value_or(KernelCategory::kOther));
  }
  if (dimension == StepDimension::kPhase)
    return theme.colour_of(phase_of_key(key).value_or(Phase::kOther));
  return theme.colour_of(series_swatch(index));
}

/// How large each part is for both sides; found for all panels of one pair of arms.
struct Comparison {
  const TracedArm* a = nullptr;
  const TracedArm* b = nullptr;
  std::unique_ptr<const Waterfall> waterfall;  // Null: nothing to compare.
};

class BreakdownPanel final : public Panel {
 public:
  std::string_view key() const override { return "breakdown"; }
  const char* title() const override { return "Breakdown"; }

  void reset() override {
    comparison_ = {};
    kernel_rows_.clear();
    search_.clear();
    table_.invalidate_order();
  }
  void focus_search() override { search_.focus(); }

  void draw(PanelContext& context) override {
    if (context.document.traces.empty()) {
      empty_state(context.theme, "No traces in this bundle",
                  "A breakdown needs a trace of each arm. `steplens matrix` records them after the "
                  "rounds, unless it is told --trace-steps 0.");
      return;
    }
    collect_arms(context);
    if (arms_.empty()) {
      draw_absent(context);
      return;
    }
    if (is_pressed(Key::kEscape)) context.selection.highlight = {};
    draw_head(context);
    draw_bars(context);
    draw_comparison(context);
  }

  nlohmann::json state() const override {
    nlohmann::json waterfall = nullptr;
    if (comparison_.waterfall) {
      nlohmann::json rows = nlohmann::json::array();
      for (const WaterfallRow& row : waterfall_rows(*comparison_.waterfall, dimension())) {
        rows.push_back({{"key", row.key}, {"difference_ns", row.difference_ns}});
      }
      waterfall = {{"difference_ns", comparison_.waterfall->difference_ns}, {"rows", rows}};
    }
    nlohmann::json names = nlohmann::json::array();
    for (const TracedArm* arm : arms_) names.push_back(arm->arm);
    return {{"dimension", name_of(dimension())},
            {"arms", names},
            {"waterfall", waterfall},
            {"search", search_.text()},
            {"num_kernels", kernel_rows_.size()}};
  }

  nlohmann::json settings() const override { return {{"dimension", dimension_index_}}; }
  void restore(const nlohmann::json& settings) override {
    dimension_index_ =
        std::min(settings.value("dimension", std::size_t{0}), kNumStepDimensions - 1);
  }

 private:
  StepDimension dimension() const { return static_cast<StepDimension>(dimension_index_); }

  // All arms' breakdowns: the bars stand side by side.
  void collect_arms(PanelContext& context) {
    arms_.clear();
    for (const std::string& arm : context.document.arms()) {
      const TracedArm* traced = context.document.want_breakdown(arm);
      if (traced != nullptr && traced->breakdown.total.step_ns > 0) arms_.push_back(traced);
    }
    const auto find = [&](const std::string& name) -> const TracedArm* {
      const auto found = std::ranges::find(arms_, name, &TracedArm::arm);
      return found == arms_.end() ? nullptr : *found;
    };
    const TracedArm* a = find(context.selection.arm_a);
    const TracedArm* b = find(context.selection.arm_b);
    if (a == comparison_.a && b == comparison_.b) return;
    comparison_ = {.a = a, .b = b, .waterfall = nullptr};
    if (a != nullptr && b != nullptr) {
      std::optional<Waterfall> waterfall = compute_waterfall(a->breakdown, b->breakdown);
      if (waterfall) comparison_.waterfall = std::make_unique<Waterfall>(std::move(*waterfall));
    }
    rows_highlight_ = {.kind = HighlightKind::kNone, .key = "-"};  // Rows are of another pair.
  }

  static void draw_absent(const PanelContext& context) {
    const bool is_loading =
        std::ranges::any_of(context.document.traces, [](const TraceEntry& entry) {
          return entry.is_breakdown_wanted && entry.breakdown == nullptr &&
                 entry.breakdown_error.empty();
        });
    if (is_loading) {
      empty_state(context.theme, "Reading the traces", "Each arm appears as soon as it is known.");
    } else {
      empty_state(context.theme, "No trace has a step with work on the device",
                  "See the banner and the Run panel for what was recorded.");
    }
  }

  void draw_head(PanelContext& context) {
    const Theme& theme = context.theme;
    heading_in_line(theme, "Where a step's time goes");
    ImGui::SameLine(0, theme.px(20));
    constexpr std::array kLabels = {"Category", "Phase", "Module"};
    if (segmented(theme, "dimension", kLabels, dimension_index_) &&
        context.selection.highlight.kind != HighlightKind::kKernel) {
      context.selection.highlight = {};
    }
    ImGui::SameLine(0, theme.px(14));
    text_in(theme.muted, "mean of the traced steps, on the device's clock");
    align_right(button_width("Copy CSV"));
    if (ImGui::Button("Copy CSV##bars")) {
      ImGui::SetClipboardText(bars_csv().c_str());
      context.requests.notice = fmt::format("{} arms copied", arms_.size());
    }
    mark("copy_bars_csv");
  }

  std::string bars_csv() const {
    std::vector<TableColumn> columns = {{.header = "arm"}, {.header = "step_ns"}};
    std::vector<TableRow> rows;
    const auto parts = step_parts(arms_, dimension());
    for (const StepPart& part : parts.front()) columns.push_back({.header = part.key + "_ns"});
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      TableRow row = {
          .cells = {{.text = arms_[i]->arm},
                    {.text = fmt::format("{:.1f}", arms_[i]->breakdown.mean_step_ns())}}};
      for (const StepPart& part : parts[i]) {
        row.cells.push_back({.text = fmt::format("{:.1f}", part.duration_ns)});
      }
      rows.push_back(std::move(row));
    }
    return to_csv(columns, rows);
  }

  void draw_bars(PanelContext& context) {
    const Theme& theme = context.theme;
    const auto parts = step_parts(arms_, dimension());
    std::vector<StackedBar> bars;
    double longest_ns = 0;
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      const double step_ns = arms_[i]->breakdown.mean_step_ns();
      longest_ns = std::max(longest_ns, step_ns);
      StackedBar bar = {
          .name = arms_[i]->arm,
          .note = format_duration_ns(step_ns) + (is_distorted(*arms_[i]) ? "  distorted" : ""),
          .total_ns = step_ns};
      if (bar.name == context.selection.arm_a) bar.badge = "A";
      if (bar.name == context.selection.arm_b) bar.badge = "B";
      for (std::size_t p = 0; p < parts[i].size(); ++p) {
        const StepPart& part = parts[i][p];
        bar.parts.push_back({.key = part.key,
                             .label = part.label,
                             .duration_ns = part.duration_ns,
                             .colour = colour_of(theme, part.key, dimension(), p),
                             .is_hatched = idle_of_key(part.key).has_value()});
      }
      bars.push_back(std::move(bar));
    }
    // At most half of the page: many arms scroll.
    const float height =
        std::min(stacked_bars_height(theme, bars.size()), ImGui::GetContentRegionAvail().y * 0.45F);
    const std::string highlight = key_of(context.selection.highlight);
    const bool is_known = std::ranges::any_of(
        bars.front().parts, [&](const BarPart& part) { return part.key == highlight; });
    ImGui::BeginChild("##bars", {0, height}, false);
    const BarEvents events =
        stacked_bars(theme, bars, is_known ? highlight : std::string(), longest_ns);
    ImGui::EndChild();
    std::optional<std::size_t> part =
        bar_legend(theme, bars.front().parts, is_known ? highlight : "");
    if (events.clicked) part = events.clicked->part;
    if (part) toggle_highlight(context.selection, bars.front().parts[*part].key);
    if (events.clicked_name) choose_arm(context, bars[*events.clicked_name].name);
    ImGui::Dummy({0, theme.px(6)});
  }

  void toggle_highlight(Selection& selection, const std::string& key) const {
    const Highlight wanted = highlight_of(key, dimension());
    selection.highlight = selection.highlight == wanted ? Highlight{} : wanted;
  }

  static void choose_arm(PanelContext& context, const std::string& arm) {
    const std::string reference = context.document.reference_of(arm);
    context.selection.arm_a = reference.empty() ? arm : reference;
    context.selection.arm_b = reference.empty() ? std::string() : arm;
  }

  void draw_comparison(PanelContext& context) {
    const Theme& theme = context.theme;
    ImGui::Separator();
    ImGui::Dummy({0, theme.px(2)});
    if (!comparison_.waterfall) {
      empty_state(theme, "Nothing to compare",
                  context.selection.arm_b.empty()
                      ? "Choose a second arm at the top, or click a bar's name."
                      : "One of the two arms has no trace with a step.");
      return;
    }
    const float half = std::floor(ImGui::GetContentRegionAvail().x * 0.43F);
    draw_waterfall_side(context, half);
    ImGui::SameLine(0, theme.px(18));
    draw_kernels(context);
  }

  void draw_waterfall_side(PanelContext& context, float width) {
    const Theme& theme = context.theme;
    ImGui::BeginGroup();
    const Waterfall& waterfall = *comparison_.waterfall;
    const double change_ns = static_cast<double>(waterfall.difference_ns);
    text_in(theme.text, fmt::format("From {} to {}: {}{} a step", comparison_.a->arm,
                                    comparison_.b->arm, format_duration_ns(std::abs(change_ns)),
                                    change_ns < 0 ? " less" : " more"));
    const std::vector<WaterfallRow> rows =
        with_small_ones_folded(waterfall_rows(waterfall, dimension()),
                               kMinBarRatio * static_cast<double>(waterfall.reference_step_ns));
    const std::vector<StepPart> order = step_parts(arms_, dimension()).front();
    std::vector<WaterfallBar> bars;
    for (const WaterfallRow& row : rows) {
      const auto place = std::ranges::find(order, row.key, &StepPart::key);
      bars.push_back({.key = row.key,
                      .label = row.label,
                      .difference_ns = static_cast<double>(row.difference_ns),
                      .colour = colour_of(theme, row.key, dimension(),
                                          static_cast<std::size_t>(place - order.begin())),
                      .tooltip = fmt::format("{}\n{} to {} a step", row.label,
                                             format_duration_ns(row.reference_ns),
                                             format_duration_ns(row.candidate_ns))});
    }
    const std::string highlight = key_of(context.selection.highlight);
    const bool is_known =
        std::ranges::any_of(bars, [&](const WaterfallBar& bar) { return bar.key == highlight; });
    const WaterfallChart chart = {.reference = comparison_.a->arm,
                                  .candidate = comparison_.b->arm,
                                  .reference_ns = static_cast<double>(waterfall.reference_step_ns),
                                  .candidate_ns = static_cast<double>(waterfall.candidate_step_ns),
                                  .bars = bars};
    const std::optional<std::size_t> clicked =
        draw_waterfall(theme, chart, is_known ? highlight : std::string(),
                       {width, ImGui::GetContentRegionAvail().y});
    if (clicked) toggle_highlight(context.selection, bars[*clicked].key);
    ImGui::EndGroup();
  }

  // Of a phase, the kernels that ran in it; modules and idle classes know none.
  bool is_shown(const KernelDifference& kernel, const Highlight& highlight) const {
    if (!search_.matches(kernel.row.label) && !search_.matches(kernel.row.key)) return false;
    switch (highlight.kind) {
      case HighlightKind::kCategory: return name_of(kernel.category) == highlight.key;
      case HighlightKind::kPhase: {
        const std::optional<Phase> phase = phase_of_key(highlight.key);
        if (!phase) return true;
        const auto runs_in = [&](const TracedArm* arm) {
          const auto& kernels = arm->breakdown.kernels;
          const auto found = std::ranges::find(kernels, kernel.row.key, &UsageGroup::key);
          return found != kernels.end() &&
                 found->exclusive_by_phase_ns[static_cast<std::size_t>(*phase)] > 0;
        };
        return runs_in(comparison_.a) || runs_in(comparison_.b);
      }
      default: return true;
    }
  }

  void make_kernel_rows(const PanelContext& context) {
    const Highlight& highlight = context.selection.highlight;
    const Highlight filter = highlight.kind == HighlightKind::kKernel ? Highlight{} : highlight;
    if (filter == rows_highlight_ && search_.text() == rows_search_ &&
        context.theme.kind == rows_theme_) {
      return;
    }
    rows_highlight_ = filter;
    rows_search_ = search_.text();
    rows_theme_ = context.theme.kind;
    kernel_rows_.clear();
    for (const KernelDifference& kernel : comparison_.waterfall->kernels) {
      if (!is_shown(kernel, filter)) continue;
      kernel_rows_.push_back(kernel_change_row(context.theme, kernel));
    }
    table_.invalidate_order();
  }

  void draw_kernels(PanelContext& context) {
    const Theme& theme = context.theme;
    make_kernel_rows(context);
    ImGui::BeginGroup();
    ImGui::AlignTextToFramePadding();
    const Highlight& highlight = context.selection.highlight;
    const bool is_filtered =
        highlight.kind == HighlightKind::kCategory || highlight.kind == HighlightKind::kPhase;
    text_in(theme.text, is_filtered ? fmt::format("Kernels of {}", highlight.key) : "Kernels");
    ImGui::SameLine();
    text_in(theme.muted, format_count(static_cast<std::int64_t>(kernel_rows_.size())));
    ImGui::SameLine(0, theme.px(14));
    search_.draw(theme, "kernel",
                 std::max(theme.px(80), ImGui::GetContentRegionAvail().x -
                                            button_width("Copy CSV") - theme.px(8)));
    ImGui::SameLine();
    std::string notice = copy_csv_button(theme, table_.columns(), kernel_rows_);
    if (!notice.empty()) context.requests.notice = std::move(notice);
    std::vector<std::string> selected;
    if (highlight.kind == HighlightKind::kKernel) selected.push_back(highlight.key);
    const TableEvents events = table_.draw(theme, kernel_rows_, selected);
    const TableRow* chosen = events.clicked != nullptr ? events.clicked : events.double_clicked;
    if (chosen != nullptr) {
      context.selection.highlight = {.kind = HighlightKind::kKernel, .key = chosen->id};
    }
    if (events.double_clicked != nullptr) context.requests.open_panel = "timeline";
    ImGui::EndGroup();
  }

  std::size_t dimension_index_ = 0;
  std::vector<const TracedArm*> arms_;  // Of this frame.
  Comparison comparison_;
  DataTable table_ = DataTable("kernel_changes", kernel_change_columns());
  std::vector<TableRow> kernel_rows_;
  Highlight rows_highlight_;  // What `kernel_rows_` were made for.
  std::string rows_search_;
  ThemeKind rows_theme_ = ThemeKind::kDark;
  SearchField search_;
};

}  // namespace

std::unique_ptr<Panel> make_breakdown_panel() { return std::make_unique<BreakdownPanel>(); }

}  // namespace steplens
