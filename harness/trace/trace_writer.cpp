#include "harness/trace/trace_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <zstd.h>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/trace/columns.h"
#include "harness/trace/crc32c.h"
#include "harness/trace/trace_format.h"
#include "harness/trace/trace_schema.h"

namespace steplens {
namespace {

// Level 3 takes a fifth longer and makes a trace no smaller, level -1 makes it 8 % larger.
constexpr int kZstdLevel = 1;

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 24;

[[noreturn]] void dangling(TableId table, std::string_view column, TableId refers_to) {
  const std::string text = fmt::format("{}.{} refers to a row of {} that is there", name_of(table),
                                       column, name_of(refers_to));
  check_failed(__FILE__, __LINE__, text.c_str());
}

// Makes the bytes of a file, chunk by chunk; knows no file.
class Encoder {
 public:
  Encoder() : context_(ZSTD_createCCtx(), &ZSTD_freeCCtx) {
    SL_CHECK(context_ != nullptr);
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kZstdLevel);
    size(TableId::kString) = 1;
    FileHeader header;
    seal(header);
    put(header);
  }

  /// What was made since the last `drop_bytes`.
  const std::string& bytes() const { return bytes_; }
  void drop_bytes() {
    num_dropped_bytes_ += bytes_.size();
    bytes_.clear();
  }

  template <class Row>
  void append(std::span<const Row> rows) {
    check_parents(rows);
    while (!rows.empty()) {
      const std::span<const Row> part =
          rows.first(std::min<std::size_t>(rows.size(), kMaxChunkRows));
      payload_.clear();
      append_times(part);
      schema::for_each_column<Row>([&](const auto& column) { append_codes(part, column); });
      put_chunk(schema::Schema<Row>::kTable, part.size());
      rows = rows.subspan(part.size());
    }
  }

  void append_strings(std::span<const std::string> strings) {
    while (!strings.empty()) {
      std::size_t num_rows = 0;
      std::size_t num_bytes = 0;
      text_.clear();
      codes_.clear();
      for (; num_rows < std::min<std::size_t>(strings.size(), kMaxChunkRows); ++num_rows) {
        const std::string& string = strings[num_rows];
        if (string.size() > kMaxTextBytes) {
          throw ConfigError(fmt::format("a string of {} bytes; a trace takes up to {}",
                                        string.size(), kMaxTextBytes));
        }
        num_bytes += string.size();
        if (num_rows > 0 && num_bytes > kMaxTextBytes) break;
        codes_.push_back(string.size());
        text_ += string;
      }
      put_text(TableId::kString, {});
      strings = strings.subspan(num_rows);
    }
  }

  void set_info(const nlohmann::json& info) {
    SL_CHECK(info.is_object());
    payload_ = info.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    put_chunk(TableId::kInfo, 1);
  }

  void set_quality(const std::map<std::string, std::int64_t>& quality) {
    SL_CHECK(quality.size() <= kMaxChunkRows);
    text_.clear();
    codes_.clear();
    std::vector<std::uint64_t> values;
    for (const auto& [name, value] : quality) {
      text_ += name;
      codes_.push_back(name.size());
      values.push_back(schema::code_of_signed(value));
    }
    put_text(TableId::kQuality, values);
  }

  void finish() {
    check_references();
    const std::uint64_t index_offset = offset();
    std::vector<std::uint64_t> offsets, tables, rows;
    for (const auto& [chunk_offset, table, num_rows] : index_) {
      offsets.push_back(chunk_offset);
      tables.push_back(static_cast<std::uint64_t>(table));
      rows.push_back(num_rows);
    }
    payload_.clear();
    if (!index_.empty()) {
      append_column(payload_, schema::kIndexOffsetId, offsets, 0);
      append_column(payload_, schema::kIndexTableId, tables, 0);
      append_column(payload_, schema::kIndexRowsId, rows, 0);
    }
    put_chunk(TableId::kIndex, index_.size());
    FileTrailer trailer{.index_offset = index_offset};
    seal(trailer);
    put(trailer);
  }

 private:
  struct IndexRow {
    std::uint64_t offset;
    TableId table;
    std::size_t num_rows;
  };

  std::uint64_t offset() const { return num_dropped_bytes_ + bytes_.size(); }
  std::uint64_t& size(TableId table) { return sizes_[static_cast<std::size_t>(table)]; }

  template <class Part>
  void put(const Part& part) {
    bytes_.append(reinterpret_cast<const char*>(&part), sizeof(part));
  }

  // Compresses payload_ and puts it behind its header.
  void put_chunk(TableId table, std::size_t num_rows) {
    SL_CHECK(payload_.size() <= kMaxChunkBytes);
    ChunkHeader header{.table = table,
                       .num_rows = static_cast<std::uint32_t>(num_rows),
                       .num_raw_bytes = static_cast<std::uint32_t>(payload_.size())};
    index_.push_back({offset(), table, num_rows});
    const std::size_t header_offset = bytes_.size();
    put(header);
    const std::size_t payload_offset = bytes_.size();
    bytes_.resize(payload_offset + ZSTD_compressBound(payload_.size()));
    std::size_t num_bytes =
        ZSTD_compress2(context_.get(), bytes_.data() + payload_offset,
                       bytes_.size() - payload_offset, payload_.data(), payload_.size());
    SL_CHECK(ZSTD_isError(num_bytes) == 0);
    if (num_bytes < payload_.size()) {
      header.codec = Codec::kZstd;
    } else {
      num_bytes = payload_.size();
      std::copy(payload_.begin(), payload_.end(), bytes_.data() + payload_offset);
    }
    bytes_.resize(payload_offset + num_bytes);
    header.num_stored_bytes = static_cast<std::uint32_t>(num_bytes);
    header.payload_crc =
        crc32c(std::as_bytes(std::span(bytes_.data() + payload_offset, num_bytes)));
    seal(header);
    std::memcpy(bytes_.data() + header_offset, &header, sizeof(header));
    size(table) += num_rows;
  }

  // A chunk of the texts in text_, whose lengths are in codes_.
  void put_text(TableId table, std::span<const std::uint64_t> values) {
    payload_.clear();
    const std::size_t num_rows = codes_.size();
    if (num_rows > 0) {
      append_column(payload_, schema::kTextLengthId, codes_, 0);
      append_bytes_column(payload_, schema::kTextId, text_);
    }
    if (!values.empty()) {
      append_column(payload_, schema::kTextValueId, values, schema::code_of_signed(0));
    }
    put_chunk(table, num_rows);
  }

  template <class Row>
  void append_times(std::span<const Row> rows) {
    using schema::Times;
    constexpr Times kTimes = schema::Schema<Row>::kTimes;
    if constexpr (kTimes != Times::kNone) {
      constexpr std::uint64_t kZero = schema::code_of_signed(0);
      const std::int64_t origin = rows.front().start_ns;
      codes_.assign(1, schema::code_of_signed(origin));
      append_column(payload_, schema::kOriginId, codes_, kZero);

      // Unsigned differences wrap, as the reader's sums do: exact for any two times.
      codes_.resize(rows.size());
      auto previous = static_cast<std::uint64_t>(origin);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        codes_[i] = kZero + static_cast<std::uint64_t>(rows[i].start_ns) - previous;
        previous = static_cast<std::uint64_t>(
            kTimes == Times::kSincePreviousEnd ? rows[i].end_ns : rows[i].start_ns);
      }
      append_column(payload_, schema::kGapId, codes_, kZero);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        codes_[i] = kZero + static_cast<std::uint64_t>(rows[i].end_ns) -
                    static_cast<std::uint64_t>(rows[i].start_ns);
      }
      append_column(payload_, schema::kDurationId, codes_, kZero);
    }
  }

  template <class Row, class T>
  void append_codes(std::span<const Row> rows, const schema::Column<Row, T>& column) {
    const bool is_row = schema::may_be_none(column.refers_to);
    codes_.resize(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      codes_[i] = schema::code_of(rows[i].*column.member, is_row);
    }
    const std::uint64_t max =
        append_column(payload_, column.id, codes_, schema::code_of(Row().*column.member, is_row));
    SL_CHECK(max <= schema::max_code(column));
    std::uint64_t& known =
        max_codes_[static_cast<std::size_t>(schema::Schema<Row>::kTable)][column.id];
    known = std::max(known, max);
  }

  template <class Row>
  void check_parents(std::span<const Row> rows) {
    if constexpr (requires { rows.front().parent; }) {
      std::uint64_t row = size(schema::Schema<Row>::kTable);
      for (const Row& r : rows) {
        SL_CHECK(r.parent == kNoRow || r.parent < row);
        ++row;
      }
    } else if constexpr (std::is_same_v<Row, GpuOp>) {
      for (const Row& r : rows) {
        if (r.kind == GpuOpKind::kOperator && r.stream_id != kNoRow) {
          num_operator_threads_ =
              std::max<std::uint64_t>(num_operator_threads_, r.stream_id + 1ULL);
        }
      }
    }
  }

  void check_references() {
    schema::for_each_table([&]<class Row>(schema::Schema<Row>) {
      constexpr TableId kTable = schema::Schema<Row>::kTable;
      SL_CHECK(size(kTable) < kNoRow);
      schema::for_each_column<Row>([&](const auto& column) {
        if (column.refers_to == TableId::kNone) return;
        const std::uint64_t max = max_codes_[static_cast<std::size_t>(kTable)][column.id];
        if (max > schema::max_reference_code(column.refers_to, sizes_)) {
          dangling(kTable, column.name, column.refers_to);
        }
      });
    });
    if (num_operator_threads_ > size(TableId::kThread)) {
      dangling(TableId::kGpuOp, "stream_id", TableId::kThread);
    }
  }

  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context_;
  std::string bytes_;
  std::uint64_t num_dropped_bytes_ = 0;
  std::vector<IndexRow> index_;
  schema::TableSizes sizes_{};
  std::array<std::array<std::uint64_t, schema::kMaxColumnId + 1>, kNumTables> max_codes_{};
  std::uint64_t num_operator_threads_ = 0;
  // Buffers of one chunk, kept for their memory.
  std::string payload_;
  std::string text_;
  std::vector<std::uint64_t> codes_;
};

}  // namespace

class TraceWriter::Output {
 public:
  Output(std::filesystem::path path, Mode mode) : path_(std::move(path)), mode_(mode) {
    if (mode_ == Mode::kWhole) return;
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) fail(errno);
    flush();
  }
  ~Output() {
    if (fd_ >= 0) ::close(fd_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  template <class Append>
  void append(Append append) {
    SL_CHECK(!is_finished_);
    try {
      append(encoder_);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: {}", path_.string(), error.what()));
    }
    flush();
  }

  void finish() {
    append([](Encoder& encoder) { encoder.finish(); });
    is_finished_ = true;
    if (mode_ == Mode::kWhole) {
      write_file_atomically(path_, encoder_.bytes());
      encoder_.drop_bytes();
      return;
    }
    if (::fsync(fd_) != 0) fail(errno);
    if (::close(std::exchange(fd_, -1)) != 0) fail(errno);
  }

 private:
  [[noreturn]] void fail(int error) {
    throw ConfigError(fmt::format("{}: cannot write: {}", path_.string(),
                                  std::error_code(error, std::generic_category()).message()));
  }

  void flush() {
    if (mode_ == Mode::kWhole) return;
    const std::string& bytes = encoder_.bytes();
    std::size_t written = 0;
    while (written < bytes.size()) {
      const ssize_t count = ::write(fd_, bytes.data() + written, bytes.size() - written);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        // What is in the file stays readable; the writer is of no more use.
        is_finished_ = true;
        fail(errno);
      }
      written += static_cast<std::size_t>(count);
    }
    encoder_.drop_bytes();
  }

  std::filesystem::path path_;
  Mode mode_;
  int fd_ = -1;
  bool is_finished_ = false;
  Encoder encoder_;
};

TraceWriter::TraceWriter(std::filesystem::path path, Mode mode)
    : output_(std::make_unique<Output>(std::move(path), mode)) {}
TraceWriter::~TraceWriter() = default;

void TraceWriter::append_strings(std::span<const std::string> strings) {
  output_->append([&](Encoder& encoder) { encoder.append_strings(strings); });
}

void TraceWriter::append(std::span<const GpuOp> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}
void TraceWriter::append(std::span<const LaunchShape> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}
void TraceWriter::append(std::span<const Api> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}
void TraceWriter::append(std::span<const Range> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}
void TraceWriter::append(std::span<const RangeInstance> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}
void TraceWriter::append(std::span<const Sync> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}
void TraceWriter::append(std::span<const Alloc> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}
void TraceWriter::append(std::span<const CounterTrack> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}
void TraceWriter::append(std::span<const CounterSample> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}
void TraceWriter::append(std::span<const Step> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}
void TraceWriter::append(std::span<const ThreadInfo> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}
void TraceWriter::append(std::span<const DeviceInfo> rows) {
  output_->append([&](Encoder& encoder) { encoder.append(rows); });
}

void TraceWriter::set_info(const nlohmann::json& info) {
  output_->append([&](Encoder& encoder) { encoder.set_info(info); });
}
void TraceWriter::set_quality(const std::map<std::string, std::int64_t>& quality) {
  output_->append([&](Encoder& encoder) { encoder.set_quality(quality); });
}
void TraceWriter::finish() { output_->finish(); }

namespace {

void encode(Encoder& encoder, const Trace& trace) {
  SL_CHECK(!trace.strings.empty() && trace.strings.front().empty());
  encoder.set_info(trace.info);
  encoder.set_quality(trace.quality);
  encoder.append_strings(std::span(trace.strings).subspan(1));
  schema::for_each_table([&]<class Row>(schema::Schema<Row>) {
    encoder.append(std::span<const Row>(trace.*schema::Schema<Row>::kRows));
  });
  encoder.finish();
}

}  // namespace

std::string encode_trace(const Trace& trace) {
  Encoder encoder;
  encode(encoder, trace);
  return encoder.bytes();
}

void write_trace(const std::filesystem::path& path, const Trace& trace) {
  std::string bytes;
  try {
    bytes = encode_trace(trace);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", path.string(), error.what()));
  }
  write_file_atomically(path, bytes);
}

}  // namespace steplens
