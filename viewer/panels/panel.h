#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "viewer/data/document.h"
#include "viewer/draw/theme.h"
#include "viewer/panels/selection.h"

namespace steplens {

/// What a panel asks the application for; carried out after the frame.
struct PanelRequests {
  std::string open_panel;                 // Key of the panel to bring to the front.
  std::string notice;                     // Shown for a moment: "12 rows copied".
  std::optional<std::size_t> open_point;  // Of the sweep that is open.
  bool needs_next_frame = false;          // Something moves: do not sleep until input comes.
};

struct PanelContext {
  Document& document;  // Never without content: the application draws the empty state.
  Selection& selection;
  const Theme& theme;
  PanelRequests& requests;
};

/// One page of the viewer. It reads the document, shares the Selection, and keeps all else to
/// itself.
class Panel {
 public:
  virtual ~Panel() = default;
  /// Names it in settings, `--panel` and PanelRequests.
  virtual std::string_view key() const = 0;
  virtual const char* title() const = 0;
  /// Has it anything to say about such a document? If not, it has no tab.
  virtual bool is_for(const Document& /*document*/) const { return true; }
  /// Called once a frame in a child window that fills the page: lay out in GetContentRegionAvail().
  /// Keys that no text field wants are the panel's.
  virtual void draw(PanelContext& context) = 0;
  /// '/' was pressed: put the cursor into the search field.
  virtual void focus_search() {}
  /// A new document was opened.
  virtual void reset() {}
  /// What it shows, for --dump-state and tests: filter, zoom, number of rows, ...
  virtual nlohmann::json state() const { return nlohmann::json::object(); }
  /// What it remembers across starts, and takes back.
  virtual nlohmann::json settings() const { return nlohmann::json::object(); }
  virtual void restore(const nlohmann::json& /*settings*/) {}
};

/// All panels in the order of their tabs. The application draws the one in front.
std::vector<std::unique_ptr<Panel>> make_panels();

}  // namespace steplens
