// Any bytes given to read_trace end in a trace or a ConfigError; what was read can be written, and
// is then the same. scripts/fuzz.sh builds and runs it.
//
// Blind changes would die at the first CRC. The mutator works on the chunks and columns of a trace
// instead and puts the frame around them again, right or, now and then, wrong.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/check_trace.h"
#include <zstd.h>

#include "harness/error.h"
#include "harness/trace/columns.h"
#include "harness/trace/crc32c.h"
#include "harness/trace/trace_format.h"
#include "harness/trace/trace_reader.h"
#include "harness/trace/trace_schema.h"
#include "harness/trace/trace_writer.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace steplens {
namespace {

// Of one input, so that each takes microseconds.
constexpr std::uint64_t kMaxRows = 1024;
constexpr std::uint64_t kMaxRawBytes = 1 << 16;

struct Chunk {
  TableId table = TableId::kNone;
  std::uint32_t num_rows = 0;
  std::string payload;
};

std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}
std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A row of each table, and a few more of the tables that have times.
std::string seed_trace() {
  Trace trace;
  trace.info = {{"run_kind", "trace"}, {"versions", {1, 2.5, nullptr}}};
  trace.strings = {"", "kernel_a", "main", "step", "gpu"};
  trace.quality = {{"dropped", 0}, {"peak_slabs", 3}};
  trace.launch_shapes = {{.grid_x = 3, .block_x = 128}};
  trace.threads = {{.tid = 7, .name = 2}};
  trace.devices = {{.name = 4}};
  trace.steps = {{.start_ns = 0, .end_ns = 10000}};
  trace.ranges = {{.name = 3}, {.name = 1, .parent = 0}};
  trace.range_instances = {{.start_ns = 1, .end_ns = 9000, .range = 0, .thread = 0},
                           {.start_ns = 2, .end_ns = 800, .range = 1, .thread = 0, .parent = 0}};
  for (std::int64_t i = 0; i < 20; ++i) {
    trace.gpu_ops.push_back({.start_ns = 300 * i * i,
                             .end_ns = 300 * i * i + 100 + 7 * i,
                             .bytes = i % 3 * 100000,
                             .name = 1,
                             .correlation_id = static_cast<std::uint32_t>(1 + 2 * i),
                             .range = 1,
                             .step_index = 0});
    trace.apis.push_back({.start_ns = 290 * i,
                          .end_ns = 290 * i + 50,
                          .name = 1,
                          .correlation_id = static_cast<std::uint32_t>(1 + 2 * i),
                          .thread = 0,
                          .range_instance = 1});
  }
  trace.gpu_ops.push_back({.start_ns = 1, .kind = GpuOpKind::kOperator});
  trace.syncs = {{.start_ns = 5, .end_ns = 6, .name = 2}};
  trace.allocs = {{.time_ns = 3, .address = 0x7f0000000000, .bytes = 512, .range = 0}};
  trace.counter_tracks = {{.name = 1}};
  trace.counter_samples = {{.time_ns = 1, .value = 0.5, .track = 0}};
  return encode_trace(trace);
}

bool unpack(const ChunkPlace& place, Chunk& chunk) {
  chunk = {.table = place.header.table, .num_rows = place.header.num_rows};
  const auto* bytes = reinterpret_cast<const char*>(place.payload.data());
  if (place.header.codec == Codec::kStored) {
    chunk.payload.assign(bytes, place.payload.size());
    return true;
  }
  if (place.header.num_raw_bytes > kMaxRawBytes) return false;
  chunk.payload.resize(place.header.num_raw_bytes);
  return ZSTD_decompress(chunk.payload.data(), chunk.payload.size(), bytes, place.payload.size()) ==
         chunk.payload.size();
}

std::vector<Chunk> unpack_file(std::span<const std::byte> file) {
  std::vector<Chunk> chunks;
  try {
    for (const ChunkPlace& place : list_chunks(file, "fuzz").chunks) {
      Chunk chunk;
      if (unpack(place, chunk)) chunks.push_back(std::move(chunk));
    }
  } catch (const ConfigError&) {
    chunks.clear();
  }
  return chunks;
}

template <class Part>
void put(std::string& out, Part part) {
  seal(part);
  out.append(reinterpret_cast<const char*>(&part), sizeof(part));
}

void put_chunk(std::string& out, const Chunk& chunk, bool is_compressed) {
  std::string stored = chunk.payload;
  if (is_compressed) {
    stored.resize(ZSTD_compressBound(chunk.payload.size()));
    stored.resize(
        ZSTD_compress(stored.data(), stored.size(), chunk.payload.data(), chunk.payload.size(), 1));
  }
  put(out, ChunkHeader{.table = chunk.table,
                       .codec = is_compressed ? Codec::kZstd : Codec::kStored,
                       .num_rows = chunk.num_rows,
                       .num_stored_bytes = static_cast<std::uint32_t>(stored.size()),
                       .num_raw_bytes = static_cast<std::uint32_t>(chunk.payload.size()),
                       .payload_crc = crc32c(bytes_of(stored))});
  out += stored;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string mutate(std::span<const std::byte> file) {
    std::vector<Chunk> chunks = unpack_file(file);
    if (chunks.empty()) {
      static const std::string kSeed = seed_trace();
      chunks = unpack_file(bytes_of(kSeed));
    }
    for (std::uint32_t i = 0; i <= below(3); ++i) mutate_one(chunks);
    return pack(chunks);
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

  // Numbers at the edges of types and tables, and any.
  std::uint64_t number() {
    const std::uint64_t power = std::uint64_t{1} << below(64);
    switch (below(5)) {
      case 0: return below(8);
      case 1: return power;
      case 2: return power - 1;
      case 3: return std::uint64_t{0} - below(3);
      default: return (static_cast<std::uint64_t>(random_()) << 32) | random_();
    }
  }

  static void mutate_bytes(std::string& bytes) {
    const std::size_t size = bytes.size();
    bytes.resize(size + 64);
    auto* data = reinterpret_cast<std::uint8_t*>(bytes.data());
    bytes.resize(LLVMFuzzerMutate(data, size, bytes.size()));
  }

  void mutate_one(std::vector<Chunk>& chunks) {
    if (chunks.empty()) return;
    const std::size_t i = below(static_cast<std::uint32_t>(chunks.size()));
    switch (below(12)) {
      case 0: mutate_bytes(chunks[i].payload); return;
      case 1: chunks[i].num_rows = below(300); return;
      case 2: chunks[i].table = static_cast<TableId>(1 + below(15)); return;
      case 3: chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(i)); return;
      case 4: chunks.push_back(chunks[i]); return;
      case 5: std::swap(chunks[i], chunks.back()); return;
      default: mutate_column(chunks[i]); return;
    }
  }

  void mutate_column(Chunk& chunk) {
    std::vector<EncodedColumn> columns;
    try {
      columns = split_columns(bytes_of(chunk.payload));
    } catch (const ConfigError&) {
    }
    if (columns.empty()) {
      mutate_bytes(chunk.payload);
      return;
    }
    const std::size_t changed = below(static_cast<std::uint32_t>(columns.size()));
    std::string payload;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      ColumnHeader header = columns[i].header;
      std::string bytes(reinterpret_cast<const char*>(columns[i].bytes.data()),
                        columns[i].bytes.size());
      if (i == changed) {
        switch (below(6)) {
          case 0: header.encoding = static_cast<Encoding>(below(7)); break;
          case 1: header.width = static_cast<std::uint8_t>(below(10)); break;
          case 2: header.base = number(); break;
          case 3: header.id = static_cast<std::uint8_t>(1 + below(33)); break;
          case 4:
            if (chunk.num_rows > 0) {
              append_column(payload, header.id, numbers(chunk.num_rows), number());
              continue;
            }
            break;
          default: mutate_bytes(bytes); break;
        }
      }
      header.num_bytes = static_cast<std::uint32_t>(bytes.size());
      payload.append(reinterpret_cast<const char*>(&header), sizeof(header));
      payload += bytes;
    }
    chunk.payload = std::move(payload);
  }

  std::vector<std::uint64_t> numbers(std::uint32_t count) {
    std::vector<std::uint64_t> values(std::min<std::uint32_t>(count, kMaxRows));
    const std::uint64_t start = number();
    const std::uint64_t step = one_in(2) ? below(4) : number();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = one_in(16) ? number() : start + i * step;
    }
    return values;
  }

  std::string pack(const std::vector<Chunk>& chunks) {
    std::string file;
    put(file, FileHeader{});
    std::vector<std::uint64_t> offsets, tables, rows;
    for (const Chunk& chunk : chunks) {
      offsets.push_back(file.size());
      tables.push_back(static_cast<std::uint64_t>(chunk.table));
      rows.push_back(chunk.num_rows);
      put_chunk(file, chunk, one_in(64));
    }
    if (one_in(8)) return file;  // Truncated.
    Chunk index{.table = TableId::kIndex, .num_rows = static_cast<std::uint32_t>(chunks.size())};
    if (!chunks.empty()) {
      append_column(index.payload, schema::kIndexOffsetId, offsets, 0);
      append_column(index.payload, schema::kIndexTableId, tables, 0);
      append_column(index.payload, schema::kIndexRowsId, rows, 0);
    }
    if (one_in(32)) mutate_column(index);
    const std::uint64_t index_offset = file.size();
    put_chunk(file, index, false);
    put(file, FileTrailer{.index_offset = index_offset});
    return file;
  }

  std::minstd_rand random_;
};

bool is_small(std::span<const std::byte> file) {
  std::uint64_t num_rows = 0;
  std::uint64_t num_raw_bytes = 0;
  for (const ChunkPlace& place : list_chunks(file, "fuzz").chunks) {
    num_rows += place.header.num_rows;
    num_raw_bytes += place.header.num_raw_bytes;
  }
  return num_rows <= kMaxRows && num_raw_bytes <= kMaxRawBytes;
}

}  // namespace
}  // namespace steplens

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  using namespace steplens;
  if (seed % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string file = Mutator(seed).mutate(bytes_of(data, size));
  if (file.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, file.data(), file.size());
  return file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace steplens;
  Trace trace;
  try {
    if (!is_small(bytes_of(data, size))) return -1;
    trace = read_trace(bytes_of(data, size), "fuzz");
  } catch (const ConfigError&) {
    return 0;
  }
  check_references(trace);
  if (crc32c(bytes_of(data, size)) % 4 != 0) return 0;  // Writing takes longer than reading.
  const std::string file = encode_trace(trace);
  require(encode_trace(read_trace(bytes_of(file), "again")) == file, "not the same after a write");
  return 0;
}
