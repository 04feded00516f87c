#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The frame of a trace.slt, little-endian:
///
///     FileHeader     magic, version
///     ChunkHeader    table, row count, sizes, CRCs | payload: columns, or JSON of `info`
///     ...            any number of chunks, of any table in any order
///     ChunkHeader    the index: offset, table and row count of each chunk before it
///     FileTrailer    where the index is
///
/// A file whose writer was killed lacks its end: all whole chunks of it are good.
namespace steplens {

/// Of the format that is written; a newer one is refused, older ones are read.
inline constexpr std::uint32_t kTraceVersion = 1;

/// Rows of one chunk at most. Half as many make a trace 6 % larger and are not faster.
inline constexpr std::uint32_t kMaxChunkRows = 1 << 16;

/// Bytes of one chunk at most, before zstd.
inline constexpr std::uint32_t kMaxChunkBytes = 1 << 26;

/// Numbers stay: they are on disk.
enum class TableId : std::uint8_t {
  kNone = 0,
  kInfo = 1,
  kString = 2,  // Without the empty string, which is entry 0.
  kGpuOp = 3,
  kLaunchShape = 4,
  kApi = 5,
  kRange = 6,
  kRangeInstance = 7,
  kSync = 8,
  kAlloc = 9,
  kCounterTrack = 10,
  kCounterSample = 11,
  kStep = 12,
  kThread = 13,
  kDevice = 14,
  kQuality = 15,
  kIndex = 16,
};
inline constexpr std::size_t kNumTables = 17;
std::string_view name_of(TableId table);  // "gpu_op", "api", ...

enum class Codec : std::uint8_t { kStored = 0, kZstd = 1 };

struct FileHeader {
  // As in PNG: a transfer as text damages the line ends.
  std::array<char, 8> magic = {'\x89', 'S', 'L', 'T', '\r', '\n', '\x1a', '\n'};
  std::uint32_t version = kTraceVersion;
  std::uint32_t crc = 0;  // CRC-32C of the bytes before it, here and below.
};
static_assert(sizeof(FileHeader) == 16);

struct ChunkHeader {
  std::array<char, 4> magic = {'S', 'L', 'T', 'C'};
  TableId table = TableId::kNone;
  Codec codec = Codec::kStored;
  std::uint16_t reserved = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t num_stored_bytes = 0;  // Of the payload on disk,
  std::uint32_t num_raw_bytes = 0;     // and before zstd.
  std::uint32_t payload_crc = 0;       // Of the bytes on disk.
  std::uint32_t crc = 0;
};
static_assert(sizeof(ChunkHeader) == 28);

struct FileTrailer {
  std::uint64_t index_offset = 0;
  std::array<char, 4> magic = {'S', 'L', 'T', 'E'};
  std::uint32_t crc = 0;
};
static_assert(sizeof(FileTrailer) == 16);

/// Fills in `crc`.
void seal(FileHeader& header);
void seal(ChunkHeader& header);
void seal(FileTrailer& trailer);

struct ChunkPlace {
  std::uint64_t offset = 0;  // Of its header.
  ChunkHeader header;
  std::span<const std::byte> payload;  // As on disk.
};

struct ChunkList {
  std::vector<ChunkPlace> chunks;       // In file order, without the index.
  std::optional<ChunkPlace> index;      // Absent: the writer did not finish.
  std::uint64_t num_ignored_bytes = 0;  // Behind the last whole chunk of such a file.
};

/// Finds the chunks of a whole file in memory and checks all of the frame but the payloads.
/// ConfigError names the file (`name`), the chunk and what is wrong, also where the version is
/// newer. With `keeps_going` a file damaged behind its header gives the chunks before the damage,
/// as if it ended there.
ChunkList list_chunks(std::span<const std::byte> file, std::string_view name,
                      bool keeps_going = false);

}  // namespace steplens
