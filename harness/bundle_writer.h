#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "harness/bundle.h"
#include "harness/run_lock.h"

namespace steplens {

/// The scheduler's own facts about one block, in process.json beside its block.json.
struct ProcessRecord {
  double start_s = 0;  // As in BlockEntry.
  double duration_s = 0;
  nlohmann::json facts = nlohmann::json::object();  // CPU time, memory, load, temperatures.
};
nlohmann::json to_json(const ProcessRecord& record);
ProcessRecord process_record_from_json(const nlohmann::json& json, std::string_view source);

/// A bundle that is being written. After a kill at any point the folder is a valid bundle that
/// lacks at most the block in flight.
///
/// A block is built in a folder whose name begins with ".tmp-", renamed when it is whole, and then
/// entered in the manifest. Holds the bundle's lock. Not thread-safe.
class BundleWriter {
 public:
  /// Makes the folder and its manifest, and calls `before_manifest` just before the manifest makes
  /// it a bundle. ConfigError, with nothing left behind, if the folder is not empty or cannot be
  /// written.
  static BundleWriter create(const std::filesystem::path& folder, Manifest manifest,
                             const std::function<void()>& before_manifest = {});

  /// Opens a bundle that was interrupted: removes what a killed run left half-written, and enters
  /// the blocks that were published but not yet listed. ConfigError names the file that is missing,
  /// damaged, newer, or no longer what its hash says.
  static BundleWriter reopen(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  Manifest& manifest() { return manifest_; }
  const Manifest& manifest() const { return manifest_; }
  void save() const;

  /// Blocks that were listed when this process opened the bundle: those before this session.
  std::size_t num_earlier_blocks() const { return num_earlier_blocks_; }

  /// A new empty folder for the block that `label` describes, such as "pilot-attention=flash".
  std::filesystem::path begin_block(std::string_view label);

  /// Removes the folder of a block that will not be published.
  static void abandon_block(const std::filesystem::path& block_folder);

  /// Publishes the folder, which holds block.json, and enters it: folder and hash are filled in,
  /// earlier attempts at the same place become superseded. Returns the entry.
  BlockEntry publish_block(const std::filesystem::path& block_folder, BlockEntry entry,
                           const ProcessRecord& process);

  BlockRecord read_block(const BlockEntry& entry) const;

  /// What the next session must know to go on within a round, kept in .session.json until `finish`.
  nlohmann::json read_session() const;
  void write_session(const nlohmann::json& session) const;
  void finish() const;

 private:
  BundleWriter(std::filesystem::path folder, Manifest manifest, std::unique_ptr<RunLock> lock);
  void remove_leftovers() const;
  void adopt_unlisted_blocks();
  void check_hashes() const;
  int next_block_index() const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::unique_ptr<RunLock> lock_;
  std::size_t num_earlier_blocks_ = 0;
};

/// Enters a block. Of several attempts at the same throughput block of a round, or at an arm's
/// pilot, all but the last become superseded.
void add_block(Manifest& manifest, BlockEntry entry);

}  // namespace steplens
