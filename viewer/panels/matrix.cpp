#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <imgui.h>

#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/pairs.h"
#include "viewer/draw/child.h"
#include "viewer/draw/data_table.h"
#include "viewer/draw/effect_bar.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/round_plot.h"
#include "viewer/draw/search_field.h"
#include "viewer/draw/text.h"
#include "viewer/panels/panel.h"

namespace steplens {
namespace {

constexpr float kDetailUnits = 168;

enum ColumnIndex : std::size_t {
  kArm,
  kBar,
  kEffect,
  kVerdict,
  kProof,
  kTokens,
  kStep,
  kP,
  kPeak,
  kMfu
};

std::vector<TableColumn> columns_for(const Results& results) {
  const double confidence = 100 * results.rule.confidence;
  return {{.header = "Arm"},
          {.header = "",
           .width_units = 216,
           .tooltip = "Change of tokens a second with its interval, small changes stretched;\n"
                      "the grey band counts as equivalent"},
          {.header = fmt::format("Effect [{:.0f} %]", confidence),
           .is_number = true,
           .width_units = 178,
           .tooltip = "Change of valid tokens a second against the reference in the same rounds"},
          {.header = "Verdict", .width_units = 150},
          {.header = "Proof",
           .width_units = 86,
           .tooltip = "Do the operators and kernels that ran show that the switch took effect?"},
          {.header = "Tokens/s", .is_number = true, .width_units = 84},
          {.header = "Step", .is_number = true, .width_units = 84},
          {.header = results.aa ? "Raw p" : "Adj. p", .is_number = true, .width_units = 70},
          {.header = "Peak memory", .is_number = true, .width_units = 104},
          {.header = "MFU",
           .is_number = true,
           .width_units = 74,
           .tooltip = "Model FLOP/s utilisation, causal attention counted once"}};
}

std::string proof_text(const ArmResult& arm) {
  if (arm.reference.empty() || !arm.is_applicable) return std::string(kNoNumber);
  switch (arm.proof) {
    case Proof::kProven: return "proven";
    case Proof::kNoEffect: return "no effect";
    default: return "not checked";
  }
}

TableRow row_of(const ArmResult& arm, const Results& results, const Theme& theme) {
  TableRow row = {.id = arm.name,
                  .is_dimmed = !arm.is_applicable,
                  .is_pinned = arm.reference.empty() && arm.is_applicable};
  row.cells.resize(kMfu + 1);
  row.cells[kArm] = {.text = arm.name};
  row.cells[kBar] = {.number = arm.effect_ratio.value_or(kAbsentNumber)};
  row.cells[kEffect] = number_cell(arm.effect_ratio, [&](double) { return effect_text(arm); });
  row.cells[kVerdict] = {
      .text =
          arm.is_baseline && arm.reference.empty() ? "baseline" : verdict_text(arm, results.rule),
      .colour = arm.verdict ? theme.colour_of(swatch_of(arm.verdict)) : theme.muted};
  if (arm.verdict == Verdict::kFailed || arm.verdict == Verdict::kMathsDiffers) {
    row.cells[kVerdict].colour = theme.warning;
  }
  row.cells[kProof] = {.text = proof_text(arm),
                       .colour = arm.proof == Proof::kNoEffect ? theme.warning : theme.muted};
  row.cells[kTokens] = number_cell(arm.valid_tokens_per_s, format_rate);
  row.cells[kStep] = number_cell(arm.step_wall_ns, format_duration_ns);
  row.cells[kP] = number_cell(results.aa ? arm.p_value : arm.p_adjusted, format_p);
  row.cells[kPeak] = number_cell(peak_bytes_of(arm), [](std::int64_t bytes) {
    return format_bytes(static_cast<double>(bytes));
  });
  row.cells[kMfu] = number_cell(arm.mfu_causal_ratio, format_percent);
  return row;
}

class MatrixPanel final : public Panel {
 public:
  std::string_view key() const override { return "matrix"; }
  const char* title() const override { return "Matrix"; }

  void reset() override {
    table_.reset();
    rows_.clear();
    rows_bundle_ = nullptr;
    search_.clear();
  }

  void focus_search() override { search_.focus(); }

  void draw(PanelContext& context) override {
    if (context.document.bundle == nullptr) {
      empty_state(context.theme, "A trace has no matrix",
                  "Open a bundle to compare arms: the folder that `steplens matrix --out` names.");
      return;
    }
    const BundleModel& model = *context.document.bundle;
    if (model.results.arms.empty()) {
      empty_state(context.theme, "This bundle has no arms", "Nothing was planned in its manifest.");
      return;
    }
    make_rows(context);
    draw_headline(context, model);
    const float detail_height = context.theme.px(kDetailUnits);
    draw_table(context, model.results, detail_height);
    draw_detail(context, model.results);
  }

  nlohmann::json state() const override {
    nlohmann::json ids = nlohmann::json::array();
    for (const TableRow& row : rows_) ids.push_back(row.id);
    return {{"search", search_.text()},
            {"rows", ids},
            {"sort_column", table_ && table_->sort_column() < table_->columns().size()
                                ? nlohmann::json(table_->columns()[table_->sort_column()].header)
                                : nlohmann::json(nullptr)}};
  }

 private:
  void make_rows(PanelContext& context) {
    const Results& results = context.document.bundle->results;
    if (table_ == nullptr) table_ = std::make_unique<DataTable>("matrix", columns_for(results));
    if (rows_bundle_ == context.document.bundle.get() && rows_theme_ == context.theme.kind &&
        rows_search_ == search_.text()) {
      return;
    }
    rows_bundle_ = context.document.bundle.get();
    rows_theme_ = context.theme.kind;
    rows_search_ = search_.text();
    rows_.clear();
    for (const ArmResult* arm : table_order(results)) {
      if (search_.matches(arm->name) || search_.matches(verdict_text(*arm, results.rule))) {
        rows_.push_back(row_of(*arm, results, context.theme));
      }
    }
    table_->invalidate_order();
  }

  void draw_headline(PanelContext& context, const BundleModel& model) {
    const Theme& theme = context.theme;
    const Manifest& manifest = model.bundle.manifest;
    const float top = ImGui::GetCursorPosY();
    ImGui::PushFont(theme.heading);
    text_in(theme.text,
            fitted(headline(model.results), ImGui::GetContentRegionAvail().x - theme.px(350)));
    ImGui::PopFont();
    std::string line = manifest.gpu_name.empty() ? std::string("CPU") : manifest.gpu_name;
    line += fmt::format("   {}   {} rounds of {}   {} arms   {}", manifest.baseline.model,
                        model.results.num_rounds_complete, model.results.num_rounds_planned,
                        model.results.arms.size(), manifest.created_utc.substr(0, 10));
    text_in(theme.muted, line);
    const float bottom = ImGui::GetCursorPosY();
    ImGui::SetCursorPos(
        {ImGui::GetWindowContentRegionMax().x - button_width("Copy CSV") - theme.px(228),
         top + theme.px(6)});
    search_.draw(theme, "arm or verdict", theme.px(220));
    ImGui::SameLine();
    std::string notice = copy_csv_button(theme, table_->columns(), rows_);
    if (!notice.empty()) context.requests.notice = std::move(notice);
    ImGui::SetCursorPosY(bottom + theme.px(4));
  }

  void draw_table(PanelContext& context, const Results& results, float detail_height) {
    const EffectScale scale(results);
    const auto paint = [&](const TableRow* row, std::size_t column, ImVec2 low, ImVec2 high) {
      if (column != kBar) return false;
      if (row == nullptr) {
        paint_effect_ticks(context.theme, scale, low, high);
      } else {
        paint_effect_bar(context.theme, results.rule, scale, find_arm(results, row->id), low, high);
      }
      return true;
    };
    const TableEvents events = table_->draw(
        context.theme, rows_,
        {context.selection.arm_b.empty() ? context.selection.arm_a : context.selection.arm_b},
        {0, std::min(table_->height_of(context.theme, rows_.size()),
                     ImGui::GetContentRegionAvail().y - detail_height)},
        paint);
    const TableRow* chosen = events.clicked != nullptr ? events.clicked : events.double_clicked;
    if (chosen != nullptr) {
      const ArmResult* arm = find_arm(results, chosen->id);
      context.selection.arm_a = arm->reference.empty() ? arm->name : arm->reference;
      context.selection.arm_b = arm->reference.empty() ? std::string() : arm->name;
    }
    if (events.double_clicked != nullptr) context.requests.open_panel = "breakdown";
    if (rows_.empty()) text_in(context.theme.muted, "No arm matches the search");
  }

  // What the selected arm is, and why its verdict is what it is.
  static void draw_detail(PanelContext& context, const Results& results) {
    const Theme& theme = context.theme;
    const std::string& name =
        context.selection.arm_b.empty() ? context.selection.arm_a : context.selection.arm_b;
    const ArmResult* arm = find_arm(results, name);
    ImGui::PushStyleColor(ImGuiCol_ChildBg, theme.surface);
    ImGui::Dummy({0, theme.px(2)});
    begin_padded_child("##detail", {0, 0}, true);
    ImGui::PopStyleColor();
    if (arm != nullptr) {
      text_in(theme.accent, arm->name);
      if (!arm->reference.empty()) {
        ImGui::SameLine();
        text_in(theme.muted, fmt::format("against {}", arm->reference));
      }
      if (context.document.find_trace(arm->name) != nullptr) {
        align_right(button_width("Breakdown") + button_width("Timeline") + theme.px(8));
        if (ImGui::SmallButton("Breakdown")) context.requests.open_panel = "breakdown";
        mark("detail.breakdown");
        ImGui::SameLine();
        if (ImGui::SmallButton("Timeline")) context.requests.open_panel = "timeline";
        mark("detail.timeline");
      }
      const std::vector<std::string> sentences = sentences_of(*arm);
      ImGui::PushTextWrapPos(0);
      for (const std::string& sentence : sentences) text_in(theme.text, sentence);
      if (sentences.empty()) text_in(theme.muted, "Nothing to add.");
      ImGui::PopTextWrapPos();
      draw_rounds(theme, context.document.bundle->bundle, *arm);
    }
    ImGui::EndChild();
  }

  // What the interval is made of.
  static void draw_rounds(const Theme& theme, const Bundle& bundle, const ArmResult& arm) {
    const Arm* planned = find_arm(bundle.manifest, arm.name);
    if (planned == nullptr || arm.reference.empty() || !arm.effect_ratio) return;
    RoundPlot plot = {.mean_ratio = *arm.effect_ratio,
                      .low_ratio = arm.effect_low_ratio,
                      .high_ratio = arm.effect_high_ratio,
                      .colour = theme.colour_of(swatch_of(arm.verdict))};
    for (const BlockPair& pair : block_pairs(bundle, *planned)) {
      const double ratio =
          valid_tokens_per_s(*pair.candidate) / valid_tokens_per_s(*pair.reference);
      if (std::isfinite(ratio)) plot.rounds.push_back({.index = pair.round_index, .ratio = ratio});
    }
    draw_round_plot(theme, plot);
  }

  static std::vector<std::string> sentences_of(const ArmResult& arm) {
    std::vector<std::string> sentences;
    if (!arm.reason.empty()) sentences.push_back(arm.reason);
    sentences.insert(sentences.end(), arm.guard_failures.begin(), arm.guard_failures.end());
    if (!arm.labels.empty())
      sentences.push_back(fmt::format("Labels: {}", fmt::join(arm.labels, ", ")));
    if (arm.num_rounds > 0) {
      sentences.push_back(fmt::format(
          "{} {}{}; median of all steps {}, 99th percentile {}", arm.num_rounds,
          arm.reference.empty() ? "blocks" : "pairs of blocks",
          arm.num_failed_blocks > 0 ? fmt::format(", {} failed", arm.num_failed_blocks) : "",
          format_or_absent(arm.pooled_step_p50_ns, format_duration_ns),
          format_or_absent(arm.pooled_step_p99_ns, format_duration_ns)));
    }
    if (arm.proof != Proof::kNotChecked && !arm.proof_reason.empty()) {
      sentences.push_back("Proof: " + arm.proof_reason);
    }
    if (arm.min_detectable_ratio) {
      sentences.push_back(
          fmt::format("Smallest effect that {} rounds show in four of five runs: {}",
                      arm.num_rounds, format_percent(*arm.min_detectable_ratio - 1)));
    }
    if (arm.loss_deviation_ratio && arm.loss_tolerance_ratio) {
      sentences.push_back(fmt::format("Loss deviates by {} (allowed {})",
                                      format_deviation(*arm.loss_deviation_ratio),
                                      format_deviation(*arm.loss_tolerance_ratio)));
    }
    if (!arm.mfu_reason.empty()) sentences.push_back("No MFU: " + arm.mfu_reason);
    return sentences;
  }

  std::unique_ptr<DataTable> table_;
  std::vector<TableRow> rows_;
  const void* rows_bundle_ = nullptr;  // What `rows_` were made for.
  ThemeKind rows_theme_ = ThemeKind::kDark;
  std::string rows_search_;
  SearchField search_;
};

}  // namespace

std::unique_ptr<Panel> make_matrix_panel() { return std::make_unique<MatrixPanel>(); }

}  // namespace steplens
