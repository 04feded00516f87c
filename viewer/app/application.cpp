#include "viewer/app/application.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <imgui.h>

#include "harness/files.h"
#include "viewer/data/trace_model.h"
#include "viewer/draw/keys.h"
#include "viewer/draw/marks.h"

namespace steplens {
namespace {

using nlohmann::json;

constexpr double kNoticeS = 4;

std::string_view name_of(HighlightKind kind) {
  switch (kind) {
    case HighlightKind::kKernel: return "kernel";
    case HighlightKind::kPhase: return "phase";
    case HighlightKind::kModule: return "module";
    case HighlightKind::kCategory: return "category";
    case HighlightKind::kIdle: return "idle";
    case HighlightKind::kNone: break;
  }
  return "none";
}

json to_json(const std::optional<OperationRef>& operation) {
  if (!operation) return nullptr;
  return {{"arm", operation->arm}, {"row", operation->row}};
}

json to_json(const Selection& selection) {
  return {{"arm_a", selection.arm_a},
          {"arm_b", selection.arm_b},
          {"steps", selection.steps ? json{{"first", selection.steps->first_step_index},
                                           {"last", selection.steps->last_step_index}}
                                    : json(nullptr)},
          {"operation", to_json(selection.operation)},
          {"hovered", to_json(selection.hovered)},
          {"highlight",
           {{"kind", name_of(selection.highlight.kind)}, {"key", selection.highlight.key}}}};
}

json marks_json() {
  json result = json::object();
  for (const auto& [name, rect] : marks()) {
    result[name] = {std::lround(rect.low.x), std::lround(rect.low.y), std::lround(rect.high.x),
                    std::lround(rect.high.y)};
  }
  return result;
}

}  // namespace

Application::Application(const ViewerOptions& options, Settings settings,
                         std::function<void()> wake)
    : options_(options),
      settings_(std::move(settings)),
      loader_(std::move(wake)),
      panels_(make_panels()) {
  for (const auto& panel : panels_) {
    const auto stored = settings_.panels.find(panel->key());
    if (stored == settings_.panels.end() || !stored->is_object()) continue;
    try {
      panel->restore(*stored);
    } catch (const json::exception&) {
      settings_.panels.erase(stored);  // Of another version: the panel keeps its defaults.
    }
  }
  open_panel(options_.panel.empty() ? settings_.panel : options_.panel);
  if (!options_.paths.empty()) open(options_.paths);
}

void Application::open(const std::vector<std::filesystem::path>& paths) {
  if (paths.empty()) return;
  error_.clear();
  opening_ = paths.front().string();
  loader_.open(paths);
}

void Application::collect() {
  if (std::optional<Loader::Opened> opened = loader_.take_opened()) {
    opening_.clear();
    error_ = opened->error;
    if (opened->document) take_document(std::move(*opened->document));
  }
  if (!document_) return;
  loader_.serve(*document_);
  if (document_->bundle == nullptr) collect_lone_traces();
}

// Of lone traces it shows only now whether they are any.
void Application::collect_lone_traces() {
  const auto& traces = document_->traces;
  if (std::ranges::all_of(traces, [](const TraceEntry& entry) { return !entry.error.empty(); })) {
    error_ = traces.front().error;
    document_.reset();
    return;
  }
  for (const TraceEntry& entry : traces) {
    if (entry.model == nullptr || is_remembered_) continue;
    is_remembered_ = true;
    for (const std::filesystem::path& path : document_->paths) remember_recent(settings_, path);
  }
}

void Application::take_document(Document document) {
  if (document_ && document.sweep != nullptr && document.sweep == document_->sweep) {
    take_point(std::move(document));
    return;
  }
  document_ = std::make_unique<Document>(std::move(document));
  shows_start_page_ = false;
  shows_all_banners_ = false;
  hidden_banners_.clear();
  selection_ = {};
  for (const auto& panel : panels_) panel->reset();
  is_remembered_ = document_->bundle != nullptr;
  if (is_remembered_) remember_recent(settings_, document_->paths.front());
  if (document_->sweep != nullptr && options_.panel.empty()) open_panel("sweep");
  if (!is_shown(*panels_[panel_index_])) open_panel("matrix");
  // Of a lone trace the matrix has nothing to say.
  if (document_->bundle == nullptr && panels_[panel_index_]->key() == "matrix") {
    open_panel("timeline");
  }
  select_first_arms();
  select_options();
}

// Another point of the sweep that is open: what is looked at stays, where it has that.
void Application::take_point(Document document) {
  document_ = std::make_unique<Document>(std::move(document));
  hidden_banners_.clear();
  for (const auto& panel : panels_) panel->reset();
  const std::vector<std::string> arms = document_->arms();
  const auto has = [&](const std::string& arm) {
    return std::ranges::find(arms, arm) != arms.end();
  };
  const Selection before = std::exchange(selection_, {});
  select_first_arms();
  if (has(before.arm_a) && (before.arm_b.empty() || has(before.arm_b))) {
    selection_.arm_a = before.arm_a;
    selection_.arm_b = before.arm_b;
  }
}

void Application::select_first_arms() {
  const std::vector<std::string> arms = document_->arms();
  if (arms.empty()) return;
  selection_.arm_a = arms.front();
  // The candidate that most people will ask about: the fastest one, else the first.
  const ArmResult* best = nullptr;
  if (document_->bundle != nullptr) {
    for (const ArmResult& arm : document_->bundle->results.arms) {
      if (arm.verdict != Verdict::kFaster || arm.reference != selection_.arm_a) continue;
      if (best == nullptr || arm.effect_ratio > best->effect_ratio) best = &arm;
    }
  }
  if (best != nullptr) {
    selection_.arm_b = best->name;
  } else if (arms.size() > 1) {
    selection_.arm_b = arms[1];
  }
}

void Application::select_arm(const std::string& arm) {
  const std::string reference = document_->reference_of(arm);
  selection_.arm_a = reference.empty() ? arm : reference;
  selection_.arm_b = reference.empty() ? std::string() : arm;
}

void Application::select_options() {
  const std::vector<std::string> arms = document_->arms();
  for (const std::string& arm : {options_.arm, options_.against}) {
    if (arm.empty() || std::ranges::find(arms, arm) != arms.end()) continue;
    error_ = fmt::format("arm: '{}' is unknown; allowed: {}", arm, fmt::join(arms, ", "));
    return;
  }
  if (!options_.arm.empty()) select_arm(options_.arm);
  if (!options_.against.empty()) {
    if (!options_.arm.empty()) selection_.arm_b = options_.arm;
    selection_.arm_a = options_.against;
  }
  if (options_.steps) selection_.steps = options_.steps;
  // They are about the document that was named beside them.
  options_.arm.clear();
  options_.against.clear();
  options_.steps.reset();
  options_.panel.clear();
}

bool Application::is_shown(const Panel& panel) const {
  return panel.is_for(document_ ? *document_ : Document{});
}

std::vector<std::size_t> Application::shown_panels() const {
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < panels_.size(); ++i) {
    if (is_shown(*panels_[i])) shown.push_back(i);
  }
  return shown;
}

void Application::open_panel(std::string_view key) {
  for (std::size_t i = 0; i < panels_.size(); ++i) {
    if (panels_[i]->key() == key) panel_index_ = i;
  }
}

void Application::carry_out(const PanelRequests& requests) {
  if (!requests.open_panel.empty()) open_panel(requests.open_panel);
  if (!requests.notice.empty()) show_notice(requests.notice);
  if (requests.open_point && document_->sweep != nullptr) {
    loader_.open_point(document_->sweep, *requests.open_point);
  }
}

void Application::show_notice(std::string text) {
  notice_ = {.text = std::move(text), .end_s = ImGui::GetTime() + kNoticeS};
}

void Application::handle_keys(FrameRequests& requests) {
  if (is_question_mark_pressed()) {
    shows_help_ = !shows_help_;
  } else if (is_pressed(Key::kSlash) && document_ && !shows_start_page_) {
    panels_[panel_index_]->focus_search();
  }
  if (shows_help_ && is_pressed(Key::kEscape)) shows_help_ = false;
  if (is_pressed_with_control(Key::kQ)) requests.wants_quit = true;
  if (is_pressed_with_control(Key::kO)) shows_start_page_ = !shows_start_page_;
  if (is_pressed_with_control(Key::kS)) requests.wants_screenshot = true;
  if (is_pressed_with_control(Key::kT)) requests.wants_other_theme = true;
  constexpr std::array kDigits = {Key::k1, Key::k2, Key::k3, Key::k4, Key::k5,
                                  Key::k6, Key::k7, Key::k8, Key::k9};
  const std::vector<std::size_t> shown = shown_panels();
  for (std::size_t i = 0; i < std::min(shown.size(), kDigits.size()); ++i) {
    if (is_pressed(kDigits[i])) panel_index_ = shown[i];
  }
}

std::vector<std::string> Application::banners() const {
  std::vector<std::string> result;
  if (!document_) return result;
  if (document_->bundle != nullptr) result = document_->bundle->banners;
  for (const TraceEntry& entry : document_->traces) {
    const std::string prefix = document_->traces.size() > 1 ? entry.arm + ": " : std::string();
    if (!entry.error.empty()) result.push_back(prefix + entry.error);
    if (entry.model == nullptr) continue;
    for (const std::string& banner : entry.model->banners) result.push_back(prefix + banner);
  }
  std::erase_if(result, [&](const std::string& banner) {
    return std::ranges::find(hidden_banners_, banner) != hidden_banners_.end();
  });
  return result;
}

Settings Application::settings_to_keep() const {
  Settings settings = settings_;
  settings.panel = panels_[panel_index_]->key();
  for (const auto& panel : panels_) settings.panels[std::string(panel->key())] = panel->settings();
  return settings;
}

json Application::state(const Theme& theme) const {
  json panel_states = json::object();
  for (const auto& panel : panels_) panel_states[std::string(panel->key())] = panel->state();
  json document = nullptr;
  if (document_) {
    json traces = json::array();
    for (const TraceEntry& entry : document_->traces) {
      traces.push_back({{"arm", entry.arm},
                        {"is_memory_run", entry.is_memory_run},
                        {"is_loaded", entry.model != nullptr},
                        {"has_breakdown", entry.breakdown != nullptr},
                        {"error", entry.error}});
    }
    document = {{"title", document_->title},
                {"is_bundle", document_->bundle != nullptr},
                {"arms", document_->arms()},
                {"traces", traces}};
  }
  json recent = json::array();
  for (const std::filesystem::path& path : settings_.recent) recent.push_back(path.string());
  const bool has_notice = ImGui::GetTime() < notice_.end_s;
  return {{"document", document},
          {"error", error_},
          {"is_busy", loader_.is_busy()},
          {"panel", panels_[panel_index_]->key()},
          {"panels", panel_states},
          {"selection", to_json(selection_)},
          {"banners", banners()},
          {"notice", has_notice ? notice_.text : ""},
          {"has_text_cursor", ImGui::GetIO().WantTextInput},
          {"shows_help", shows_help_},
          {"shows_start_page", !document_ || shows_start_page_},
          {"recent", recent},
          {"theme", name_of(theme.kind)},
          {"marks", marks_json()}};
}

std::string Application::picture_name() const {
  return fmt::format("{}-{}.png",
                     document_ ? folder_name_of(document_->title) : std::string("steplens"),
                     panels_[panel_index_]->key());
}

std::string Application::window_title() const {
  return document_ ? fmt::format("{} - Steplens", document_->title) : "Steplens";
}

}  // namespace steplens
