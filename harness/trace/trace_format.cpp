#include "harness/trace/trace_format.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/trace/crc32c.h"

namespace steplens {
namespace {

constexpr std::array<std::string_view, kNumTables> kTables = {
    "none",  "info",           "string", "gpu_op",  "launch_shape",  "api",
    "range", "range_instance", "sync",   "alloc",   "counter_track", "counter",
    "step",  "thread",         "device", "quality", "index"};

template <class Part>
std::uint32_t crc_of(const Part& part) {
  return crc32c(std::as_bytes(std::span(&part, 1)).first(offsetof(Part, crc)));
}

template <class Part>
bool read_part(std::span<const std::byte> bytes, Part& part) {
  if (bytes.size() < sizeof(part)) return false;
  std::memcpy(&part, bytes.data(), sizeof(part));
  return true;
}

void check_file_header(std::span<const std::byte> file, std::string_view name) {
  const FileHeader expected;
  const std::size_t num_magic_bytes = std::min(file.size(), expected.magic.size());
  if (file.empty() || std::memcmp(file.data(), expected.magic.data(), num_magic_bytes) != 0) {
    throw ConfigError(fmt::format("{}: not a trace: does not start with the magic of one", name));
  }
  FileHeader header;
  if (!read_part(file, header)) {
    throw ConfigError(
        fmt::format("{}: damaged: ends after {} bytes, inside its header", name, file.size()));
  }
  if (header.crc != crc_of(header)) {
    throw ConfigError(fmt::format("{}: damaged: wrong CRC of the file header", name));
  }
  if (header.version < 1 || header.version > kTraceVersion) {
    throw ConfigError(fmt::format("{}: trace version {}: this program reads 1 to {}{}", name,
                                  header.version, kTraceVersion,
                                  header.version > kTraceVersion ? "; a newer one wrote it" : ""));
  }
}

// Empty if the header can be one of ours.
std::string fault_of(const ChunkHeader& header) {
  if (header.magic != ChunkHeader().magic) return "no chunk starts here";
  if (header.crc != crc_of(header)) return "wrong CRC of the chunk header";
  const auto table = static_cast<std::size_t>(header.table);
  if (table < 1 || table >= kNumTables) return fmt::format("unknown table {}", table);
  if (header.codec > Codec::kZstd) {
    return fmt::format("unknown codec {}", static_cast<int>(header.codec));
  }
  if (header.num_raw_bytes > kMaxChunkBytes) {
    return fmt::format("{} bytes; a chunk has {} at most", header.num_raw_bytes, kMaxChunkBytes);
  }
  if (header.codec == Codec::kStored && header.num_raw_bytes != header.num_stored_bytes) {
    return "two sizes of a chunk that is not compressed";
  }
  if (header.num_rows > kMaxChunkRows && header.table != TableId::kIndex) {
    return fmt::format("{} rows; a chunk has {} at most", header.num_rows, kMaxChunkRows);
  }
  return {};
}

// Unwritten blocks read as zeros after the machine, not only the writer, went down.
bool is_all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

std::string_view name_of(TableId table) { return kTables.at(static_cast<std::size_t>(table)); }

void seal(FileHeader& header) { header.crc = crc_of(header); }
void seal(ChunkHeader& header) { header.crc = crc_of(header); }
void seal(FileTrailer& trailer) { trailer.crc = crc_of(trailer); }

ChunkList list_chunks(std::span<const std::byte> file, std::string_view name, bool keeps_going) {
  check_file_header(file, name);
  ChunkList list;
  std::size_t offset = sizeof(FileHeader);
  const auto rest = [&] { return file.subspan(offset); };
  const auto truncated = [&] {
    list.index.reset();
    list.num_ignored_bytes = rest().size();
    return list;
  };

  while (!list.index) {
    ChunkHeader header;
    if (!read_part(rest(), header) || is_all_zero(rest())) return truncated();
    if (const std::string fault = fault_of(header); !fault.empty()) {
      if (keeps_going) return truncated();
      throw ConfigError(fmt::format("{}: damaged: chunk {} at byte {}: {}", name,
                                    list.chunks.size(), offset, fault));
    }
    if (rest().size() - sizeof(header) < header.num_stored_bytes) return truncated();
    const ChunkPlace place = {.offset = offset,
                              .header = header,
                              .payload = rest().subspan(sizeof(header), header.num_stored_bytes)};
    if (header.table == TableId::kIndex) {
      list.index = place;
    } else {
      list.chunks.push_back(place);
    }
    offset += sizeof(header) + header.num_stored_bytes;
  }

  FileTrailer trailer;
  if (rest().size() < sizeof(trailer)) return truncated();
  read_part(rest(), trailer);
  if (trailer.magic != FileTrailer().magic || trailer.crc != crc_of(trailer) ||
      trailer.index_offset != list.index->offset) {
    if (keeps_going) return truncated();
    throw ConfigError(fmt::format("{}: damaged: wrong trailer at byte {}", name, offset));
  }
  if (rest().size() > sizeof(trailer) && !keeps_going) {
    throw ConfigError(
        fmt::format("{}: damaged: {} bytes behind its end", name, rest().size() - sizeof(trailer)));
  }
  return list;
}

}  // namespace steplens
