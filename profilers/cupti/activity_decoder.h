#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "profilers/cupti/cupti_api.h"
#include "profilers/trace/raw_records.h"
#include "profilers/trace/string_table.h"

namespace steplens {

/// Copies CUPTI's activity records into rows: record versions of CUDA 13.0 (Kernel10, Memcpy6,
/// MemcpyPtoP4, Memset4, API, Synchronization2, GraphTrace2, Overhead3, Device5). Not thread-safe.
class ActivityDecoder {
 public:
  /// Both outlive this.
  ActivityDecoder(const CuptiApi& cupti, StringTable& names);

  /// Takes down the records of one completed buffer. Device operations and calls that ended before
  /// `not_before_ns` (unix) are passed over: they belong to no window. What is broken is counted by
  /// name in `quality` and left out. Devices are always taken down.
  void decode(std::uint8_t* buffer, std::size_t valid_bytes, std::int64_t not_before_ns);

  RawRecords& records() { return records_; }
  std::int64_t num_decoded() const { return num_decoded_; }

 private:
  void add_kernel(const CUpti_ActivityKernel10& record);
  void add_graph(const CUpti_ActivityGraphTrace2& record);
  template <typename Record>
  void add_copy(const Record& record, CopyKind kind);
  void add_set(const CUpti_ActivityMemset4& record);
  void add_api(const CUpti_ActivityAPI& record, bool is_driver);
  void add_sync(const CUpti_ActivitySynchronization2& record);
  void add_overhead(const CUpti_ActivityOverhead3& record);
  void add_device(const CUpti_ActivityDevice5& record);
  bool is_wanted(std::uint64_t start, std::uint64_t end);
  StringId api_name(bool is_driver, CUpti_CallbackId cbid);
  std::uint32_t shape_row(const LaunchShape& shape);

  const CuptiApi& cupti_;
  StringTable& names_;
  RawRecords records_;
  std::int64_t not_before_ns_ = 0;
  std::int64_t num_decoded_ = 0;
  StringMap<StringId> kernel_names_;  // Spares the shared table's lock.
  std::unordered_map<std::uint64_t, StringId> api_names_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> shape_rows_;
};

}  // namespace steplens
