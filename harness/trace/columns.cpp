#include "harness/trace/columns.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "harness/error.h"

static_assert(std::endian::native == std::endian::little, "trace files are little-endian");

namespace steplens {
namespace {

constexpr std::size_t kMaxDictionary = 256;
// What a run costs beyond its value: bytes for the length, and branches that are guessed wrong.
constexpr std::size_t kBytesPerRun = 5;

// Bytes that hold `value`; 0 for 0.
std::uint8_t width_of(std::uint64_t value) {
  return static_cast<std::uint8_t>((std::bit_width(value) + 7) / 8);
}

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Takes a varint off the front of `bytes`.
std::uint64_t take_varint(std::span<const std::byte>& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (bytes.empty()) throw ConfigError("ends inside a number");
    const auto byte = static_cast<std::uint64_t>(bytes.front());
    bytes = bytes.subspan(1);
    if (shift == 63 && byte > 1) break;
    value |= (byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  throw ConfigError("a number of more than 64 bits");
}

struct Shape {
  std::uint64_t min = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t max = 0;
  std::uint64_t delta_bits = 0;  // All zigzag deltas, or-ed.
  std::size_t num_runs = 1;
};

Shape shape_of(std::span<const std::uint64_t> codes) {
  Shape shape;
  std::uint64_t previous = codes.front();
  for (const std::uint64_t code : codes) {
    shape.min = std::min(shape.min, code);
    shape.max = std::max(shape.max, code);
    shape.delta_bits |= zigzag(code - previous);
    shape.num_runs += code != previous ? 1 : 0;
    previous = code;
  }
  return shape;
}

// Reserves the header; `close_column` fills it in.
std::size_t open_column(std::string& payload) {
  const std::size_t offset = payload.size();
  payload.append(sizeof(ColumnHeader), '\0');
  return offset;
}
void close_column(std::string& payload, std::size_t offset, ColumnHeader header) {
  const std::size_t num_bytes = payload.size() - offset - sizeof(ColumnHeader);
  SL_CHECK(num_bytes <= std::numeric_limits<std::uint32_t>::max());
  header.num_bytes = static_cast<std::uint32_t>(num_bytes);
  std::memcpy(payload.data() + offset, &header, sizeof(header));
}

template <class CodeOfRow>
void append_planes(std::string& payload, std::size_t num_rows, int width, CodeOfRow code_of_row) {
  const std::size_t offset = payload.size();
  payload.resize(offset + num_rows * static_cast<std::size_t>(width));
  char* out = payload.data() + offset;
  for (int plane = 0; plane < width; ++plane) {
    for (std::size_t row = 0; row < num_rows; ++row) {
      *out++ = static_cast<char>(code_of_row(row) >> (8 * plane));
    }
  }
}

// Few values, far apart. False, and nothing appended, where there are more than kMaxDictionary.
bool append_dictionary(std::string& payload, std::span<const std::uint64_t> codes) {
  constexpr std::size_t kSlots = 1024;  // A quarter full at most.
  std::array<std::uint64_t, kSlots> keys;
  std::array<std::int16_t, kSlots> indices;
  indices.fill(-1);
  const auto slot_of = [&](std::uint64_t code) {
    std::size_t slot = (code * 0x9E3779B97F4A7C15) >> 54;
    while (indices[slot] >= 0 && keys[slot] != code) slot = (slot + 1) % kSlots;
    return slot;
  };
  std::vector<std::uint64_t> values;
  for (const std::uint64_t code : codes) {
    const std::size_t slot = slot_of(code);
    if (indices[slot] >= 0) continue;
    if (values.size() == kMaxDictionary) return false;
    keys[slot] = code;
    indices[slot] = 0;
    values.push_back(code);
  }
  std::sort(values.begin(), values.end());
  payload.push_back(static_cast<char>(values.size() - 1));
  std::uint64_t previous = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    indices[slot_of(values[i])] = static_cast<std::int16_t>(i);
    append_varint(payload, values[i] - previous);
    previous = values[i];
  }
  for (const std::uint64_t code : codes) {
    payload.push_back(static_cast<char>(indices[slot_of(code)]));
  }
  return true;
}

void append_runs(std::string& payload, std::span<const std::uint64_t> codes) {
  std::uint64_t previous = codes.front();
  for (std::size_t begin = 0; begin < codes.size();) {
    const std::uint64_t code = codes[begin];
    std::size_t end = begin + 1;
    while (end < codes.size() && codes[end] == code) ++end;
    append_varint(payload, zigzag(code - previous));
    append_varint(payload, end - begin);
    previous = code;
    begin = end;
  }
}

// The count is a constant in the usual case, so that the compiler can use vector instructions.
template <int Width, class Count>
void gather_planes(const std::byte* bytes, std::size_t stride, std::uint64_t* codes, Count count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t code = 0;
    for (int plane = 0; plane < Width; ++plane) {
      code |= static_cast<std::uint64_t>(bytes[static_cast<std::size_t>(plane) * stride + i])
              << (8 * plane);
    }
    codes[i] = code;
  }
}

template <int Width>
void gather_planes_of_width(const std::byte* bytes, std::size_t stride,
                            std::span<std::uint64_t> codes) {
  if (codes.size() == ColumnDecoder::kBatchRows) {
    gather_planes<Width>(bytes, stride, codes.data(),
                         std::integral_constant<std::size_t, ColumnDecoder::kBatchRows>());
  } else {
    gather_planes<Width>(bytes, stride, codes.data(), codes.size());
  }
}

// Indexed by width - 1.
constexpr std::array kGatherPlanes = {&gather_planes_of_width<1>, &gather_planes_of_width<2>,
                                      &gather_planes_of_width<3>, &gather_planes_of_width<4>,
                                      &gather_planes_of_width<5>, &gather_planes_of_width<6>,
                                      &gather_planes_of_width<7>, &gather_planes_of_width<8>};

}  // namespace

std::uint64_t append_column(std::string& payload, std::uint8_t id,
                            std::span<const std::uint64_t> codes, std::uint64_t absent_code) {
  SL_CHECK(!codes.empty());
  const Shape shape = shape_of(codes);
  if (shape.num_runs == 1 && shape.max == absent_code) return shape.max;

  const std::size_t offset = open_column(payload);
  ColumnHeader header{.id = id};
  const std::uint8_t plane_width = width_of(shape.max - shape.min);
  const std::uint8_t delta_width = width_of(shape.delta_bits);
  const std::uint8_t width = std::min(plane_width, delta_width);
  if (shape.num_runs == 1) {
    header.base = shape.max;
  } else if (shape.num_runs * (kBytesPerRun + width) <= codes.size() * width) {
    header.encoding = Encoding::kRuns;
    header.base = codes.front();
    append_runs(payload, codes);
  } else if (width > 1 && append_dictionary(payload, codes)) {
    header.encoding = Encoding::kDictionary;
  } else if (delta_width < plane_width) {
    header.encoding = Encoding::kDeltaPlanes;
    header.width = delta_width;
    header.base = codes.front();
    append_planes(payload, codes.size(), delta_width, [&](std::size_t row) {
      return zigzag(codes[row] - codes[row - (row > 0 ? 1 : 0)]);
    });
  } else {
    header.encoding = Encoding::kPlanes;
    header.width = plane_width;
    header.base = shape.min;
    append_planes(payload, codes.size(), plane_width,
                  [&](std::size_t row) { return codes[row] - shape.min; });
  }
  close_column(payload, offset, header);
  return shape.max;
}

void append_bytes_column(std::string& payload, std::uint8_t id, std::string_view text) {
  const std::size_t offset = open_column(payload);
  payload.append(text);
  close_column(payload, offset, {.id = id, .encoding = Encoding::kBytes});
}

std::vector<EncodedColumn> split_columns(std::span<const std::byte> payload) {
  std::vector<EncodedColumn> columns;
  std::array<bool, 256> is_seen{};
  while (!payload.empty()) {
    EncodedColumn column;
    if (payload.size() < sizeof(column.header)) throw ConfigError("ends inside a column header");
    std::memcpy(&column.header, payload.data(), sizeof(column.header));
    payload = payload.subspan(sizeof(column.header));
    if (column.header.num_bytes > payload.size()) {
      throw ConfigError(fmt::format("column {}: {} bytes, of which {} are there", column.header.id,
                                    column.header.num_bytes, payload.size()));
    }
    if (std::exchange(is_seen.at(column.header.id), true)) {
      throw ConfigError(fmt::format("column {} is there twice", column.header.id));
    }
    column.bytes = payload.first(column.header.num_bytes);
    payload = payload.subspan(column.header.num_bytes);
    columns.push_back(column);
  }
  return columns;
}

ColumnDecoder::ColumnDecoder(const EncodedColumn& column, std::size_t num_rows)
    : encoding_(column.header.encoding),
      width_(column.header.width),
      base_(column.header.base),
      num_rows_(num_rows),
      bytes_(column.bytes) {
  const auto require_bytes = [&](std::size_t num_bytes) {
    if (bytes_.size() != num_bytes) {
      throw ConfigError(
          fmt::format("{} bytes for {} rows, not {}", bytes_.size(), num_rows, num_bytes));
    }
  };
  switch (encoding_) {
    case Encoding::kConstant: require_bytes(0); return;
    case Encoding::kPlanes:
    case Encoding::kDeltaPlanes:
      if (width_ < 1 || width_ > 8) throw ConfigError(fmt::format("width {}: takes 1..8", width_));
      require_bytes(num_rows * width_);
      return;
    case Encoding::kRuns: return;
    case Encoding::kDictionary: {
      if (bytes_.empty()) throw ConfigError("an empty dictionary");
      dictionary_.resize(static_cast<std::size_t>(bytes_.front()) + 1);
      bytes_ = bytes_.subspan(1);
      std::uint64_t code = 0;
      for (std::uint64_t& entry : dictionary_) entry = code += take_varint(bytes_);
      require_bytes(num_rows);
      return;
    }
    case Encoding::kBytes: break;
  }
  throw ConfigError(fmt::format("encoding {}: not one of numbers", static_cast<int>(encoding_)));
}

void ColumnDecoder::next(std::span<std::uint64_t> codes) {
  SL_CHECK(codes.size() <= kBatchRows);
  if (is_constant()) {
    std::fill(codes.begin(), codes.end(), base_);
    return;
  }
  SL_CHECK(row_ + codes.size() <= num_rows_);
  if (encoding_ == Encoding::kRuns) {
    next_runs(codes);
  } else if (encoding_ == Encoding::kDictionary) {
    next_dictionary(codes);
  } else {
    kGatherPlanes.at(width_ - 1U)(bytes_.data() + row_, num_rows_, codes);
    if (encoding_ == Encoding::kPlanes) {
      for (std::uint64_t& code : codes) code += base_;
    } else {
      for (std::uint64_t& code : codes) code = base_ += unzigzag(code);
    }
  }
  row_ += codes.size();
}

void ColumnDecoder::next_runs(std::span<std::uint64_t> codes) {
  while (!codes.empty()) {
    if (run_length_ == 0) {
      base_ += unzigzag(take_varint(bytes_));
      run_length_ = take_varint(bytes_);
      if (run_length_ == 0) throw ConfigError("a run of no rows");
    }
    const std::size_t count = std::min<std::uint64_t>(run_length_, codes.size());
    std::fill_n(codes.begin(), count, base_);
    run_length_ -= count;
    codes = codes.subspan(count);
  }
}

void ColumnDecoder::next_dictionary(std::span<std::uint64_t> codes) {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto index = static_cast<std::size_t>(bytes_[row_ + i]);
    if (index >= dictionary_.size()) {
      throw ConfigError(fmt::format("row {}: entry {} of a dictionary of {}", row_ + i, index,
                                    dictionary_.size()));
    }
    codes[i] = dictionary_[index];
  }
}

void ColumnDecoder::finish() const {
  if (encoding_ != Encoding::kRuns || (run_length_ == 0 && bytes_.empty())) return;
  throw ConfigError(fmt::format("runs go on after row {}", num_rows_));
}

}  // namespace steplens
