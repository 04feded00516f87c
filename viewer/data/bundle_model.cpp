#include "viewer/data/bundle_model.h"

#include <utility>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/files.h"

namespace steplens {
namespace {

std::string lost_blocks_text(std::size_t num_lost, std::size_t num_blocks,
                             const std::string& first) {
  return fmt::format("{} of {} blocks cannot be read and are left out. The first: {}", num_lost,
                     num_blocks, first);
}

}  // namespace

std::shared_ptr<const BundleModel> open_bundle_model(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "manifest.json";
  auto model = std::make_shared<BundleModel>();
  Manifest manifest = manifest_from_json(read_json(path), path.string());
  std::vector<BlockEntry> entries;
  std::swap(entries, manifest.blocks);
  std::string first_error;
  for (const BlockEntry& entry : entries) {
    try {
      model->bundle.blocks.push_back(read_block_record(block_path(folder, entry)));
      manifest.blocks.push_back(entry);
    } catch (const ConfigError& error) {
      if (first_error.empty()) first_error = error.what();
    }
  }
  const std::size_t num_lost = entries.size() - manifest.blocks.size();
  model->bundle.folder = folder;
  model->bundle.manifest = std::move(manifest);
  model->results = compute_results(model->bundle);
  if (num_lost > 0) {
    model->banners.push_back(lost_blocks_text(num_lost, entries.size(), first_error));
  }
  const Results& results = model->results;
  if (results.stop_reason.empty()) {
    model->banners.push_back(
        fmt::format("This matrix is unfinished: {} of {} rounds are complete. Go on with: steplens "
                    "matrix --resume {}",
                    results.num_rounds_complete, results.num_rounds_planned, folder.string()));
  }
  return model;
}

}  // namespace steplens
