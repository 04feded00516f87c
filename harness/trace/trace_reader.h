#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "harness/trace/trace.h"

namespace steplens {

namespace quality {
/// Bytes behind the last whole chunk of a truncated file.
inline constexpr std::string_view kIgnoredBytes = "ignored_bytes";
/// References of a truncated file to rows or strings that it lacks; they now refer to none.
inline constexpr std::string_view kLostReferences = "lost_references";
}  // namespace quality

/// Reads a whole trace.slt. Every row index and StringId of the result exists or is kNoRow (device
/// 0 need not be described); parents are earlier rows.
///
/// A file whose writer was killed gives its whole chunks, with quality "truncated" = 1,
/// "ignored_bytes" and "lost_references". A damaged file, or one of a newer version, is a
/// ConfigError that names file, chunk and cause.
Trace read_trace(const std::filesystem::path& path);

/// The same of a file in memory; `name` stands for it in messages.
Trace read_trace(std::span<const std::byte> file, std::string_view name);

/// What the reader and those who wait for it tell each other; any thread, any time.
struct ReadProgress {
  std::atomic<std::size_t> num_done_rows = 0;
  std::atomic<bool> is_cancelled = false;  // To be set: reading ends with a ConfigError.
};

struct ReadOptions {
  /// Past damage: chunks that cannot be read are passed over and counted ("damaged_chunks"); what
  /// others refer to leaves a gap of empty rows and of strings "(lost)".
  bool keeps_going = false;
  int num_threads = 1;  // Of those that decode for a RowSink.
  ReadProgress* progress = nullptr;
};

/// Where rows stand in their table.
struct RowPlace {
  std::size_t first_row = 0;
  std::size_t chunk_index = 0;  // Counts the chunks of the table; one thread reads a chunk.
};

struct TableExtent {
  std::size_t num_rows = 0;
  std::size_t num_chunks = 0;
};

/// Takes the rows of the large tables as they come, so that nobody has to hold them all.
class RowSink {
 public:
  virtual ~RowSink() = default;
  /// Once, before any row. `trace` has all the other tables and stays where it is while rows come.
  virtual void begin(const Trace& trace, TableExtent gpu_ops, TableExtent apis,
                     TableExtent range_instances) = 0;
  /// A few hundred rows that follow one another; called by several threads at a time, for
  /// different chunks. Rows of a damaged chunk may be missing.
  virtual void take(std::span<const GpuOp> rows, RowPlace place) = 0;
  virtual void take(std::span<const Api> rows, RowPlace place) = 0;
  virtual void take(std::span<const RangeInstance> rows, RowPlace place) = 0;
};

/// `read_trace` with options. With a sink the tables of operations, calls and range instances go
/// there, and are empty in the result.
Trace read_trace(const std::filesystem::path& path, const ReadOptions& options,
                 RowSink* sink = nullptr);

}  // namespace steplens
