#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/breakdown/traced_arm.h"
#include "reports/sweep/sweep_results.h"
#include "viewer/data/bundle_model.h"

namespace steplens {

struct TraceModel;

/// One trace of a document. What is made of it is loaded when a panel first wants it.
struct TraceEntry {
  std::string arm;             // Of a lone file: its name without folder.
  bool is_memory_run = false;  // Recorded allocations, and no kernels (run kind memory).
  std::filesystem::path path;

  bool is_wanted = false;                   // A panel asked for the model,
  std::shared_ptr<const TraceModel> model;  // which is null until loaded.
  std::string error;                        // Why it cannot be loaded.

  bool is_breakdown_wanted = false;
  std::shared_ptr<const TracedArm> breakdown;
  std::string breakdown_error;
};

/// The same comparison at several values of a key.
struct SweepModel {
  std::filesystem::path folder;
  SweepResults results;  // Computed from the blocks, not read.
};

/// What is open: a bundle with the traces of its arms, one bundle of a sweep, or lone traces.
struct Document {
  std::vector<std::filesystem::path> paths;   // As the user gave them.
  std::string title;                          // For people.
  std::shared_ptr<const BundleModel> bundle;  // Null of lone traces.
  std::shared_ptr<const SweepModel> sweep;    // Null unless `bundle` is one of a sweep's,
  std::size_t point_index = 0;                // that of this point.
  std::vector<TraceEntry> traces;             // In the order of the matrix, the baseline first.

  /// Arms in the order of the matrix; of lone traces one each.
  std::vector<std::string> arms() const;
  /// What the arm is compared with: its reference, or the first of lone traces; empty for that one.
  std::string reference_of(std::string_view arm) const;

  /// Returns nullptr if the arm has none.
  TraceEntry* find_trace(std::string_view arm, bool is_memory_run = false);

  /// The arm's model if it is loaded. Otherwise returns nullptr and the application loads it;
  /// `find_trace` tells whether there is one, and the error.
  const TraceModel* want_trace(std::string_view arm, bool is_memory_run = false);

  /// Where the arm's steps spend their time, likewise.
  const TracedArm* want_breakdown(std::string_view arm);
};

/// Finds out what the paths are and opens them, traces aside: one bundle (its folder or
/// manifest.json), one sweep (its folder or sweep.json; with the bundle of its first value that is
/// measured), or one or several traces (files, or folders of blocks that hold one). ConfigError
/// names a path that does not exist or is nothing of these.
Document open_document(std::span<const std::filesystem::path> paths);

/// The bundle of another point of a sweep. ConfigError if it is not measured.
Document open_sweep_point(std::shared_ptr<const SweepModel> sweep, std::size_t point_index);

}  // namespace steplens
