#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "viewer/app/loader.h"
#include "viewer/app/options.h"
#include "viewer/app/settings.h"
#include "viewer/panels/panel.h"

namespace steplens {

/// A line that is shown for a moment.
struct Notice {
  std::string text;
  double end_s = 0;  // On ImGui's clock.
};

/// What a frame asks the window for.
struct FrameRequests {
  bool wants_quit = false;
  bool wants_screenshot = false;
  bool wants_other_theme = false;
  double redraw_in_s = -1;  // Negative: not before something happens. 0: at once.
};

/// The viewer without a window: the document, what is selected, the panels, and how a frame looks.
/// All functions are for the thread that draws, with an ImGui context.
class Application {
 public:
  /// `wake` makes the event loop go round; any thread calls it.
  Application(const ViewerOptions& options, Settings settings, std::function<void()> wake);

  void open(const std::vector<std::filesystem::path>& paths);

  /// Draws one frame between NewFrame and Render.
  FrameRequests draw(const Theme& theme);

  /// Something is being opened or loaded.
  bool is_busy() const { return loader_.is_busy(); }
  /// What could not be opened; empty if nothing went wrong.
  const std::string& error() const { return error_; }

  void show_notice(std::string text);
  const Settings& settings() const { return settings_; }
  /// What the next start should find.
  Settings settings_to_keep() const;
  /// For --dump-state.
  nlohmann::json state(const Theme& theme) const;
  /// "traced-timeline.png"
  std::string picture_name() const;
  std::string window_title() const;

 private:
  void collect();
  void collect_lone_traces();
  void take_document(Document document);
  void take_point(Document document);
  void select_first_arms();
  void select_arm(const std::string& arm);
  void select_options();
  void carry_out(const PanelRequests& requests);
  void open_panel(std::string_view key);
  /// Those with something to say about what is open; of nothing, those of a bundle.
  bool is_shown(const Panel& panel) const;
  std::vector<std::size_t> shown_panels() const;
  void handle_keys(FrameRequests& requests);

  // One of each in frame.cpp and start_page.cpp.
  void draw_top_bar(const Theme& theme, FrameRequests& requests);
  void draw_arm_choice(const Theme& theme);
  void draw_tabs(const Theme& theme);
  void draw_banners(const Theme& theme);
  void draw_page(const Theme& theme, FrameRequests& requests);
  void draw_status_bar(const Theme& theme, FrameRequests& requests);
  void draw_help(const Theme& theme);
  void draw_start_page(const Theme& theme);
  std::vector<std::string> banners() const;

  ViewerOptions options_;
  Settings settings_;
  Loader loader_;
  std::vector<std::unique_ptr<Panel>> panels_;
  std::size_t panel_index_ = 0;
  std::unique_ptr<Document> document_;  // Null: nothing is open.
  Selection selection_;
  std::string error_;
  std::string opening_;  // What is being opened; empty: nothing.
  std::string path_input_;
  std::vector<std::string> hidden_banners_;
  Notice notice_;
  bool is_remembered_ = false;  // The document is in the recent list.
  bool shows_help_ = false;
  bool shows_start_page_ = false;  // Over a document.
  bool shows_all_banners_ = false;
};

}  // namespace steplens
