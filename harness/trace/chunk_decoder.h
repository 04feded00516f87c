#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/trace/columns.h"
#include "harness/trace/trace_format.h"
#include "harness/trace/trace_schema.h"

struct ZSTD_DCtx_s;

/// From the bytes of one chunk to rows. What reads a whole trace and what hands its rows on share
/// it. Faults are ConfigErrors that lack file and chunk, which the caller adds.
namespace steplens {

/// Largest code seen in each column, by id; so that references are checked a table at a time.
using MaxCodes = std::array<std::uint64_t, schema::kMaxColumnId + 1>;

/// The columns of one chunk, by id. Each is to be taken once.
class ChunkColumns {
 public:
  ChunkColumns(std::span<const std::byte> payload, std::size_t num_rows);

  std::size_t num_rows() const { return num_rows_; }
  bool has(std::uint8_t id) const { return columns_[id].has_value(); }
  ColumnDecoder take(std::uint8_t id, std::uint64_t absent_code);
  std::string_view take_text(std::uint8_t id);
  void check_all_taken() const;

 private:
  std::size_t num_rows_;
  std::array<std::optional<EncodedColumn>, schema::kMaxColumnId + 1> columns_;
};

/// Start and end of the rows of one chunk.
template <class Row>
class TimeDecoder {
 public:
  explicit TimeDecoder(ChunkColumns& columns)
      : gaps_(columns.take(schema::kGapId, kZero)),
        durations_(columns.take(schema::kDurationId, kZero)) {
    ColumnDecoder origin = columns.take(schema::kOriginId, kZero);
    if (!origin.is_constant()) throw ConfigError("several origins");
    std::uint64_t code = 0;
    origin.next(std::span(&code, 1));
    previous_ = code - kZero;
  }

  void next(std::span<Row> rows) {
    const auto gaps = std::span(gap_codes_).first(rows.size());
    const auto durations = std::span(duration_codes_).first(rows.size());
    gaps_.next(gaps);
    durations_.next(durations);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uint64_t start = previous_ + gaps[i] - kZero;
      const std::uint64_t end = start + durations[i] - kZero;
      rows[i].start_ns = static_cast<std::int64_t>(start);
      rows[i].end_ns = static_cast<std::int64_t>(end);
      previous_ = schema::Schema<Row>::kTimes == schema::Times::kSincePreviousEnd ? end : start;
    }
  }

  void finish() const {
    gaps_.finish();
    durations_.finish();
  }

 private:
  static constexpr std::uint64_t kZero = schema::code_of_signed(0);
  ColumnDecoder gaps_;
  ColumnDecoder durations_;
  std::uint64_t previous_ = 0;
  std::array<std::uint64_t, ColumnDecoder::kBatchRows> gap_codes_;
  std::array<std::uint64_t, ColumnDecoder::kBatchRows> duration_codes_;
};

/// Of tables without start and end.
struct NoTimes {
  explicit NoTimes(ChunkColumns&) {}
  template <class Row>
  void next(std::span<Row>) {}
  void finish() const {}
};

/// Keeps the memory that decoding needs; one a thread.
class ChunkDecoder {
 public:
  /// Rows that come at once: few enough to stay in the first cache while column after column goes
  /// into them.
  static constexpr std::size_t kBatchRows = ColumnDecoder::kBatchRows;

  ChunkDecoder();

  /// The payload, checked and decompressed; valid until the next call.
  std::span<const std::byte> payload_of(const ChunkPlace& chunk);

  /// Decodes all rows: `batch_of(n)` gives the next n rows to fill, all of them as made by Row();
  /// `take(rows)` gets them back, filled.
  template <class Row, class BatchOf, class Take>
  void decode(std::span<const std::byte> payload, std::size_t num_rows, MaxCodes& max_codes,
              BatchOf batch_of, Take take) {
    using Schema = schema::Schema<Row>;
    using Times =
        std::conditional_t<Schema::kTimes == schema::Times::kNone, NoTimes, TimeDecoder<Row>>;
    ChunkColumns columns(payload, num_rows);
    Times times(columns);
    std::vector<ColumnDecoder> decoders;
    schema::for_each_column<Row>(
        [&](const auto& column) { decoders.push_back(open_column(columns, column)); });
    columns.check_all_taken();
    for (std::size_t done = 0; done < num_rows; done += kBatchRows) {
      const std::span<Row> batch = batch_of(std::min(kBatchRows, num_rows - done));
      times.next(batch);
      std::size_t i = 0;
      schema::for_each_column<Row>([&](const auto& column) {
        ColumnDecoder& decoder = decoders[i++];
        if (!decoder.is_absent()) store(batch, column, decoder, max_codes[column.id]);
      });
      take(batch);
    }
    times.finish();
    for (const ColumnDecoder& decoder : decoders) decoder.finish();
  }

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx_s* context) const;
  };

  template <class Row, class T>
  static ColumnDecoder open_column(ChunkColumns& columns, const schema::Column<Row, T>& column) {
    const bool is_row = schema::may_be_none(column.refers_to);
    try {
      return columns.take(column.id, schema::code_of(Row().*column.member, is_row));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: {}", column.name, error.what()));
    }
  }

  template <class Row, class T>
  void store(std::span<Row> rows, const schema::Column<Row, T>& column, ColumnDecoder& decoder,
             std::uint64_t& known_max) {
    const bool is_row = schema::may_be_none(column.refers_to);
    const std::span<std::uint64_t> codes =
        std::span(codes_).first(decoder.is_constant() ? 1 : rows.size());
    decoder.next(codes);
    std::uint64_t max = 0;
    if (schema::max_code(column) < std::numeric_limits<std::uint64_t>::max()) {
      for (const std::uint64_t code : codes) max = std::max(max, code);
      if (max > schema::max_code(column)) {
        throw ConfigError(fmt::format("{}: a value of {}; takes up to {}", column.name, max,
                                      schema::max_code(column)));
      }
    }
    if (decoder.is_constant()) {
      const T value = schema::value_of<T>(codes.front(), is_row);
      for (Row& row : rows) row.*column.member = value;
    } else {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i].*column.member = schema::value_of<T>(codes[i], is_row);
      }
    }
    known_max = std::max(known_max, max);
  }

  std::unique_ptr<ZSTD_DCtx_s, FreeContext> context_;
  std::unique_ptr<std::byte[]> payload_;
  std::size_t payload_capacity_ = 0;
  std::array<std::uint64_t, kBatchRows> codes_;
};

}  // namespace steplens
