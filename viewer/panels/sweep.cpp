#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <imgui.h>

#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/palette.h"
#include "viewer/draw/data_table.h"
#include "viewer/draw/segmented.h"
#include "viewer/draw/sweep_plot.h"
#include "viewer/draw/text.h"
#include "viewer/panels/panel.h"

namespace steplens {
namespace {

constexpr float kMinPlotUnits = 180;
constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr std::array<const char*, 3> kMeasures = {"Change", "Tokens/s", "Peak memory"};
enum MeasureIndex : std::size_t { kChange, kTokens, kPeak };

// One measure of one arm at one value; absent where nothing is to be drawn.
std::optional<SweepPlot::Point> point_of(const ArmResult& arm, std::size_t measure) {
  const auto percent = [](double ratio) { return 100 * (ratio - 1); };
  switch (measure) {
    case kChange:
      if (!arm.effect_ratio) return std::nullopt;
      return SweepPlot::Point{
          .y = percent(*arm.effect_ratio),
          .low =
              arm.effect_low_ratio ? std::optional(percent(*arm.effect_low_ratio)) : std::nullopt,
          .high = arm.effect_high_ratio ? std::optional(percent(*arm.effect_high_ratio))
                                        : std::nullopt};
    case kTokens:
      if (!arm.valid_tokens_per_s) return std::nullopt;
      return SweepPlot::Point{.y = *arm.valid_tokens_per_s};
    default: {
      const std::optional<std::int64_t> bytes = peak_bytes_of(arm);
      if (!bytes) return std::nullopt;
      return SweepPlot::Point{.y = static_cast<double>(*bytes) / kGiB};
    }
  }
}

std::string tooltip_of(const SweepResults& results, const SweepPoint& point, const ArmResult& arm) {
  std::string text = fmt::format("{} at {}={}", arm.name, results.sweep.key, point.value);
  if (arm.effect_ratio) {
    text += fmt::format("\n{}   {}", effect_text(arm), verdict_text(arm, point.results.rule));
  }
  if (arm.valid_tokens_per_s) {
    text += fmt::format("\n{} tokens/s", format_rate(*arm.valid_tokens_per_s));
  }
  if (const auto bytes = peak_bytes_of(arm)) {
    text += fmt::format("\n{} at the peak", format_bytes(static_cast<double>(*bytes)));
  }
  return text + "\nClick to open this value's matrix";
}

std::vector<TableColumn> columns_for(const SweepResults& results) {
  std::vector<TableColumn> columns = {
      {.header = results.sweep.key, .is_number = true, .width_units = 150},
      {.header = "Tokens/s",
       .is_number = true,
       .width_units = 96,
       .tooltip = "Of this value's baseline"},
      {.header = "Peak memory",
       .is_number = true,
       .width_units = 110,
       .tooltip = "Of this value's baseline"}};
  for (const std::string& arm : results.arms) {
    columns.push_back({.header = arm,
                       .is_number = true,
                       .tooltip =
                           "Change of valid tokens a second against the baseline of the same "
                           "value, in the same rounds"});
  }
  return columns;
}

TableCell effect_cell(const ArmResult* arm, const VerdictRule& rule, const Theme& theme) {
  if (arm == nullptr) return absent_cell();
  if (!arm->effect_ratio) {
    return {.text = verdict_text(*arm, rule),
            .number = kAbsentNumber,
            .exact = " ",
            .colour = theme.muted};
  }
  const bool is_proven = arm->verdict == Verdict::kFaster || arm->verdict == Verdict::kSlower;
  return {.text = is_proven ? effect_text(*arm)
                            : fmt::format("{}  {}", effect_text(*arm), verdict_text(*arm, rule)),
          .number = *arm->effect_ratio,
          .exact = fmt::format("{}", *arm->effect_ratio),
          .colour = theme.colour_of(swatch_of(arm->verdict))};
}

TableRow row_of(const SweepResults& results, const SweepPoint& point, const Theme& theme) {
  TableRow row = {.id = point.value, .is_dimmed = !point.is_measured};
  row.cells.push_back({.text = point.value, .number = point.position.value_or(kAbsentNumber)});
  const auto as_bytes = [](std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  const ArmResult* baseline = baseline_of(point.results);
  row.cells.push_back(baseline == nullptr ? absent_cell()
                                          : number_cell(baseline->valid_tokens_per_s, format_rate));
  row.cells.push_back(baseline == nullptr ? absent_cell()
                                          : number_cell(peak_bytes_of(*baseline), as_bytes));
  for (const std::string& arm : results.arms) {
    row.cells.push_back(effect_cell(find_arm(point.results, arm), point.results.rule, theme));
  }
  if (!point.is_measured) row.cells[1].text = "not measured";
  return row;
}

// What fits a line; the sentences stand below it.
std::string short_headline(const SweepResults& results) {
  if (results.crossovers.empty()) return sweep_headline(results);
  const SweepCrossover& first = results.crossovers.front();
  std::string text = fmt::format("{} crosses over between {}={} and {}", first.arm,
                                 results.sweep.key, first.from_value, first.to_value);
  const std::size_t num_others = results.crossovers.size() - 1;
  if (num_others > 0) text += fmt::format(", and {} more", num_others);
  return text;
}

class SweepPanel final : public Panel {
 public:
  std::string_view key() const override { return "sweep"; }
  const char* title() const override { return "Sweep"; }
  bool is_for(const Document& document) const override { return document.sweep != nullptr; }

  void reset() override {
    table_.reset();
    rows_.clear();
    rows_sweep_ = nullptr;
  }

  void draw(PanelContext& context) override {
    if (context.document.sweep == nullptr) {
      empty_state(context.theme, "This is no sweep",
                  "Open the folder that `steplens matrix --sweep KEY=VALUES --out` names.");
      return;
    }
    const SweepResults& results = context.document.sweep->results;
    make_rows(context, results);
    draw_headline(context, results);
    const float table_height = std::min(table_->height_of(context.theme, rows_.size()),
                                        ImGui::GetContentRegionAvail().y / 2);
    const float plot_height =
        ImGui::GetContentRegionAvail().y - table_height - context.theme.px(12);
    if (plot_height >= context.theme.px(kMinPlotUnits)) {
      draw_plot(context, results, plot_height);
    }
    draw_table(context, results, table_height);
  }

  nlohmann::json state() const override {
    nlohmann::json values = nlohmann::json::array();
    for (const TableRow& row : rows_) values.push_back(row.id);
    return {
        {"measure", kMeasures[measure_]}, {"values", values}, {"value", value_}, {"lines", lines_}};
  }

  nlohmann::json settings() const override { return {{"measure", measure_}}; }
  void restore(const nlohmann::json& settings) override {
    measure_ = std::min(settings.at("measure").get<std::size_t>(), kMeasures.size() - 1);
  }

 private:
  void make_rows(const PanelContext& context, const SweepResults& results) {
    value_ = results.points[context.document.point_index].value;
    if (table_ == nullptr) table_ = std::make_unique<DataTable>("sweep", columns_for(results));
    if (rows_sweep_ == &results && rows_theme_ == context.theme.kind) return;
    rows_sweep_ = &results;
    rows_theme_ = context.theme.kind;
    rows_.clear();
    for (const SweepPoint& point : results.points) {
      rows_.push_back(row_of(results, point, context.theme));
    }
    table_->invalidate_order();
  }

  void draw_headline(PanelContext& context, const SweepResults& results) {
    const Theme& theme = context.theme;
    const float top = ImGui::GetCursorPosY();
    ImGui::PushFont(theme.heading);
    text_in(theme.text,
            fitted(short_headline(results), ImGui::GetContentRegionAvail().x - theme.px(350)));
    ImGui::PopFont();
    const auto num_measured = std::ranges::count(results.points, true, &SweepPoint::is_measured);
    text_in(theme.muted,
            fmt::format("{}   {}   {}: {} of {} values measured   looking at {}",
                        results.gpu_name.empty() ? "CPU" : results.gpu_name,
                        results.points[context.document.point_index].baseline.model,
                        results.sweep.key, num_measured, results.points.size(), value_));
    const float bottom = ImGui::GetCursorPosY();
    float buttons_width = theme.px(18) + button_width("Copy CSV");
    for (const char* measure : kMeasures) buttons_width += button_width(measure);
    ImGui::SetCursorPos({ImGui::GetWindowContentRegionMax().x - buttons_width, top + theme.px(6)});
    segmented(theme, "measure", kMeasures, measure_);
    ImGui::SameLine(0, theme.px(16));
    std::string notice = copy_csv_button(theme, table_->columns(), rows_);
    if (!notice.empty()) context.requests.notice = std::move(notice);
    ImGui::SetCursorPosY(bottom);
    ImGui::PushTextWrapPos(0);
    for (const std::string& sentence : crossover_sentences(results)) text_in(theme.text, sentence);
    ImGui::PopTextWrapPos();
    ImGui::Dummy({0, theme.px(2)});
  }

  SweepPlot plot_of(const PanelContext& context, const SweepResults& results) {
    const bool is_log = spans_octaves(results);
    const bool is_numeric = std::ranges::all_of(
        results.points, [](const SweepPoint& point) { return point.position.has_value(); });
    SweepPlot plot = {.title = measure_ == kChange   ? "Change of tokens/s, in %"
                               : measure_ == kTokens ? "Tokens/s"
                                                     : "Peak memory, in GiB",
                      .x_title = results.sweep.key + (is_log ? " (log scale)" : ""),
                      .has_zero_line = measure_ == kChange,
                      .has_signs = measure_ == kChange,
                      .marked_column = context.document.point_index};
    for (std::size_t i = 0; i < results.points.size(); ++i) {
      const SweepPoint& point = results.points[i];
      plot.labels.push_back(point.value);
      // Words stand side by side.
      const double place = is_numeric ? point.position.value_or(0) : static_cast<double>(i);
      plot.positions.push_back(is_log ? std::log2(place) : place);
    }
    std::vector<std::string> arms = results.arms;
    if (measure_ != kChange) arms.insert(arms.begin(), "baseline");
    lines_.clear();
    for (const std::string& arm : arms) {
      SweepPlot::Line line = {.name = arm, .is_emphasised = arm == context.selection.arm_b};
      // An arm keeps its colour whatever is shown of it.
      const auto index = std::ranges::find(results.arms, arm) - results.arms.begin();
      line.colour = arm == "baseline"
                        ? context.theme.muted
                        : context.theme.colour_of(series_swatch(static_cast<std::size_t>(index)));
      for (std::size_t i = 0; i < results.points.size(); ++i) {
        const ArmResult* row = find_arm(results.points[i].results, arm);
        if (row == nullptr) continue;
        std::optional<SweepPlot::Point> point = point_of(*row, measure_);
        if (!point) continue;
        point->column = i;
        point->tooltip = tooltip_of(results, results.points[i], *row);
        line.points.push_back(std::move(*point));
      }
      if (line.points.empty()) continue;
      lines_.push_back(line.name);
      plot.lines.push_back(std::move(line));
    }
    return plot;
  }

  void draw_plot(PanelContext& context, const SweepResults& results, float height) {
    const SweepPlot plot = plot_of(context, results);
    const SweepPlotEvents events = draw_sweep_plot(context.theme, plot, height);
    if (events.clicked_line) {
      const std::string& arm = plot.lines[*events.clicked_line].name;
      const std::string reference = context.document.reference_of(arm);
      context.selection.arm_a = reference.empty() ? arm : reference;
      context.selection.arm_b = reference.empty() ? std::string() : arm;
    }
    if (events.clicked_column) open(context, results, *events.clicked_column);
  }

  void draw_table(PanelContext& context, const SweepResults& results, float height) {
    const TableEvents events = table_->draw(context.theme, rows_, {value_}, {0, height});
    const TableRow* chosen = events.clicked != nullptr ? events.clicked : events.double_clicked;
    if (chosen != nullptr) {
      const auto it = std::ranges::find(results.points, chosen->id, &SweepPoint::value);
      open(context, results, static_cast<std::size_t>(it - results.points.begin()));
    }
    if (events.double_clicked != nullptr) context.requests.open_panel = "matrix";
  }

  static void open(PanelContext& context, const SweepResults& results, std::size_t index) {
    const SweepPoint& point = results.points[index];
    if (!point.is_measured) {
      context.requests.notice =
          fmt::format("{}={} is not measured yet", results.sweep.key, point.value);
    } else if (index != context.document.point_index) {
      context.requests.open_point = index;
    }
  }

  std::size_t measure_ = kChange;
  std::unique_ptr<DataTable> table_;
  std::vector<TableRow> rows_;
  const void* rows_sweep_ = nullptr;  // What `rows_` were made for.
  ThemeKind rows_theme_ = ThemeKind::kDark;
  std::string value_;               // That is looked at.
  std::vector<std::string> lines_;  // That were drawn.
};

}  // namespace

std::unique_ptr<Panel> make_sweep_panel() { return std::make_unique<SweepPanel>(); }

}  // namespace steplens
