#include "harness/trace/row_stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/trace/chunk_decoder.h"

namespace steplens {
namespace {

using schema::Schema;

template <class Row>
constexpr bool kIsStreamed = is_streamed(Schema<Row>::kTable);

class RowStream {
 public:
  RowStream(const RowStreamSource& source, const Trace& trace, RowSink& sink)
      : source_(source),
        trace_(trace),
        sink_(sink) {}

  StreamLosses run() {
    std::vector<LargeChunk> chunks;
    std::array<std::size_t, kNumTables> num_rows{};
    std::array<std::size_t, kNumTables> num_chunks{};
    for (std::size_t i = 0; i < source_.list.chunks.size(); ++i) {
      const ChunkHeader& header = source_.list.chunks[i].header;
      if (!is_streamed(header.table)) continue;
      const auto table = static_cast<std::size_t>(header.table);
      chunks.push_back({i, {.first_row = num_rows[table], .chunk_index = num_chunks[table]++}});
      num_rows[table] += header.num_rows;
    }
    const auto extent_of = [&](TableId table) {
      return TableExtent{size_of(table), num_chunks[static_cast<std::size_t>(table)]};
    };
    sink_.begin(trace_, extent_of(TableId::kGpuOp), extent_of(TableId::kApi),
                extent_of(TableId::kRangeInstance));
    std::atomic<std::size_t> next_chunk = 0;
    std::exception_ptr error;
    std::mutex mutex;
    const auto work = [&] {
      ChunkDecoder decoder;
      try {
        for (std::size_t i; (i = next_chunk++) < chunks.size();) {
          check_cancelled();
          hand_on(chunks[i], decoder, mutex);
        }
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!error) error = std::current_exception();
        next_chunk = chunks.size();
      }
    };
    std::vector<std::jthread> threads;
    const auto num_threads = std::min<std::size_t>(
        static_cast<std::size_t>(std::max(1, source_.options.num_threads)), chunks.size());
    for (std::size_t i = 1; i < num_threads; ++i) threads.emplace_back(work);
    work();
    threads.clear();
    if (error) std::rethrow_exception(error);
    return losses_;
  }

 private:
  struct LargeChunk {
    std::size_t index;  // In source_.list.chunks.
    RowPlace place;
  };

  void hand_on(const LargeChunk& chunk, ChunkDecoder& decoder, std::mutex& mutex) {
    const ChunkPlace& place = source_.list.chunks[chunk.index];
    schema::for_each_table([&]<class Row>(Schema<Row>) {
      if constexpr (kIsStreamed<Row>) {
        if (place.header.table == Schema<Row>::kTable) {
          hand_on_rows<Row>(chunk, place, decoder, mutex);
        }
      }
    });
    count_rows(place.header.num_rows);
  }

  template <class Row>
  void hand_on_rows(const LargeChunk& chunk, const ChunkPlace& place, ChunkDecoder& decoder,
                    std::mutex& mutex) {
    std::vector<Row> batch(ChunkDecoder::kBatchRows);
    RowPlace at = chunk.place;
    try {
      MaxCodes max_codes{};
      decoder.decode<Row>(
          decoder.payload_of(place), place.header.num_rows, max_codes,
          [&](std::size_t num_rows) { return std::span(batch).first(num_rows); },
          [&](std::span<Row> rows) {
            if (const std::int64_t num_lost = mend<Row>(rows, at.first_row, max_codes);
                num_lost > 0) {
              const std::scoped_lock lock(mutex);
              losses_.num_lost_references += num_lost;
              std::ranges::fill(max_codes, 0);
            }
            sink_.take(std::span<const Row>(rows), at);
            at.first_row += rows.size();
          });
    } catch (const ConfigError& error) {
      if (!source_.options.keeps_going) {
        throw ConfigError(fmt::format("{}: damaged: chunk {} ({}): {}", source_.name, chunk.index,
                                      name_of(place.header.table), error.what()));
      }
      const std::scoped_lock lock(mutex);
      ++losses_.num_damaged_chunks;
    }
  }

  // References to nothing become none; returns how many.
  template <class Row>
  std::int64_t mend(std::span<Row> rows, std::size_t first_row, const MaxCodes& max_codes) {
    std::int64_t num_lost = 0;
    const auto lose = [&](std::size_t i, std::string_view what, auto value, TableId refers_to) {
      if (source_.list.index && !source_.options.keeps_going) {
        throw ConfigError(
            fmt::format("row {}: {} {} of {}", first_row + i, what, value, size_of(refers_to)));
      }
      ++num_lost;
    };
    schema::for_each_column<Row>([&]<class T>(const schema::Column<Row, T>& column) {
      if constexpr (std::is_integral_v<T>) {
        if (column.refers_to == TableId::kNone) return;
        const std::uint64_t limit = schema::max_reference_code(column.refers_to, source_.sizes);
        if (max_codes[column.id] <= limit) return;
        const bool is_row = schema::may_be_none(column.refers_to);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          T& value = rows[i].*column.member;
          if (schema::code_of(value, is_row) <= limit) continue;
          lose(i, column.name, value, column.refers_to);
          value = schema::value_of<T>(0, is_row);
        }
      }
    });
    if constexpr (std::is_same_v<Row, RangeInstance>) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].parent == kNoRow || rows[i].parent < first_row + i) continue;
        lose(i, "parent", rows[i].parent, TableId::kRangeInstance);
        rows[i].parent = kNoRow;
      }
    }
    if constexpr (std::is_same_v<Row, GpuOp>) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        GpuOp& op = rows[i];
        if (op.kind != GpuOpKind::kOperator || op.stream_id == kNoRow) continue;
        if (op.stream_id < trace_.threads.size()) continue;
        lose(i, "stream_id", op.stream_id, TableId::kThread);
        op.stream_id = kNoRow;
      }
    }
    return num_lost;
  }

  std::uint64_t size_of(TableId table) const {
    return source_.sizes[static_cast<std::size_t>(table)];
  }
  void check_cancelled() const {
    if (source_.options.progress != nullptr && source_.options.progress->is_cancelled) {
      throw ConfigError(fmt::format("{}: reading was cancelled", source_.name));
    }
  }
  void count_rows(std::size_t num_rows) const {
    if (source_.options.progress != nullptr) {
      source_.options.progress->num_done_rows += num_rows;
    }
  }

  const RowStreamSource& source_;
  const Trace& trace_;
  RowSink& sink_;
  StreamLosses losses_;
};

}  // namespace

StreamLosses stream_rows(const RowStreamSource& source, const Trace& trace, RowSink& sink) {
  return RowStream(source, trace, sink).run();
}

}  // namespace steplens
