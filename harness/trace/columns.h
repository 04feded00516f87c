#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Columns of a trace file. A column is a list of 64-bit codes (the schema says how a field becomes
/// a code); the writer picks the encoding that is smallest before zstd and still quick to decode.
///
/// On disk: ColumnHeader, then `num_bytes` bytes.
namespace steplens {

enum class Encoding : std::uint8_t {
  kConstant = 0,     // Every code is `base`; no bytes.
  kPlanes = 1,       // code - base in `width` bytes, low bytes of all rows first (byte shuffle).
  kDeltaPlanes = 2,  // zigzag(code - previous code) as planes; `base` comes before the first row.
  kRuns = 3,         // Varint pairs: zigzag(code - code of the run before, `base` first), length.
  kDictionary = 4,   // Count - 1 (one byte), ascending codes as varint steps, one byte a row.
  kBytes = 5,        // Text; not a list of codes.
};

struct ColumnHeader {
  std::uint8_t id = 0;  // The schema's; columns come in any order, none twice.
  Encoding encoding = Encoding::kConstant;
  std::uint8_t width = 0;  // Bytes a row, of planes; else 0.
  std::uint8_t reserved = 0;
  std::uint32_t num_bytes = 0;
  std::uint64_t base = 0;
};
static_assert(sizeof(ColumnHeader) == 16);

struct EncodedColumn {
  ColumnHeader header;
  std::span<const std::byte> bytes;
};

constexpr std::uint64_t zigzag(std::uint64_t delta) {
  return (delta << 1) ^ (std::uint64_t{0} - (delta >> 63));
}
constexpr std::uint64_t unzigzag(std::uint64_t code) {
  return (code >> 1) ^ (std::uint64_t{0} - (code & 1));
}

/// Appends one column and returns its largest code. Appends nothing where every code is
/// `absent_code`, which is what a reader assumes for a column that is not there.
std::uint64_t append_column(std::string& payload, std::uint8_t id,
                            std::span<const std::uint64_t> codes, std::uint64_t absent_code);

/// Appends a column of text.
void append_bytes_column(std::string& payload, std::uint8_t id, std::string_view text);

/// Splits a payload into its columns. ConfigError: ends inside a column, an id twice.
std::vector<EncodedColumn> split_columns(std::span<const std::byte> payload);

/// Decodes a column some rows at a time. All functions throw ConfigError where the bytes do not
/// give exactly `num_rows` codes; the message lacks file and table, which the caller adds.
class ColumnDecoder {
 public:
  /// What `next` takes at most.
  static constexpr std::size_t kBatchRows = 256;

  /// A column that is not there.
  explicit ColumnDecoder(std::uint64_t absent_code) : is_absent_(true), base_(absent_code) {}
  ColumnDecoder(const EncodedColumn& column, std::size_t num_rows);

  bool is_absent() const { return is_absent_; }
  bool is_constant() const { return encoding_ == Encoding::kConstant; }
  /// The next codes.size() codes.
  void next(std::span<std::uint64_t> codes);
  /// To be called after the last row.
  void finish() const;

 private:
  void next_runs(std::span<std::uint64_t> codes);
  void next_dictionary(std::span<std::uint64_t> codes);

  bool is_absent_ = false;
  Encoding encoding_ = Encoding::kConstant;
  std::uint8_t width_ = 0;
  std::uint64_t base_ = 0;  // Constant, frame of reference, or the code of the row before.
  std::size_t num_rows_ = 0;
  std::size_t row_ = 0;
  std::span<const std::byte> bytes_;
  std::uint64_t run_length_ = 0;  // Rows left of the open run.
  std::vector<std::uint64_t> dictionary_;
};

}  // namespace steplens
