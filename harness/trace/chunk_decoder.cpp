#include "harness/trace/chunk_decoder.h"

#include <zstd.h>

#include "harness/trace/crc32c.h"

namespace steplens {
namespace {

[[noreturn]] void unknown_column(int id) {
  throw ConfigError(fmt::format("unknown column {}", id));
}

}  // namespace

ChunkColumns::ChunkColumns(std::span<const std::byte> payload, std::size_t num_rows)
    : num_rows_(num_rows) {
  for (const EncodedColumn& column : split_columns(payload)) {
    if (column.header.id > schema::kMaxColumnId) unknown_column(column.header.id);
    columns_[column.header.id] = column;
  }
}

ColumnDecoder ChunkColumns::take(std::uint8_t id, std::uint64_t absent_code) {
  const std::optional<EncodedColumn> column = std::exchange(columns_[id], std::nullopt);
  return column ? ColumnDecoder(*column, num_rows_) : ColumnDecoder(absent_code);
}

std::string_view ChunkColumns::take_text(std::uint8_t id) {
  const std::optional<EncodedColumn> column = std::exchange(columns_[id], std::nullopt);
  if (!column) return {};
  if (column->header.encoding != Encoding::kBytes) throw ConfigError("its text is not text");
  return {reinterpret_cast<const char*>(column->bytes.data()), column->bytes.size()};
}

void ChunkColumns::check_all_taken() const {
  for (const auto& column : columns_) {
    if (column) unknown_column(column->header.id);
  }
}

ChunkDecoder::ChunkDecoder() = default;

void ChunkDecoder::FreeContext::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

std::span<const std::byte> ChunkDecoder::payload_of(const ChunkPlace& chunk) {
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

}  // namespace steplens
