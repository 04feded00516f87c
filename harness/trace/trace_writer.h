#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/trace/trace.h"

namespace steplens {

/// Writes a trace.slt table by table. Rows keep their order; those of one table are numbered over
/// all calls. They may refer to rows and strings that come later, but those must be there at
/// `finish`.
///
/// Each call that appends makes at least one chunk, so hand over many rows at once. Errors of the
/// file system are ConfigErrors that name the path. A row or string that does not exist, or a
/// parent that is not an earlier row, aborts: the file could not be read.
class TraceWriter {
 public:
  enum class Mode {
    kWhole,   // In memory until `finish`, which writes the file atomically.
    kStream,  // To `path` chunk by chunk: after a kill all chunks written so far can be read.
  };

  explicit TraceWriter(std::filesystem::path path, Mode mode = Mode::kWhole);
  /// Without `finish`: kWhole leaves nothing, kStream what it has written.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /// The next entries of Trace::strings, of which 0, the empty one, is there from the start. Up to
  /// 16 MiB each.
  void append_strings(std::span<const std::string> strings);

  void append(std::span<const GpuOp> rows);
  void append(std::span<const LaunchShape> rows);
  void append(std::span<const Api> rows);
  void append(std::span<const Range> rows);
  void append(std::span<const RangeInstance> rows);
  void append(std::span<const Sync> rows);
  void append(std::span<const Alloc> rows);
  void append(std::span<const CounterTrack> rows);
  void append(std::span<const CounterSample> rows);
  void append(std::span<const Step> rows);
  void append(std::span<const ThreadInfo> rows);
  void append(std::span<const DeviceInfo> rows);

  /// May be called again: the last call counts. Text that is not UTF-8 is replaced.
  void set_info(const nlohmann::json& info);
  void set_quality(const std::map<std::string, std::int64_t>& quality);

  /// Writes the index and makes the file durable. Nothing may be appended after it.
  void finish();

 private:
  class Output;
  std::unique_ptr<Output> output_;
};

/// Writes `trace` atomically.
void write_trace(const std::filesystem::path& path, const Trace& trace);

/// The bytes that `write_trace` writes.
std::string encode_trace(const Trace& trace);

}  // namespace steplens
