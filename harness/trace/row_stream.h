#pragma once

#include <cstdint>
#include <string_view>

#include "harness/trace/trace_format.h"
#include "harness/trace/trace_reader.h"
#include "harness/trace/trace_schema.h"

/// The part of reading that hands the rows of the large tables to a RowSink.
namespace steplens {

/// Tables whose rows go to a sink if there is one.
constexpr bool is_streamed(TableId table) {
  return table == TableId::kGpuOp || table == TableId::kApi || table == TableId::kRangeInstance;
}

struct RowStreamSource {
  std::string_view name;  // Of the file, for messages.
  const ChunkList& list;
  const schema::TableSizes& sizes;
  const ReadOptions& options;
};

/// What was damaged and passed over.
struct StreamLosses {
  std::int64_t num_damaged_chunks = 0;
  std::int64_t num_lost_references = 0;
};

/// Decodes the chunks of the streamed tables, on several threads if the options say so. `trace` has
/// all other tables. ConfigError where a chunk is damaged, unless the options say to go on.
StreamLosses stream_rows(const RowStreamSource& source, const Trace& trace, RowSink& sink);

}  // namespace steplens
