#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <imgui.h>

#include "harness/trace/trace.h"
#include "reports/format.h"
#include "reports/pairs.h"
#include "viewer/data/trace_model.h"
#include "viewer/draw/child.h"
#include "viewer/draw/data_table.h"
#include "viewer/draw/marks.h"
#include "viewer/draw/search_field.h"
#include "viewer/draw/text.h"
#include "viewer/panels/panel.h"

namespace steplens {
namespace {

using nlohmann::json;

constexpr float kFactsUnits = 370;

struct Fact {
  std::string name;  // A heading if there is no value.
  std::string value;
};

std::string key_words(std::string_view key) {
  std::string words(key);
  std::ranges::replace(words, '_', ' ');
  return words;
}

// "sm_clock_mhz" becomes "sm clock": the value says its unit.
std::string readable(std::string_view key) {
  constexpr std::array<std::string_view, 8> kUnits = {"_ns",      "_bytes", "_mhz", "_watts",
                                                      "_celsius", "_ratio", "_j",   "_s"};
  std::string name(key);
  for (const std::string_view unit : kUnits) {
    if (name.ends_with(unit)) name.resize(name.size() - unit.size());
  }
  return key_words(name);
}

std::string text_of(const std::string& key, const json& value) {
  if (value.is_null()) return std::string(kNoNumber);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  // Without a unit it is a setting, such as 1e-08: as it was given.
  if (value.is_number())
    return readable(key) == key_words(key) ? value.dump() : format_by_key(key, value);
  return value.dump();
}

// Plain members under a heading; objects in it are headings of their own.
void add_json(std::vector<Fact>& facts, const std::string& heading, const json& object) {
  if (!object.is_object() || object.empty()) return;
  facts.push_back({.name = heading});
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() || value.is_array()) continue;
    facts.push_back({.name = readable(key), .value = text_of(key, value)});
  }
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) add_json(facts, fmt::format("{}: {}", heading, readable(key)), value);
  }
}

std::vector<Fact> facts_of(const BundleModel& model) {
  const Manifest& manifest = model.bundle.manifest;
  const Results& results = model.results;
  std::vector<Fact> facts = {
      {.name = "Run"},
      {.name = "title", .value = manifest.title},
      {.name = "measured", .value = manifest.created_utc},
      {.name = "steplens", .value = manifest.steplens_version},
      {.name = "commit", .value = manifest.git_sha + (manifest.is_dirty ? " (changed)" : "")},
      {.name = "seed", .value = fmt::format("{}", manifest.seed)},
      {.name = "rounds",
       .value = fmt::format("{} of {}, {} dropped", results.num_rounds_complete,
                            results.num_rounds_planned, results.num_rounds_dropped)},
      {.name = "steps a block",
       .value = fmt::format("{} after {} to warm up", manifest.num_measured_steps,
                            manifest.num_warmup_steps)},
      {.name = "ended", .value = results.stop_reason.empty() ? "not yet" : results.stop_reason},
      {.name = "took", .value = format_duration_ns(results.wall_ns)},
      {.name = "of it measured",
       .value = format_or_absent(results.measured_share_ratio, format_percent)}};
  for (const std::string& note : manifest.notes) facts.push_back({.name = "note", .value = note});
  for (const BlockRecord& block : model.bundle.blocks) {
    if (block.status != BlockStatus::kOk) continue;
    add_json(facts, "Versions", block.environment);
    break;
  }
  add_json(facts, "Machine", manifest.environment);
  add_json(facts, "Data", manifest.data);
  add_json(facts, "Baseline", to_json(manifest.baseline));
  std::erase_if(facts, [](const Fact& fact) { return fact.name == "title" && fact.value.empty(); });
  return facts;
}

constexpr std::size_t kArmColumn = 1;

// A GPU's clock, power and temperature only where some block has them.
std::vector<TableColumn> block_columns(bool has_gpu_samples) {
  std::vector<TableColumn> columns = {{.header = "#", .is_number = true, .width_units = 30},
                                      {.header = "Arm", .width_units = 170},
                                      {.header = "Kind", .width_units = 84},
                                      {.header = "Round", .is_number = true, .width_units = 48},
                                      {.header = "Status", .width_units = 76},
                                      {.header = "Step", .is_number = true, .width_units = 68},
                                      {.header = "Start",
                                       .is_number = true,
                                       .width_units = 80,
                                       .tooltip = "Since the matrix began"},
                                      {.header = "Took", .is_number = true, .width_units = 62}};
  if (has_gpu_samples) {
    columns.push_back({.header = "SM clock", .is_number = true, .width_units = 76});
    columns.push_back({.header = "Power", .is_number = true, .width_units = 62});
    columns.push_back({.header = "Max temp.", .is_number = true, .width_units = 72});
  }
  columns.push_back({.header = "Flags"});
  return columns;
}

bool has_gpu_samples(const Bundle& bundle) {
  return std::ranges::any_of(bundle.blocks, [](const BlockRecord& block) {
    const auto found = block.samples.find("mean_sm_clock_mhz");
    return found != block.samples.end() && found->is_number();
  });
}

TableCell sample_cell(const json& samples, const char* key) {
  const auto found = samples.find(key);
  if (found == samples.end() || !found->is_number()) {
    return absent_cell();
  }
  return {.text = format_by_key(key, *found),
          .number = found->get<double>(),
          .exact = fmt::format("{}", found->get<double>())};
}

std::string flags_of(const BlockEntry& entry, const BlockRecord& block) {
  std::string flags;
  const auto add = [&](std::string_view flag) {
    flags += fmt::format("{}{}", flags.empty() ? "" : ", ", flag);
  };
  if (entry.is_superseded) add("not used");
  const auto throttled = block.samples.find("is_throttled_by_hardware");
  if (throttled != block.samples.end() && throttled->is_boolean() && throttled->get<bool>()) {
    add("throttled");
  }
  if (!block.reason.empty()) add(block.reason);
  return flags;
}

TableRow block_row(std::size_t index, const BlockEntry& entry, const BlockRecord& block,
                   bool has_gpu, const Theme& theme) {
  const auto seconds = [](double duration_s) {
    return TableCell{.text = format_duration_ns(1e9 * duration_s),
                     .number = duration_s,
                     .exact = fmt::format("{}", duration_s)};
  };
  TableCell step = absent_cell();
  if (block.steps.size() > 0) {
    const double step_ns = mean_step_wall_ns(block);
    step = {.text = format_duration_ns(step_ns),
            .number = step_ns,
            .exact = fmt::format("{}", step_ns)};
  }
  const bool is_in_round = entry.round_index >= 0;
  TableRow row = {.id = entry.folder, .is_dimmed = entry.is_superseded};
  row.cells = {
      {.text = fmt::format("{}", index),
       .number = static_cast<double>(index),
       .colour = theme.muted},
      {.text = entry.arm},
      {.text = std::string(name_of(entry.kind)), .colour = theme.muted},
      {.text = is_in_round ? fmt::format("{}", entry.round_index + 1) : std::string(kNoNumber),
       .number = is_in_round ? entry.round_index : kAbsentNumber},
      {.text = std::string(name_of(entry.status)),
       .colour = entry.status == BlockStatus::kOk ? theme.muted : theme.warning},
      step,
      seconds(entry.start_s),
      seconds(entry.duration_s)};
  if (has_gpu) {
    for (const char* key : {"mean_sm_clock_mhz", "mean_power_watts", "max_temperature_celsius"}) {
      row.cells.push_back(sample_cell(block.samples, key));
    }
  }
  row.cells.push_back({.text = flags_of(entry, block), .colour = theme.warning});
  return row;
}

class RunPanel final : public Panel {
 public:
  std::string_view key() const override { return "run"; }
  const char* title() const override { return "Run"; }

  void reset() override {
    source_ = nullptr;
    rows_.clear();
    facts_.clear();
    search_.clear();
  }
  void focus_search() override { search_.focus(); }

  void draw(PanelContext& context) override {
    const BundleModel* model = context.document.bundle.get();
    if (model == nullptr) {
      draw_facts(context, trace_facts(context), 0);
      return;
    }
    make_rows(*model, context.theme);
    draw_facts(context, facts_, context.theme.px(kFactsUnits));
    ImGui::SameLine(0, context.theme.px(14));
    ImGui::BeginGroup();
    draw_blocks(context);
    draw_quality(context);
    ImGui::EndGroup();
  }

  json state() const override {
    return {{"num_blocks", rows_.size()}, {"num_facts", facts_.size()}, {"search", search_.text()}};
  }

 private:
  void make_rows(const BundleModel& model, const Theme& theme) {
    if (source_ == &model && rows_search_ == search_.text() && rows_theme_ == theme.kind) return;
    const bool is_new = source_ != &model;
    source_ = &model;
    rows_search_ = search_.text();
    rows_theme_ = theme.kind;
    facts_ = facts_of(model);
    rows_.clear();
    const bool has_gpu = has_gpu_samples(model.bundle);
    if (is_new) table_ = std::make_unique<DataTable>("blocks", block_columns(has_gpu));
    const auto& entries = model.bundle.manifest.blocks;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      TableRow row = block_row(i, entries[i], model.bundle.blocks[i], has_gpu, theme);
      const bool is_match = std::ranges::any_of(
          row.cells, [&](const TableCell& cell) { return search_.matches(cell.text); });
      if (is_match) rows_.push_back(std::move(row));
    }
    table_->invalidate_order();
  }

  // What the recorder wrote about itself.
  static std::vector<Fact> trace_facts(PanelContext& context) {
    std::vector<Fact> facts;
    for (const TraceEntry& entry : context.document.traces) {
      facts.push_back({.name = entry.arm});
      facts.push_back({.name = "file", .value = entry.path.string()});
      if (!entry.error.empty()) facts.push_back({.name = "error", .value = entry.error});
      if (entry.model == nullptr) continue;
      facts.push_back({.name = "operations", .value = format_count(entry.model->num_operations)});
      facts.push_back({.name = "steps", .value = fmt::format("{}", entry.model->num_steps())});
      add_json(facts, "Recorded", entry.model->tables.info);
      add_quality(facts, entry.model->tables.quality);
    }
    return facts;
  }

  static void add_quality(std::vector<Fact>& facts,
                          const std::map<std::string, std::int64_t>& quality) {
    if (quality.empty()) return;
    facts.push_back({.name = "Quality"});
    for (const auto& [name, count] : quality) {
      facts.push_back({.name = readable(name), .value = format_by_key(name, count)});
    }
  }

  static void draw_facts(const PanelContext& context, const std::vector<Fact>& facts, float width) {
    const Theme& theme = context.theme;
    ImGui::PushStyleColor(ImGuiCol_ChildBg, theme.surface);
    begin_padded_child("##facts", {width, 0}, true);
    ImGui::PopStyleColor();
    const float value_x = theme.px(158);
    for (std::size_t i = 0; i < facts.size(); ++i) {
      const Fact& fact = facts[i];
      if (fact.value.empty()) {
        if (i > 0) ImGui::Dummy({0, theme.px(6)});
        text_in(theme.accent, fact.name);
        continue;
      }
      text_in(theme.muted, fitted(fact.name, value_x - theme.px(16)));
      ImGui::SameLine(value_x);
      const std::string shown = fitted(fact.value, ImGui::GetContentRegionAvail().x);
      text_in(theme.text, shown);
      if (!ImGui::IsItemHovered()) continue;
      if (shown != fact.value) ImGui::SetTooltip("%s", fact.value.c_str());
      if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
        ImGui::SetClipboardText(fact.value.c_str());
        context.requests.notice = fact.name + " copied";
      }
    }
    ImGui::EndChild();
  }

  void draw_blocks(PanelContext& context) {
    const Theme& theme = context.theme;
    heading_in_line(theme, "Blocks in the order in which they ran");
    ImGui::SameLine(0, theme.px(14));
    search_.draw(theme, "arm, kind or status",
                 std::max(theme.px(80), ImGui::GetContentRegionAvail().x -
                                            button_width("Copy CSV") - theme.px(8)));
    ImGui::SameLine();
    std::string notice = copy_csv_button(theme, table_->columns(), rows_);
    if (!notice.empty()) context.requests.notice = std::move(notice);
    std::vector<std::string> selected;
    for (const TableRow& row : rows_) {
      const std::string& arm = row.cells[kArmColumn].text;
      const std::string& wanted =
          context.selection.arm_b.empty() ? context.selection.arm_a : context.selection.arm_b;
      if (arm == wanted) selected.push_back(row.id);
    }
    const bool has_traces = !context.document.traces.empty();
    const float height = ImGui::GetContentRegionAvail().y - (has_traces ? theme.px(180) : 0);
    const TableEvents events = table_->draw(theme, rows_, selected, {0, height});
    if (events.clicked == nullptr) return;
    const std::string& arm = events.clicked->cells[kArmColumn].text;
    const std::string reference = context.document.reference_of(arm);
    context.selection.arm_a = reference.empty() ? arm : reference;
    context.selection.arm_b = reference.empty() ? std::string() : arm;
  }

  // One row a trace that is loaded, one column a counter that is not 0 in all.
  static void draw_quality(PanelContext& context) {
    if (context.document.traces.empty()) return;
    const Theme& theme = context.theme;
    ImGui::Dummy({0, theme.px(4)});
    text_in(theme.text, "What the traces say about themselves");
    ImGui::BeginChild("##quality", {0, 0}, false);
    bool is_any_loaded = false;
    for (const TraceEntry& entry : context.document.traces) {
      if (entry.model == nullptr) continue;
      is_any_loaded = true;
      const auto& quality = entry.model->tables.quality;
      std::string line;
      for (const auto& [name, count] : quality) {
        if (count == 0) continue;
        line += fmt::format("{}{} {}", line.empty() ? "" : ",  ", readable(name),
                            format_by_key(name, count));
      }
      text_in(has_lost_data(quality) ? theme.warning : theme.muted,
              entry.arm + (entry.is_memory_run ? " (memory)" : ""));
      ImGui::SameLine(theme.px(200));
      text_in(theme.text, fmt::format("{} operations", format_count(entry.model->num_operations)));
      ImGui::SameLine(theme.px(340));
      text_in(theme.muted,
              fitted(line.empty() ? "all counters are 0" : line, ImGui::GetContentRegionAvail().x));
    }
    if (!is_any_loaded) {
      text_in(theme.muted, "Traces are read when a panel needs them: open Timeline or Kernels.");
    }
    ImGui::EndChild();
  }

  const BundleModel* source_ = nullptr;  // What `rows_` and `facts_` were made of.
  std::string rows_search_;
  ThemeKind rows_theme_ = ThemeKind::kDark;
  std::vector<TableRow> rows_;
  std::vector<Fact> facts_;
  std::unique_ptr<DataTable> table_;
  SearchField search_;
};

}  // namespace

std::unique_ptr<Panel> make_run_panel() { return std::make_unique<RunPanel>(); }

}  // namespace steplens
