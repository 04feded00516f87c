#include "harness/trace/trace_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <zstd.h>

#include "harness/error.h"
#include "harness/trace/columns.h"
#include "harness/trace/crc32c.h"
#include "harness/trace/trace_format.h"
#include "harness/trace/trace_schema.h"

namespace steplens {
namespace {

using nlohmann::json;
using schema::Schema;

// `info` is shallow; a deep one would overflow the stack of those who walk it.
constexpr int kMaxJsonDepth = 64;

constexpr std::size_t kBatchRows = ColumnDecoder::kBatchRows;
using Codes = std::array<std::uint64_t, kBatchRows>;

// A fifth of the time of reading is page faults, unless the kernel takes this advice.
void use_huge_pages(void* memory, std::size_t num_bytes) {
  constexpr std::size_t kHugePage = 1 << 21;
  if (std::align(kHugePage, kHugePage, memory, num_bytes) == nullptr) return;
  ::madvise(memory, num_bytes & ~(kHugePage - 1), MADV_HUGEPAGE);
}

// The columns of one chunk, by id.
class Columns {
 public:
  Columns(std::span<const std::byte> payload, std::size_t num_rows) : num_rows_(num_rows) {
    for (const EncodedColumn& column : split_columns(payload)) {
      if (column.header.id > schema::kMaxColumnId) unknown(column.header.id);
      columns_[column.header.id] = column;
    }
  }

  bool has(std::uint8_t id) const { return columns_[id].has_value(); }

  /// Each column is to be taken once.
  ColumnDecoder take(std::uint8_t id, std::uint64_t absent_code) {
    const std::optional<EncodedColumn> column = std::exchange(columns_[id], std::nullopt);
    return column ? ColumnDecoder(*column, num_rows_) : ColumnDecoder(absent_code);
  }

  std::string_view take_text(std::uint8_t id) {
    const std::optional<EncodedColumn> column = std::exchange(columns_[id], std::nullopt);
    if (!column) return {};
    if (column->header.encoding != Encoding::kBytes) throw ConfigError("its text is not text");
    return {reinterpret_cast<const char*>(column->bytes.data()), column->bytes.size()};
  }

  void check_all_taken() const {
    for (const auto& column : columns_) {
      if (column) unknown(column->header.id);
    }
  }

 private:
  [[noreturn]] static void unknown(int id) {
    throw ConfigError(fmt::format("unknown column {}", id));
  }

  std::size_t num_rows_;
  std::array<std::optional<EncodedColumn>, schema::kMaxColumnId + 1> columns_;
};

std::vector<std::uint64_t> decode_all(ColumnDecoder decoder, std::size_t num_rows) {
  std::vector<std::uint64_t> codes(num_rows);
  for (std::size_t row = 0; row < num_rows; row += kBatchRows) {
    decoder.next(std::span(codes).subspan(row, std::min(kBatchRows, num_rows - row)));
  }
  decoder.finish();
  return codes;
}

// Start and end of the rows of one chunk.
template <class Row>
class TimeDecoder {
 public:
  explicit TimeDecoder(Columns& columns)
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
      previous_ = Schema<Row>::kTimes == schema::Times::kSincePreviousEnd ? end : start;
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
  Codes gap_codes_;
  Codes duration_codes_;
};

struct NoTimes {
  explicit NoTimes(Columns&) {}
  template <class Row>
  void next(std::span<Row>) {}
  void finish() const {}
};

class Reader {
 public:
  Reader(std::span<const std::byte> file, std::string_view name)
      : name_(name),
        list_(list_chunks(file, name)),
        context_(nullptr, &ZSTD_freeDCtx) {}

  Trace read() {
    reserve();
    for (std::size_t i = 0; i < list_.chunks.size(); ++i) {
      const ChunkHeader& header = list_.chunks[i].header;
      try {
        read_chunk(header, payload_of(list_.chunks[i]));
      } catch (const ConfigError& error) {
        throw ConfigError(fmt::format("{}: damaged: chunk {} ({}): {}", name_, i,
                                      name_of(header.table), error.what()));
      }
    }
    if (list_.index) {
      check_index(*list_.index);
    } else {
      trace_.quality[std::string(quality::kTruncated)] = 1;
      trace_.quality[std::string(quality::kIgnoredBytes)] =
          static_cast<std::int64_t>(list_.num_ignored_bytes);
    }
    check_references();
    return std::move(trace_);
  }

 private:
  std::uint64_t& size(TableId table) { return sizes_[static_cast<std::size_t>(table)]; }

  void reserve() {
    for (const ChunkPlace& chunk : list_.chunks) size(chunk.header.table) += chunk.header.num_rows;
    size(TableId::kString) += 1;
    for (std::size_t table = 0; table < kNumTables; ++table) {
      if (sizes_[table] >= kNoRow) {
        throw ConfigError(fmt::format("{}: damaged: {} rows of {}", name_, sizes_[table],
                                      name_of(static_cast<TableId>(table))));
      }
    }
    trace_.strings.reserve(size(TableId::kString));
    schema::for_each_table([&]<class Row>(Schema<Row>) {
      std::vector<Row>& rows = trace_.*Schema<Row>::kRows;
      rows.reserve(size(Schema<Row>::kTable));
      use_huge_pages(rows.data(), rows.capacity() * sizeof(Row));
    });
  }

  // Checked and decompressed; valid until the next call.
  std::span<const std::byte> payload_of(const ChunkPlace& chunk) {
    const ChunkHeader& header = chunk.header;
    if (crc32c(chunk.payload) != header.payload_crc) throw ConfigError("wrong CRC of the payload");
    if (header.codec == Codec::kStored) return chunk.payload;
    if (ZSTD_getFrameContentSize(chunk.payload.data(), chunk.payload.size()) !=
        header.num_raw_bytes) {
      throw ConfigError("zstd and the header give different sizes");
    }
    if (payload_capacity_ < header.num_raw_bytes) {
      payload_ = std::make_unique_for_overwrite<std::byte[]>(header.num_raw_bytes);
      payload_capacity_ = header.num_raw_bytes;
    }
    if (context_ == nullptr) context_.reset(ZSTD_createDCtx());
    SL_CHECK(context_ != nullptr);
    const std::size_t num_bytes =
        ZSTD_decompressDCtx(context_.get(), payload_.get(), header.num_raw_bytes,
                            chunk.payload.data(), chunk.payload.size());
    if (ZSTD_isError(num_bytes) != 0) {
      throw ConfigError(fmt::format("zstd: {}", ZSTD_getErrorName(num_bytes)));
    }
    if (num_bytes != header.num_raw_bytes) throw ConfigError("zstd gives too few bytes");
    return {payload_.get(), num_bytes};
  }

  void read_chunk(const ChunkHeader& header, std::span<const std::byte> payload) {
    switch (header.table) {
      case TableId::kInfo: read_info(payload); return;
      case TableId::kString: read_strings(payload, header.num_rows); return;
      case TableId::kQuality: read_quality(payload, header.num_rows); return;
      default: break;
    }
    schema::for_each_table([&]<class Row>(Schema<Row>) {
      if (header.table == Schema<Row>::kTable) read_rows<Row>(payload, header.num_rows);
    });
  }

  void read_info(std::span<const std::byte> payload) {
    const auto* text = reinterpret_cast<const char*>(payload.data());
    const auto check_depth = [](int depth, json::parse_event_t, json&) {
      if (depth > kMaxJsonDepth) throw ConfigError("nested too deep");
      return true;
    };
    try {
      trace_.info = json::parse(text, text + payload.size(), check_depth);
    } catch (const json::exception& error) {
      throw ConfigError(error.what());
    }
    if (!trace_.info.is_object()) throw ConfigError("not a JSON object");
  }

  // Calls add(text, value code) for each row.
  template <class Add>
  static void read_texts(Columns& columns, std::size_t num_rows, Add add) {
    const auto lengths = decode_all(columns.take(schema::kTextLengthId, 0), num_rows);
    const auto values =
        decode_all(columns.take(schema::kTextValueId, schema::code_of_signed(0)), num_rows);
    std::string_view text = columns.take_text(schema::kTextId);
    columns.check_all_taken();
    for (std::size_t row = 0; row < num_rows; ++row) {
      if (lengths[row] > text.size()) {
        throw ConfigError(fmt::format("row {}: {} bytes of text, of which {} are there", row,
                                      lengths[row], text.size()));
      }
      add(text.substr(0, lengths[row]), values[row]);
      text.remove_prefix(lengths[row]);
    }
    if (!text.empty()) throw ConfigError(fmt::format("{} bytes of text of no row", text.size()));
  }

  void read_strings(std::span<const std::byte> payload, std::size_t num_rows) {
    Columns columns(payload, num_rows);
    if (columns.has(schema::kTextValueId)) throw ConfigError("strings with values");
    read_texts(columns, num_rows,
               [&](std::string_view text, std::uint64_t) { trace_.strings.emplace_back(text); });
  }

  void read_quality(std::span<const std::byte> payload, std::size_t num_rows) {
    trace_.quality.clear();
    Columns columns(payload, num_rows);
    read_texts(columns, num_rows, [&](std::string_view text, std::uint64_t code) {
      if (!trace_.quality.emplace(text, schema::signed_of_code(code)).second) {
        throw ConfigError(fmt::format("{} is there twice", text));
      }
    });
  }

  template <class Row>
  void read_rows(std::span<const std::byte> payload, std::size_t num_rows) {
    using Times =
        std::conditional_t<Schema<Row>::kTimes == schema::Times::kNone, NoTimes, TimeDecoder<Row>>;
    Columns columns(payload, num_rows);
    Times times(columns);
    std::vector<ColumnDecoder> decoders;
    schema::for_each_column<Row>(
        [&](const auto& column) { decoders.push_back(open_column(columns, column)); });
    columns.check_all_taken();

    // A batch is small enough to stay in the first cache while column after column goes into it.
    std::vector<Row>& rows = trace_.*Schema<Row>::kRows;
    for (std::size_t done = 0; done < num_rows; done += kBatchRows) {
      const std::size_t first = rows.size();
      rows.resize(first + std::min(kBatchRows, num_rows - done));
      const std::span<Row> batch = std::span(rows).subspan(first);
      times.next(batch);
      std::size_t i = 0;
      schema::for_each_column<Row>([&](const auto& column) {
        ColumnDecoder& decoder = decoders[i++];
        if (!decoder.is_absent()) store(batch, column, decoder);
      });
    }
    times.finish();
    for (const ColumnDecoder& decoder : decoders) decoder.finish();
  }

  template <class Row, class T>
  static ColumnDecoder open_column(Columns& columns, const schema::Column<Row, T>& column) {
    const bool is_row = schema::may_be_none(column.refers_to);
    try {
      return columns.take(column.id, schema::code_of(Row().*column.member, is_row));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: {}", column.name, error.what()));
    }
  }

  template <class Row, class T>
  void store(std::span<Row> rows, const schema::Column<Row, T>& column, ColumnDecoder& decoder) {
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
    std::uint64_t& known = max_codes_[static_cast<std::size_t>(Schema<Row>::kTable)][column.id];
    known = std::max(known, max);
    if constexpr (std::is_same_v<T, GpuOpKind>) {
      has_operators_ |= max == static_cast<std::uint64_t>(GpuOpKind::kOperator);
    }
  }

  void check_index(const ChunkPlace& index) {
    const auto fail = [&](std::string_view what) {
      throw ConfigError(fmt::format("{}: damaged: index: {}", name_, what));
    };
    const std::size_t num_chunks = list_.chunks.size();
    if (index.header.num_rows != num_chunks) {
      fail(fmt::format("of {} chunks; the file has {}", index.header.num_rows, num_chunks));
    }
    try {
      Columns columns(payload_of(index), num_chunks);
      const auto offsets = decode_all(columns.take(schema::kIndexOffsetId, 0), num_chunks);
      const auto tables = decode_all(columns.take(schema::kIndexTableId, 0), num_chunks);
      const auto rows = decode_all(columns.take(schema::kIndexRowsId, 0), num_chunks);
      columns.check_all_taken();
      for (std::size_t i = 0; i < num_chunks; ++i) {
        const ChunkPlace& chunk = list_.chunks[i];
        if (offsets[i] != chunk.offset || rows[i] != chunk.header.num_rows ||
            tables[i] != static_cast<std::uint64_t>(chunk.header.table)) {
          throw ConfigError(fmt::format("chunk {} is another one", i));
        }
      }
    } catch (const ConfigError& error) {
      fail(error.what());
    }
  }

  void check_references() {
    schema::for_each_table([&]<class Row>(Schema<Row>) {
      schema::for_each_column<Row>([&](const auto& column) {
        if (column.refers_to == TableId::kNone) return;
        const std::uint64_t limit = schema::max_reference_code(column.refers_to, sizes_);
        const auto table = static_cast<std::size_t>(Schema<Row>::kTable);
        if (max_codes_[table][column.id] > limit) mend_or_throw<Row>(column, limit);
      });
      check_parents<Row>();
    });
    check_operators();
  }

  // Of a truncated file the referred row may be among what is lost.
  template <class Row, class T>
  void mend_or_throw(const schema::Column<Row, T>& column, std::uint64_t limit) {
    if constexpr (std::is_integral_v<T>) {
      const bool is_row = schema::may_be_none(column.refers_to);
      std::vector<Row>& rows = trace_.*Schema<Row>::kRows;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        T& value = rows[i].*column.member;
        if (schema::code_of(value, is_row) > limit) lose(Schema<Row>::kTable, i, column, value);
      }
    }
  }

  template <class Row, class T>
  void lose(TableId table, std::size_t row, const schema::Column<Row, T>& column, T& value) {
    if (list_.index) {
      throw ConfigError(fmt::format("{}: damaged: {} row {}: {} {} of {}", name_, name_of(table),
                                    row, column.name, value, size(column.refers_to)));
    }
    value = schema::value_of<T>(0, schema::may_be_none(column.refers_to));
    ++trace_.quality[std::string(quality::kLostReferences)];
  }

  template <class Row>
  void check_parents() {
    const std::vector<Row>& rows = trace_.*Schema<Row>::kRows;
    if constexpr (requires { rows.front().parent; }) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].parent != kNoRow && rows[i].parent >= i) {
          throw ConfigError(fmt::format("{}: damaged: {} row {}: parent {} is no earlier row",
                                        name_, name_of(Schema<Row>::kTable), i, rows[i].parent));
        }
      }
    }
  }

  // The "stream" of an operator is a row of Trace::threads.
  void check_operators() {
    if (!has_operators_) return;
    for (std::size_t i = 0; i < trace_.gpu_ops.size(); ++i) {
      GpuOp& op = trace_.gpu_ops[i];
      if (op.kind != GpuOpKind::kOperator || op.stream_id == kNoRow) continue;
      if (op.stream_id < trace_.threads.size()) continue;
      lose(TableId::kGpuOp, i, schema::column(0, "stream_id", &GpuOp::stream_id, TableId::kThread),
           op.stream_id);
    }
  }

  std::string_view name_;
  ChunkList list_;
  Trace trace_;
  schema::TableSizes sizes_{};
  std::array<std::array<std::uint64_t, schema::kMaxColumnId + 1>, kNumTables> max_codes_{};
  bool has_operators_ = false;
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context_;
  std::unique_ptr<std::byte[]> payload_;
  std::size_t payload_capacity_ = 0;
  Codes codes_;
};

}  // namespace

Trace read_trace(std::span<const std::byte> file, std::string_view name) {
  try {
    return Reader(file, name).read();
  } catch (const std::bad_alloc&) {
    throw ConfigError(fmt::format("{}: not enough memory for this trace", name));
  }
}

Trace read_trace(const std::filesystem::path& path) {
  const std::string name = path.string();
  const auto fail = [&](int error) {
    throw ConfigError(fmt::format("{}: cannot read: {}", name,
                                  std::error_code(error, std::generic_category()).message()));
  };
  std::error_code error;
  const std::uintmax_t num_bytes = std::filesystem::file_size(path, error);
  if (error) fail(error.value());
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(errno != 0 ? errno : ENOENT);
  const auto bytes = std::make_unique_for_overwrite<char[]>(num_bytes);
  stream.read(bytes.get(), static_cast<std::streamsize>(num_bytes));
  if (stream.gcount() != static_cast<std::streamsize>(num_bytes)) fail(EIO);
  return read_trace(std::as_bytes(std::span(bytes.get(), num_bytes)), name);
}

}  // namespace steplens
