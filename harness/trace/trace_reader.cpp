#include "harness/trace/trace_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>

#include "harness/error.h"
#include "harness/trace/chunk_decoder.h"
#include "harness/trace/row_stream.h"
#include "harness/trace/trace_format.h"
#include "harness/trace/trace_schema.h"

namespace steplens {
namespace {

using nlohmann::json;
using schema::Schema;

// `info` is shallow; a deep one would overflow the stack of those who walk it.
constexpr int kMaxJsonDepth = 64;

// A fifth of the time of reading is page faults, unless the kernel takes this advice.
void use_huge_pages(void* memory, std::size_t num_bytes) {
  constexpr std::size_t kHugePage = 1 << 21;
  if (std::align(kHugePage, kHugePage, memory, num_bytes) == nullptr) return;
  ::madvise(memory, num_bytes & ~(kHugePage - 1), MADV_HUGEPAGE);
}

std::vector<std::uint64_t> decode_all(ColumnDecoder decoder, std::size_t num_rows) {
  std::vector<std::uint64_t> codes(num_rows);
  for (std::size_t row = 0; row < num_rows; row += ColumnDecoder::kBatchRows) {
    decoder.next(
        std::span(codes).subspan(row, std::min(ColumnDecoder::kBatchRows, num_rows - row)));
  }
  decoder.finish();
  return codes;
}

// Tables whose rows others refer to: what a damaged chunk had must leave a gap.
constexpr bool is_referred_to(TableId table) {
  return table != TableId::kGpuOp && table != TableId::kApi && table != TableId::kSync &&
         table != TableId::kAlloc && table != TableId::kCounterSample;
}

class Reader {
 public:
  Reader(std::span<const std::byte> file, std::string_view name, const ReadOptions& options,
         RowSink* sink)
      : name_(name),
        options_(options),
        sink_(sink),
        list_(list_chunks(file, name, options.keeps_going)) {}

  Trace read() {
    reserve();
    for (std::size_t i = 0; i < list_.chunks.size(); ++i) {
      if (!is_for_sink(list_.chunks[i].header.table)) read_chunk(i);
      check_cancelled();
    }
    check_index_or_count();
    check_references();
    if (sink_ != nullptr) {
      const StreamLosses losses = stream_rows(
          {.name = name_, .list = list_, .sizes = sizes_, .options = options_}, trace_, *sink_);
      num_damaged_chunks_ += losses.num_damaged_chunks;
      num_lost_references_ += losses.num_lost_references;
    }
    if (num_damaged_chunks_ > 0) {
      trace_.quality[std::string(quality::kDamagedChunks)] = num_damaged_chunks_;
    }
    if (num_lost_references_ > 0) {
      trace_.quality[std::string(quality::kLostReferences)] = num_lost_references_;
    }
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
      if (is_for_sink(Schema<Row>::kTable)) return;
      std::vector<Row>& rows = trace_.*Schema<Row>::kRows;
      rows.reserve(size(Schema<Row>::kTable));
      use_huge_pages(rows.data(), rows.capacity() * sizeof(Row));
    });
  }

  bool is_for_sink(TableId table) const {
    return sink_ != nullptr &&
           (table == TableId::kGpuOp || table == TableId::kApi || table == TableId::kRangeInstance);
  }

  void check_cancelled() const {
    if (options_.progress != nullptr && options_.progress->is_cancelled) {
      throw ConfigError(fmt::format("{}: reading was cancelled", name_));
    }
  }
  void count_rows(std::size_t num_rows) const {
    if (options_.progress != nullptr) options_.progress->num_done_rows += num_rows;
  }

  // Calls read(); what it throws gets the place, or is counted.
  template <class Read>
  bool try_chunk(std::size_t i, Read read) {
    const ChunkHeader& header = list_.chunks[i].header;
    try {
      read();
      return true;
    } catch (const ConfigError& error) {
      if (!options_.keeps_going) {
        throw ConfigError(fmt::format("{}: damaged: chunk {} ({}): {}", name_, i,
                                      name_of(header.table), error.what()));
      }
      ++num_damaged_chunks_;
      return false;
    }
  }

  void read_chunk(std::size_t i) {
    const ChunkHeader& header = list_.chunks[i].header;
    const auto read = [&] { read_payload(header, decoder_.payload_of(list_.chunks[i])); };
    if (header.table == TableId::kString) {
      const std::size_t num_before = trace_.strings.size();
      if (!try_chunk(i, read)) {
        trace_.strings.resize(num_before);
        trace_.strings.resize(num_before + header.num_rows, "(lost)");
      }
      return;
    }
    bool is_rows = false;
    schema::for_each_table([&]<class Row>(Schema<Row>) {
      if (header.table != Schema<Row>::kTable) return;
      is_rows = true;
      std::vector<Row>& rows = trace_.*Schema<Row>::kRows;
      const std::size_t num_before = rows.size();
      if (!try_chunk(i, read)) {
        rows.resize(num_before);
        if (is_referred_to(header.table)) rows.resize(num_before + header.num_rows);
      }
      count_rows(header.num_rows);
    });
    if (!is_rows) try_chunk(i, read);
  }

  void read_payload(const ChunkHeader& header, std::span<const std::byte> payload) {
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

  void check_index_or_count() {
    if (!list_.index) {
      trace_.quality[std::string(quality::kTruncated)] = 1;
      trace_.quality[std::string(quality::kIgnoredBytes)] =
          static_cast<std::int64_t>(list_.num_ignored_bytes);
      return;
    }
    try {
      check_index(*list_.index);
    } catch (const ConfigError&) {
      if (!options_.keeps_going) throw;
      ++num_damaged_chunks_;
    }
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
  static void read_texts(ChunkColumns& columns, std::size_t num_rows, Add add) {
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
    ChunkColumns columns(payload, num_rows);
    if (columns.has(schema::kTextValueId)) throw ConfigError("strings with values");
    read_texts(columns, num_rows,
               [&](std::string_view text, std::uint64_t) { trace_.strings.emplace_back(text); });
  }

  void read_quality(std::span<const std::byte> payload, std::size_t num_rows) {
    trace_.quality.clear();
    ChunkColumns columns(payload, num_rows);
    read_texts(columns, num_rows, [&](std::string_view text, std::uint64_t code) {
      if (!trace_.quality.emplace(text, schema::signed_of_code(code)).second) {
        throw ConfigError(fmt::format("{} is there twice", text));
      }
    });
  }

  template <class Row>
  void read_rows(std::span<const std::byte> payload, std::size_t num_rows) {
    std::vector<Row>& rows = trace_.*Schema<Row>::kRows;
    decoder_.decode<Row>(
        payload, num_rows, max_codes_[static_cast<std::size_t>(Schema<Row>::kTable)],
        [&](std::size_t num_batch_rows) {
          const std::size_t first = rows.size();
          rows.resize(first + num_batch_rows);
          return std::span(rows).subspan(first);
        },
        [](std::span<Row>) {});
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
      ChunkColumns columns(decoder_.payload_of(index), num_chunks);
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
    if (list_.index && !options_.keeps_going) {
      throw ConfigError(fmt::format("{}: damaged: {} row {}: {} {} of {}", name_, name_of(table),
                                    row, column.name, value, size(column.refers_to)));
    }
    value = schema::value_of<T>(0, schema::may_be_none(column.refers_to));
    ++num_lost_references_;
  }

  template <class Row>
  void check_parents() {
    std::vector<Row>& rows = trace_.*Schema<Row>::kRows;
    if constexpr (requires { rows.front().parent; }) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].parent != kNoRow && rows[i].parent >= i) {
          if (options_.keeps_going) {
            rows[i].parent = kNoRow;
            ++num_lost_references_;
            continue;
          }
          throw ConfigError(fmt::format("{}: damaged: {} row {}: parent {} is no earlier row",
                                        name_, name_of(Schema<Row>::kTable), i, rows[i].parent));
        }
      }
    }
  }

  // The "stream" of an operator is a row of Trace::threads.
  void check_operators() {
    const MaxCodes& max_codes = max_codes_[static_cast<std::size_t>(TableId::kGpuOp)];
    constexpr std::uint8_t kKindId = 13;
    if (max_codes[kKindId] != static_cast<std::uint64_t>(GpuOpKind::kOperator)) return;
    for (std::size_t i = 0; i < trace_.gpu_ops.size(); ++i) {
      GpuOp& op = trace_.gpu_ops[i];
      if (op.kind != GpuOpKind::kOperator || op.stream_id == kNoRow) continue;
      if (op.stream_id < trace_.threads.size()) continue;
      lose(TableId::kGpuOp, i, schema::column(0, "stream_id", &GpuOp::stream_id, TableId::kThread),
           op.stream_id);
    }
  }

  std::string_view name_;
  const ReadOptions& options_;
  RowSink* sink_;
  ChunkList list_;
  Trace trace_;
  schema::TableSizes sizes_{};
  std::array<MaxCodes, kNumTables> max_codes_{};
  ChunkDecoder decoder_;
  std::int64_t num_damaged_chunks_ = 0;
  std::int64_t num_lost_references_ = 0;
};

Trace read_bytes(std::span<const std::byte> file, std::string_view name, const ReadOptions& options,
                 RowSink* sink) {
  try {
    return Reader(file, name, options, sink).read();
  } catch (const std::bad_alloc&) {
    throw ConfigError(fmt::format("{}: not enough memory for this trace", name));
  }
}

}  // namespace

Trace read_trace(std::span<const std::byte> file, std::string_view name) {
  return read_bytes(file, name, {}, nullptr);
}

Trace read_trace(const std::filesystem::path& path) { return read_trace(path, {}); }

Trace read_trace(const std::filesystem::path& path, const ReadOptions& options, RowSink* sink) {
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
  return read_bytes(std::as_bytes(std::span(bytes.get(), num_bytes)), name, options, sink);
}

}  // namespace steplens
