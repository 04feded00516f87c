#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "viewer/data/bundle_model.h"

namespace steplens {

struct TraceModel;

/// One trace of a document. Its model is loaded when a panel first wants it.
struct TraceEntry {
  std::string arm;             // Of a lone file: its name without folder.
  bool is_memory_run = false;  // Recorded allocations, and no kernels (run kind memory).
  std::filesystem::path path;
  bool is_wanted = false;                   // A panel asked for it.
  std::shared_ptr<const TraceModel> model;  // Null until loaded.
  std::string error;                        // Why it cannot be loaded.
};

/// What is open: a bundle with the traces of its arms, or one lone trace.
struct Document {
  std::filesystem::path path;                 // As the user gave it.
  std::shared_ptr<const BundleModel> bundle;  // Null of a lone trace.
  std::vector<TraceEntry> traces;

  /// Returns nullptr if the arm has none.
  TraceEntry* find_trace(std::string_view arm, bool is_memory_run = false);

  /// The arm's model if it is loaded. Otherwise returns nullptr and the application loads it;
  /// `find_trace` tells whether there is one, and the error.
  const TraceModel* want_trace(std::string_view arm, bool is_memory_run = false);
};

}  // namespace steplens
