#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <imgui.h>

#include "reports/breakdown/kernel_names.h"
#include "reports/format.h"
#include "viewer/data/background_task.h"
#include "viewer/data/kernel_stats.h"
#include "viewer/draw/child.h"
#include "viewer/draw/data_table.h"
#include "viewer/draw/fact_tooltip.h"
#include "viewer/draw/histogram.h"
#include "viewer/draw/kernel_rows.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/search_field.h"
#include "viewer/draw/segmented.h"
#include "viewer/draw/text.h"
#include "viewer/panels/panel.h"

namespace steplens {
namespace {

constexpr float kDetailUnits = 232;
// Up to here a table is made within a frame: some 60 ns an operation.
constexpr std::int64_t kMaxOperationsAtOnce = 1'000'000;

using Model = std::shared_ptr<const TraceModel>;
using Tables = std::vector<KernelTable>;

/// What the tables were made of.
struct Source {
  std::vector<Model> models;  // One or two.
  std::optional<StepSpan> steps;
  bool operator==(const Source&) const = default;
};

class KernelsPanel final : public Panel {
 public:
  std::string_view key() const override { return "kernels"; }
  const char* title() const override { return "Kernels"; }
  void focus_search() override { search_.focus(); }

  void reset() override {
    source_ = {};
    tables_.clear();
    task_ = nullptr;
    rows_ = {};
    table_.reset();
    search_.clear();
    scope_ = 0;
  }

  void draw(PanelContext& context) override {
    const Theme& theme = context.theme;
    Source source;
    if (!find_models(context, source)) return;
    update_tables(context, source);
    draw_toolbar(context);
    if (tables_.empty()) {
      empty_state(theme, "Counting", "The table appears in a moment.");
      return;
    }
    make_rows(context);
    if (rows_.rows.empty() && search_.text().empty()) {
      empty_state(theme, "No kernels",
                  scope_ == 0 ? "This trace has no operations of the device."
                              : "None ran in the selected steps.");
      return;
    }
    draw_table(context);
    draw_detail(context);
  }

  nlohmann::json state() const override {
    nlohmann::json rows = nlohmann::json::array();
    for (const TableRow& row : rows_.rows) {
      if (rows.size() == 20) break;
      rows.push_back(row.id);
    }
    return {{"num_rows", rows_.rows.size()},
            {"first_rows", rows},
            {"search", search_.text()},
            {"scope", scope_ == 0 ? "all" : "selected"},
            {"has_two", tables_.size() > 1},
            {"total_ns",
             tables_.empty() ? nlohmann::json(nullptr) : nlohmann::json(tables_[0].total_ns)}};
  }

 private:
  // False, and an empty state drawn, where there is nothing to count.
  bool find_models(PanelContext& context, Source& source) {
    std::vector<std::string> arms = {context.selection.arm_a};
    if (!context.selection.arm_b.empty()) arms.push_back(context.selection.arm_b);
    std::string fault;
    bool is_loading = false;
    for (const std::string& arm : arms) {
      const TraceEntry* entry = context.document.find_trace(arm);
      if (entry == nullptr) {
        fault = fmt::format("{} has no trace of its kernels.", arm);
        continue;
      }
      context.document.want_trace(arm);
      if (entry->model != nullptr) {
        source.models.push_back(entry->model);
      } else if (entry->error.empty()) {
        is_loading = true;
      } else {
        fault = entry->error;
      }
    }
    if (is_loading) {
      context.requests.needs_next_frame = true;
      empty_state(context.theme, "Loading the trace", "Kernels appear when it is there.");
      return false;
    }
    if (source.models.empty()) {
      empty_state(context.theme, "No kernels to show",
                  fault +
                      " `steplens matrix` records a trace of each arm after its rounds, unless "
                      "told not to.");
      return false;
    }
    if (scope_ == 1 && context.selection.steps) {
      source.steps = StepSpan{context.selection.steps->first_step_index,
                              context.selection.steps->last_step_index};
    }
    return true;
  }

  void update_tables(PanelContext& context, const Source& source) {
    if (source != source_) {
      source_ = source;
      tables_.clear();
      rows_key_.clear();
      task_ = nullptr;
      std::int64_t num_operations = 0;
      for (const Model& model : source.models) num_operations += model->num_operations;
      const auto work = [source](LoadProgress& progress) {
        Tables tables;
        for (const Model& model : source.models) {
          tables.push_back(compute_kernel_table(*model, source.steps, &progress.read.is_cancelled));
        }
        return tables;
      };
      if (num_operations <= kMaxOperationsAtOnce) {
        LoadProgress progress;
        tables_ = work(progress);
      } else {
        task_ = std::make_unique<BackgroundTask<Tables>>();
        task_->start(work);
      }
    }
    if (task_ == nullptr) return;
    context.requests.needs_next_frame = true;
    if (auto tables = task_->take()) {
      tables_ = std::move(*tables);
      task_ = nullptr;
    }
  }

  void draw_toolbar(PanelContext& context) {
    const Theme& theme = context.theme;
    search_.draw(theme, "kernel or category", theme.px(230));
    mark("kernels.search");
    ImGui::SameLine();
    constexpr std::array<const char*, 2> kScopes = {"All steps", "Selected steps"};
    segmented(theme, "kernels_scope", kScopes, scope_);
    ImGui::SameLine();
    ImGui::AlignTextToFramePadding();
    text_in(theme.muted, scope_text(context));
    if (tables_.empty() || !table_) return;
    ImGui::SameLine(ImGui::GetWindowWidth() - theme.px(14) - theme.px(96));
    std::string notice = copy_csv_button(theme, table_->columns(), rows_.rows);
    if (!notice.empty()) context.requests.notice = std::move(notice);
  }

  std::string scope_text(const PanelContext& context) const {
    if (scope_ == 1 && !context.selection.steps) {
      return "no step is selected: click one on the timeline";
    }
    if (tables_.empty()) return "";
    const auto text_of = [](const KernelTable& table) {
      return fmt::format("{} in {} {}", format_duration_ns(static_cast<double>(table.total_ns)),
                         table.num_steps, table.num_steps == 1 ? "step" : "steps");
    };
    if (tables_.size() == 1) return text_of(tables_[0]);
    return fmt::format("A {},  B {}", text_of(tables_[0]), text_of(tables_[1]));
  }

  void make_rows(PanelContext& context) {
    const bool has_two = tables_.size() > 1;
    const std::string key =
        fmt::format("{}/{}/{}", has_two, search_.text(), static_cast<int>(context.theme.kind));
    if (key == rows_key_) return;
    if (!table_ || table_has_two_ != has_two) {
      table_.emplace("kernels", kernel_columns(has_two));
      table_has_two_ = has_two;
    }
    rows_key_ = key;
    const KernelFilter filter = [this](const std::string& raw, const std::string& display,
                                       KernelCategory category) {
      return search_.matches(display) || search_.matches(raw) ||
             search_.matches(steplens::name_of(category));
    };
    const NameTable& names = source_.models[0]->names;
    rows_ = has_two ? kernel_pair_rows(context.theme, tables_[0], names, tables_[1],
                                       source_.models[1]->names, filter)
                    : kernel_rows(context.theme, tables_[0], names, filter);
    table_->invalidate_order();
  }

  void draw_table(PanelContext& context) {
    if (!table_) return;
    const Theme& theme = context.theme;
    Highlight& highlight = context.selection.highlight;
    const auto paint = [&](const TableRow* row, std::size_t column, ImVec2 low, ImVec2 high) {
      return paint_kernel_cell(theme, rows_, row, column, low, high);
    };
    const bool has_detail = highlight.kind == HighlightKind::kKernel;
    std::vector<std::string> selected;
    if (has_detail) selected.push_back(highlight.key);
    const float height =
        ImGui::GetContentRegionAvail().y - (has_detail ? theme.px(kDetailUnits) : 0);
    const TableEvents events = table_->draw(theme, rows_.rows, selected, {0, height}, paint);
    if (events.clicked != nullptr) {
      const bool is_same = has_detail && highlight.key == events.clicked->id;
      if (!is_same) highlight = {HighlightKind::kKernel, events.clicked->id};
    }
    if (events.double_clicked != nullptr) {
      highlight = {HighlightKind::kKernel, events.double_clicked->id};
      go_to_longest(context, 0);
    }
    if (rows_.rows.empty()) text_in(theme.muted, "No kernel matches the search");
  }

  const KernelStats* stats_of(std::size_t side, const std::string& raw) const {
    if (side >= tables_.size()) return nullptr;
    const NameTable& names = source_.models[side]->names;
    const auto it = std::ranges::find_if(tables_[side].kernels, [&](const KernelStats& stats) {
      return names.raw(stats.name) == raw;
    });
    return it == tables_[side].kernels.end() ? nullptr : &*it;
  }

  // To the longest run of the highlighted kernel; in the first arm that has it, from `side` on.
  void go_to_longest(PanelContext& context, std::size_t side) const {
    const std::vector<std::string> arms = {context.selection.arm_a, context.selection.arm_b};
    for (; side < tables_.size(); ++side) {
      const KernelStats* stats = stats_of(side, context.selection.highlight.key);
      if (stats == nullptr) continue;
      context.selection.operation = OperationRef{.arm = arms[side], .row = stats->longest_row};
      context.requests.open_panel = "timeline";
      return;
    }
  }

  void draw_detail(PanelContext& context) {
    const Theme& theme = context.theme;
    Highlight& highlight = context.selection.highlight;
    if (highlight.kind != HighlightKind::kKernel) return;
    ImGui::PushStyleColor(ImGuiCol_ChildBg, theme.surface);
    begin_padded_child("##kernel", {0, 0}, true);
    ImGui::PopStyleColor();
    const std::array<const KernelStats*, 2> stats = {stats_of(0, highlight.key),
                                                     stats_of(1, highlight.key)};
    const float room = ImGui::GetContentRegionAvail().x;
    const float left_width = std::min(room * 0.42F, theme.px(560));
    const float top = ImGui::GetCursorPosY();
    text_in(theme.accent, fitted(kernel_display_name(highlight.key), left_width));
    draw_numbers(theme, stats);
    ImGui::Dummy({0, theme.px(2)});
    if (ImGui::SmallButton("Longest on the timeline")) go_to_longest(context, 0);
    mark("kernels.longest");
    ImGui::SameLine();
    if (ImGui::SmallButton("All on the timeline")) context.requests.open_panel = "timeline";
    mark("kernels.all");
    ImGui::SameLine();
    if (ImGui::SmallButton("Copy full name")) {
      ImGui::SetClipboardText(demangled(highlight.key).c_str());
      context.requests.notice = "Name copied";
    }
    ImGui::SameLine();
    const bool is_closed = ImGui::SmallButton("Close");
    ImGui::SetCursorPos({left_width + theme.px(36), top});
    draw_histogram_pane(theme, stats);
    ImGui::EndChild();
    if (is_closed) highlight = {};
  }

  void draw_numbers(const Theme& theme, const std::array<const KernelStats*, 2>& stats) const {
    const float label_width = theme.px(76);
    const float column = theme.px(110);
    const float left = ImGui::GetCursorPosX();
    const bool has_two = tables_.size() > 1;
    const auto line = [&](const char* label, auto value) {
      text_in(theme.muted, label);
      for (std::size_t side = 0; side < tables_.size(); ++side) {
        const std::string text =
            stats[side] == nullptr ? std::string(kNoNumber) : value(tables_[side], *stats[side]);
        ImGui::SameLine(left + label_width + column * static_cast<float>(side + 1) -
                        text_width(text));
        text_in(theme.text, text);
      }
    };
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {theme.px(8), theme.px(2)});
    if (has_two) {
      text_in(theme.muted, "A step");
      for (const char* side : {"A", "B"}) {
        ImGui::SameLine(left + label_width + column * (*side == 'A' ? 1.0F : 2.0F) -
                        text_width(side));
        text_in(theme.muted, side);
      }
    }
    const auto duration = [](double ns) { return format_duration_ns(ns); };
    line("Count", [](const KernelTable& table, const KernelStats& s) {
      return format_mean_count(table.per_step(static_cast<double>(s.count)));
    });
    line("Total", [&](const KernelTable& table, const KernelStats& s) {
      return duration(table.per_step(static_cast<double>(s.total_ns)));
    });
    line("Share",
         [](const KernelTable&, const KernelStats& s) { return format_percent(s.share_ratio); });
    line("Mean", [&](const KernelTable&, const KernelStats& s) { return duration(s.mean_ns()); });
    line("Median", [&](const KernelTable&, const KernelStats& s) {
      return duration(static_cast<double>(s.p50_ns));
    });
    line("p99", [&](const KernelTable&, const KernelStats& s) {
      return duration(static_cast<double>(s.p99_ns));
    });
    ImGui::PopStyleVar();
  }

  void draw_histogram_pane(const Theme& theme,
                           const std::array<const KernelStats*, 2>& stats) const {
    std::vector<HistogramLine> lines;
    for (std::size_t side = 0; side < tables_.size(); ++side) {
      if (stats[side] == nullptr) continue;
      const KernelCategory category = stats[side]->category;
      lines.push_back({.histogram = &stats[side]->histogram,
                       .label = tables_.size() > 1 ? (side == 0 ? "A" : "B") : "",
                       .colour = tables_.size() > 1 ? (side == 0 ? theme.muted : theme.accent)
                                                    : theme.colour_of(category),
                       .median_ns = static_cast<double>(stats[side]->p50_ns)});
    }
    const ImVec2 room = ImGui::GetContentRegionAvail();
    draw_histogram(theme, lines, room);
  }

  Source source_;
  Tables tables_;  // As `source_.models`; empty while they are made.
  std::unique_ptr<BackgroundTask<Tables>> task_;
  std::optional<DataTable> table_;
  bool table_has_two_ = false;
  KernelRows rows_;
  std::string rows_key_;  // What `rows_` were made for.
  SearchField search_;
  std::size_t scope_ = 0;  // All steps, or the selected ones.
};

}  // namespace

std::unique_ptr<Panel> make_kernels_panel() { return std::make_unique<KernelsPanel>(); }

}  // namespace steplens
