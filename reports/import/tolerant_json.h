#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>

namespace steplens {

/// The characters of a JSON file, plain or gzip, mended so that a strict parser reads what
/// profilers write: control characters, bad UTF-8, unknown escapes and quotes inside of strings;
/// NaN, Infinity and other words as values (they become null); commas before a closing bracket.
/// Valid JSON passes unchanged.
class TolerantJson {
 public:
  /// ConfigError names a file that cannot be read.
  [[nodiscard]] explicit TolerantJson(const std::filesystem::path& path);
  ~TolerantJson();
  TolerantJson(const TolerantJson&) = delete;
  TolerantJson& operator=(const TolerantJson&) = delete;

  static constexpr int kEnd = -1;
  /// The current character, or kEnd.
  int peek() {
    if (ready_begin_ == ready_.size()) refill();
    return ready_begin_ == ready_.size() ? kEnd : static_cast<unsigned char>(ready_[ready_begin_]);
  }
  void advance() { ++ready_begin_; }

  /// All of the file was read, whether or not it ends well.
  bool is_at_end() { return peek() == kEnd; }
  bool is_compressed() const;
  /// Of the file's content, uncompressed.
  std::int64_t num_read_bytes() const {
    return num_read_bytes_ - static_cast<std::int64_t>(raw_.size() - raw_begin_);
  }
  std::int64_t num_mended() const { return num_mended_; }

 private:
  void refill();
  bool read_more();
  int raw(std::size_t ahead = 0);
  void take() { ++raw_begin_; }
  void mend_string();
  void mend_escape();
  void mend_word();
  int next_after_blanks(std::size_t from);
  void append_replacement();

  std::string name_;
  void* file_ = nullptr;  // zlib's gzFile, which its header alone may name.
  std::string raw_;
  std::size_t raw_begin_ = 0;
  bool is_raw_at_end_ = false;
  std::string ready_;
  std::size_t ready_begin_ = 0;
  bool is_in_string_ = false;
  std::int64_t num_read_bytes_ = 0;
  std::int64_t num_mended_ = 0;
};

/// An input iterator over a TolerantJson for nlohmann's parsers.
class TolerantJsonIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  TolerantJsonIterator() = default;
  explicit TolerantJsonIterator(TolerantJson& source) : source_(&source) {}

  char operator*() const { return static_cast<char>(source_->peek()); }
  TolerantJsonIterator& operator++() {
    source_->advance();
    return *this;
  }
  TolerantJsonIterator operator++(int) {
    const TolerantJsonIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TolerantJsonIterator& other) const { return is_end() == other.is_end(); }

 private:
  bool is_end() const { return source_ == nullptr || source_->is_at_end(); }
  TolerantJson* source_ = nullptr;
};

}  // namespace steplens
