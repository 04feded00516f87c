#include "harness/bundle_writer.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/json_field.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr std::string_view kSessionName = ".session.json";

[[noreturn]] void fail(const fs::path& path, std::string_view what, const std::error_code& error) {
  throw ConfigError(fmt::format("{}: {}: {}", path.string(), what, error.message()));
}

// Blocks of other programs may have been written without fsync: publishing promises more.
void sync_files(const fs::path& folder) {
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    if (!file.is_regular_file()) continue;
    const int fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
    const bool is_synced = fd >= 0 && ::fsync(fd) == 0;
    const std::error_code error(errno, std::generic_category());
    if (fd >= 0) ::close(fd);
    if (!is_synced) fail(file.path(), "cannot sync", error);
  }
}

// Nothing in it, or only what a run leaves that was killed before it had written its manifest.
bool is_fresh(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_leftover = name == ".lock" || name.starts_with("manifest.json.tmp-") ||
                             (name == "blocks" && fs::is_empty(entry.path()));
    if (!is_leftover) return false;
  }
  return true;
}

// The part of `folder` that has to be made, from the top; empty if it exists.
fs::path topmost_missing(const fs::path& folder) {
  fs::path missing;
  for (fs::path path = folder; !path.empty() && !fs::exists(path); path = path.parent_path()) {
    missing = path;
  }
  return missing;
}

}  // namespace

json to_json(const ProcessRecord& record) {
  json result = record.facts;
  result["schema_version"] = kSchemaVersion;
  result["start_s"] = record.start_s;
  result["duration_s"] = record.duration_s;
  return result;
}

ProcessRecord process_record_from_json(const json& object, std::string_view source) {
  return {.start_s = json_field<double>(object, source, "start_s"),
          .duration_s = json_field<double>(object, source, "duration_s"),
          .facts = object};
}

void add_block(Manifest& manifest, BlockEntry entry) {
  if (entry.kind != BlockKind::kSoak) {
    for (BlockEntry& earlier : manifest.blocks) {
      if (earlier.kind == entry.kind && earlier.arm == entry.arm &&
          earlier.round_index == entry.round_index) {
        earlier.is_superseded = true;
      }
    }
  }
  manifest.blocks.push_back(std::move(entry));
}

BundleWriter::BundleWriter(fs::path folder, Manifest manifest, std::unique_ptr<RunLock> lock)
    : folder_(std::move(folder)),
      manifest_(std::move(manifest)),
      lock_(std::move(lock)) {}

BundleWriter BundleWriter::create(const fs::path& folder, Manifest manifest,
                                  const std::function<void()>& before_manifest) {
  std::error_code error;
  if (fs::exists(folder / "manifest.json", error)) {
    throw ConfigError(
        fmt::format("{}: holds a bundle already; continue it with --resume, or name "
                    "another folder",
                    folder.string()));
  }
  if (fs::exists(folder, error) && !is_fresh(folder)) {
    throw ConfigError(fmt::format("{}: is not an empty folder", folder.string()));
  }
  const fs::path absolute = fs::absolute(folder).lexically_normal();
  const fs::path made = topmost_missing(absolute);
  const auto remove_made = [&] {
    std::error_code ignored;
    fs::remove_all(absolute / "blocks", ignored);
    if (!made.empty()) fs::remove_all(made, ignored);
  };
  fs::create_directories(absolute / "blocks", error);
  if (error) {
    remove_made();
    fail(folder, "cannot write", error);
  }
  try {
    BundleWriter writer(absolute, std::move(manifest), std::make_unique<RunLock>(absolute));
    writer.remove_leftovers();
    if (before_manifest) before_manifest();
    writer.save();
    return writer;
  } catch (const ConfigError&) {
    remove_made();
    throw;
  }
}

BundleWriter BundleWriter::reopen(const fs::path& folder) {
  const fs::path absolute = fs::absolute(folder).lexically_normal();
  const fs::path path = absolute / "manifest.json";
  if (!fs::exists(path)) {
    throw ConfigError(
        fmt::format("{}: nothing to resume: it has no manifest.json", folder.string()));
  }
  auto lock = std::make_unique<RunLock>(absolute);
  BundleWriter writer(absolute, manifest_from_json(read_json(path), path.string()),
                      std::move(lock));
  writer.check_hashes();
  writer.remove_leftovers();
  writer.adopt_unlisted_blocks();
  writer.num_earlier_blocks_ = writer.manifest_.blocks.size();
  return writer;
}

void BundleWriter::save() const {
  write_json_atomically(folder_ / "manifest.json", to_json(manifest_));
}

int BundleWriter::next_block_index() const {
  int last = -1;
  for (const fs::directory_entry& block : fs::directory_iterator(folder_ / "blocks")) {
    const std::string name = block.path().filename().string();
    int index = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), index).ec == std::errc()) {
      last = std::max(last, index);
    }
  }
  return last + 1;
}

fs::path BundleWriter::begin_block(std::string_view label) {
  const fs::path block_folder =
      folder_ / "blocks" /
      fmt::format("{}{:04}-{}", kTemporaryPrefix, next_block_index(), folder_name_of(label));
  std::error_code error;
  if (!fs::create_directory(block_folder, error) && error) {
    fail(block_folder, "cannot write", error);
  }
  return block_folder;
}

void BundleWriter::abandon_block(const fs::path& block_folder) {
  std::error_code ignored;  // What cannot be removed now is a leftover that the next run removes.
  fs::remove_all(block_folder, ignored);
}

BlockEntry BundleWriter::publish_block(const fs::path& block_folder, BlockEntry entry,
                                       const ProcessRecord& process) {
  write_json_atomically(block_folder / "process.json", to_json(process));
  sync_files(block_folder);
  entry.folder = block_folder.filename().string().substr(kTemporaryPrefix.size());
  entry.sha256 = sha256_file_hex(block_folder / "block.json");
  entry.start_s = process.start_s;
  entry.duration_s = process.duration_s;
  publish_folder(block_folder, folder_ / "blocks" / entry.folder);
  add_block(manifest_, entry);
  save();
  return entry;
}

BlockRecord BundleWriter::read_block(const BlockEntry& entry) const {
  return read_block_record(block_path(folder_, entry));
}

void BundleWriter::remove_leftovers() const {
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& block : fs::directory_iterator(folder_ / "blocks")) {
    if (block.path().filename().string().starts_with(kTemporaryPrefix)) {
      leftovers.push_back(block.path());
    }
  }
  // write_file_atomically's own: "manifest.json.tmp-1234".
  for (const fs::directory_entry& file : fs::directory_iterator(folder_)) {
    if (file.path().filename().string().find(".tmp-") != std::string::npos) {
      leftovers.push_back(file.path());
    }
  }
  for (const fs::path& path : leftovers) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) fail(path, "cannot remove", error);
  }
}

void BundleWriter::adopt_unlisted_blocks() {
  std::vector<std::string> unlisted;
  for (const fs::directory_entry& block : fs::directory_iterator(folder_ / "blocks")) {
    const std::string name = block.path().filename().string();
    if (std::ranges::count(manifest_.blocks, name, &BlockEntry::folder) == 0) {
      unlisted.push_back(name);
    }
  }
  std::ranges::sort(unlisted);
  for (const std::string& name : unlisted) {
    const fs::path block_json = folder_ / "blocks" / name / "block.json";
    const fs::path process_json = folder_ / "blocks" / name / "process.json";
    const BlockRecord record = read_block_record(block_json);
    const ProcessRecord process =
        process_record_from_json(read_json(process_json), process_json.string());
    if (find_arm(manifest_, record.arm) == nullptr) {
      throw ConfigError(fmt::format("{}: arm={}: this bundle has no such arm; move the folder away",
                                    block_json.string(), record.arm));
    }
    add_block(manifest_, {.folder = name,
                          .arm = record.arm,
                          .round_index = record.round_index,
                          .kind = record.kind,
                          .status = record.status,
                          .sha256 = sha256_file_hex(block_json),
                          .start_s = process.start_s,
                          .duration_s = process.duration_s});
  }
  if (!unlisted.empty()) save();
}

void BundleWriter::check_hashes() const {
  for (const BlockEntry& entry : manifest_.blocks) {
    const fs::path path = block_path(folder_, entry);
    if (sha256_file_hex(path) != entry.sha256) {
      throw ConfigError(fmt::format(
          "{}: damaged: its SHA-256 is not the one that manifest.json records", path.string()));
    }
  }
}

json BundleWriter::read_session() const {
  const fs::path path = folder_ / kSessionName;
  return fs::exists(path) ? read_json(path) : json::object();
}

void BundleWriter::write_session(const json& session) const {
  write_json_atomically(folder_ / kSessionName, session);
}

void BundleWriter::finish() const {
  std::error_code ignored;
  fs::remove(folder_ / kSessionName, ignored);
}

}  // namespace steplens
