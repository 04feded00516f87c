#include "reports/advice/advice.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <imgui.h>

#include "reports/format.h"
#include "viewer/draw/child.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/segmented.h"
#include "viewer/draw/text.h"
#include "viewer/panels/panel.h"

namespace steplens {
namespace {

ImU32 colour_of(const Theme& theme, Severity severity) {
  switch (severity) {
    case Severity::kHigh: return theme.bad;
    case Severity::kMedium: return theme.warning;
    case Severity::kLow: return theme.muted;
  }
  return theme.muted;
}

// Where a number can be looked at; nothing for those that the words say all of.
std::optional<Highlight> highlight_of(const Evidence& evidence) {
  switch (evidence.kind) {
    case EvidenceKind::kKernel:
      return Highlight{.kind = HighlightKind::kKernel, .key = evidence.key};
    case EvidenceKind::kCategory:
      return Highlight{.kind = HighlightKind::kCategory, .key = evidence.key};
    case EvidenceKind::kPhase: return Highlight{.kind = HighlightKind::kPhase, .key = evidence.key};
    case EvidenceKind::kIdle: return Highlight{.kind = HighlightKind::kIdle, .key = evidence.key};
    case EvidenceKind::kStep:
    case EvidenceKind::kCall:
    case EvidenceKind::kCounter:
    case EvidenceKind::kMemory:
    case EvidenceKind::kConfig: break;
  }
  return std::nullopt;
}

std::string_view panel_of(const Evidence& evidence) {
  if (evidence.kind == EvidenceKind::kKernel) return "kernels";
  if (evidence.kind == EvidenceKind::kMemory) return "memory";
  return highlight_of(evidence) ? "breakdown" : "";
}

/// What the rules find in one arm, from its row and its trace.
class AdvicePanel final : public Panel {
 public:
  std::string_view key() const override { return "advice"; }
  const char* title() const override { return "Advice"; }

  void reset() override {
    side_ = 0;
    shown_ = {};
    findings_.clear();
  }

  void draw(PanelContext& context) override {
    draw_head(context);
    const TracedArm* trace = context.document.want_breakdown(arm_);
    const TraceEntry* entry = context.document.find_trace(arm_);
    if (trace == nullptr && entry != nullptr && entry->breakdown_error.empty()) {
      empty_state(context.theme, "Reading the trace", "Rules look at where its steps' time goes.");
      return;
    }
    update(context.document, trace);
    if (findings_.empty()) {
      empty_state(
          context.theme, "Nothing found",
          fmt::format("No rule speaks for {}. `steplens advise --help` says when they do.", arm_));
      return;
    }
    begin_padded_child("findings", {0, 0}, false);
    for (std::size_t i = 0; i < findings_.size(); ++i) draw_finding(context, i);
    ImGui::EndChild();
  }

  nlohmann::json state() const override {
    nlohmann::json rules = nlohmann::json::array();
    for (const Finding& finding : findings_) rules.push_back(finding.rule);
    return {{"arm", arm_}, {"rules", rules}};
  }

 private:
  // The arm to speak of: either side of the selection.
  void draw_head(PanelContext& context) {
    const Selection& selection = context.selection;
    std::vector<std::string> names = {selection.arm_a};
    if (!selection.arm_b.empty() && selection.arm_b != selection.arm_a) {
      names.push_back(selection.arm_b);
    }
    side_ = std::min(side_, names.size() - 1);
    if (names.size() > 1) {
      const std::vector<const char*> labels = {names[0].c_str(), names[1].c_str()};
      segmented(context.theme, "advice side", labels, side_);
      ImGui::SameLine();
    }
    arm_ = names[side_];
    heading_in_line(context.theme,
                    names.size() > 1 ? "What to do next" : "What to do next for " + arm_);
    ImGui::Spacing();
  }

  // Rules run again only where something changed.
  void update(const Document& document, const TracedArm* trace) {
    const Shown now = {.arm = arm_, .bundle = document.bundle.get(), .trace = trace};
    if (now == shown_) return;
    shown_ = now;
    AdviceInput input{.arm = arm_};
    if (document.bundle != nullptr) {
      input = advice_input(document.bundle->bundle, document.bundle->results, arm_);
    }
    input.trace = trace;
    findings_ = advise(input);
  }

  void draw_finding(PanelContext& context, std::size_t index) {
    const Theme& theme = context.theme;
    const Finding& finding = findings_[index];
    ImGui::PushID(static_cast<int>(index));
    const float left = ImGui::GetCursorScreenPos().x;
    const float top = ImGui::GetCursorScreenPos().y;
    ImGui::Indent(theme.px(14));
    ImGui::PushFont(theme.heading);
    text_in(theme.text, finding.title);
    ImGui::PopFont();
    ImGui::SameLine(0, theme.px(12));
    text_in(colour_of(theme, finding.severity), gain_text(finding));
    mark(fmt::format("advice/{}", finding.rule));
    ImGui::PushTextWrapPos(0);
    ImGui::TextUnformatted(finding.message.c_str());
    for (std::size_t i = 0; i < finding.evidence.size(); ++i) {
      draw_evidence(context, finding.evidence[i], i);
    }
    text_in(theme.muted, "Bound: " + finding.bound + ".");
    if (!finding.measured.empty()) {
      text_in(finding.is_refuted ? theme.muted : theme.good,
              "Measured here: " + finding.measured + ".");
    }
    ImGui::PopTextWrapPos();
    draw_command(context, finding);
    ImGui::Unindent(theme.px(14));
    ImGui::GetWindowDrawList()->AddRectFilled(
        {left, top}, {left + theme.px(3), ImGui::GetCursorScreenPos().y - theme.px(4)},
        colour_of(theme, finding.severity));
    ImGui::Dummy({0, theme.px(10)});
    ImGui::PopID();
  }

  void draw_evidence(PanelContext& context, const Evidence& evidence, std::size_t index) {
    const std::string_view panel = panel_of(evidence);
    if (panel.empty()) {
      ImGui::BulletText("%s", evidence.text.c_str());
      return;
    }
    ImGui::Bullet();
    ImGui::SameLine();
    ImGui::PushID(static_cast<int>(index));
    ImGui::PushStyleColor(ImGuiCol_Text, context.theme.accent);
    if (ImGui::Selectable(evidence.text.c_str())) {
      if (const std::optional<Highlight> highlight = highlight_of(evidence)) {
        context.selection.highlight = *highlight;
      }
      context.requests.open_panel = panel;
    }
    ImGui::PopStyleColor();
    mark(fmt::format("advice.{}", evidence.key));
    ImGui::PopID();
  }

  static void draw_command(PanelContext& context, const Finding& finding) {
    if (finding.toggle.empty()) return;
    const Theme& theme = context.theme;
    text_in(theme.text, fmt::format("Switch: {}", test_text(finding)));
    if (finding.command.empty()) return;
    ImGui::SameLine(0, theme.px(14));
    if (ImGui::SmallButton("Copy the command")) {
      ImGui::SetClipboardText(finding.command.c_str());
      context.requests.notice = "Command copied";
    }
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", finding.command.c_str());
  }

  // What the findings were made from.
  struct Shown {
    std::string arm;
    const BundleModel* bundle = nullptr;
    const TracedArm* trace = nullptr;
    bool operator==(const Shown&) const = default;
  };

  std::size_t side_ = 0;
  std::string arm_;
  Shown shown_;
  std::vector<Finding> findings_;
};

}  // namespace

std::unique_ptr<Panel> make_advice_panel() { return std::make_unique<AdvicePanel>(); }

}  // namespace steplens
