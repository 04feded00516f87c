#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace steplens {

/// Reads a JSON document, plain or gzip, token by token, and mends what profilers write: control
/// characters, bad UTF-8, unknown escapes and quotes inside of strings; NaN, Infinity and other
/// words as values (they count as null); commas before a closing bracket. Only a window of the
/// document is in memory, unless it was text from the beginning.
///
/// Thread-compatible.
class TolerantJson {
 public:
  /// ConfigError names a file that cannot be read.
  [[nodiscard]] explicit TolerantJson(const std::filesystem::path& path);
  /// Of text, which is copied.
  [[nodiscard]] explicit TolerantJson(std::string_view text);
  ~TolerantJson();
  TolerantJson(const TolerantJson&) = delete;
  TolerantJson& operator=(const TolerantJson&) = delete;

  enum class Token : std::uint8_t {
    kBeginObject,
    kEndObject,
    kBeginArray,
    kEndArray,
    kKey,     // Its value comes next.
    kString,  // A value.
    kInteger,
    kDecimal,  // A number with a point or an exponent.
    kWord,     // true, false or null.
    kEnd,      // The document is complete; what follows it is not looked at.
    kCut,      // The file ends in the middle.
    kError,    // error() says why. The last two repeat for ever.
  };
  Token next();

  /// Of a key or string, in UTF-8 without its escapes; of a number or word, as it is written. Until
  /// the next token.
  std::string_view text() const { return text_; }
  const std::string& error() const { return error_; }

  bool is_compressed() const;
  /// Of the document, uncompressed, up to the end of the current token.
  std::int64_t num_read_bytes() const {
    return num_dropped_bytes_ + static_cast<std::int64_t>(at_);
  }
  std::int64_t num_mended() const { return num_mended_; }

 private:
  // What may come next.
  enum class Expected : std::uint8_t {
    kValue,
    kFirstValue,       // Or the end of the array.
    kValueAfterComma,  // Or, mended, the end of the array.
    kFirstKey,         // Or the end of the object.
    kKeyAfterComma,    // Or, mended, the end of the object.
    kCommaOrEnd,
    kNothing,
  };

  bool read_more();
  Token take_token();
  Token take_value(char first);
  Token take_end(char bracket);
  Token take_key();
  Token take_number();
  Token take_word();
  bool take_string();
  bool take_string_slowly(std::size_t from);
  bool take_escape(std::size_t& at);
  std::size_t after_blanks(std::size_t at) const;
  Token fail(std::string_view what);
  Token after_value(Token token);

  std::string name_;
  void* file_ = nullptr;  // zlib's gzFile, which its header alone may name; null: text.
  // The window: what is read and not yet used, and a zero behind it that ends every search.
  std::string window_;
  std::size_t at_ = 0;
  bool is_complete_ = false;  // The window ends where the document does.
  std::int64_t num_dropped_bytes_ = 0;

  std::vector<bool> is_object_;  // Of each open bracket.
  Expected expected_ = Expected::kValue;
  bool needs_more_ = false;  // The token goes on behind the window.
  bool is_cut_ = false;
  std::string_view text_;
  std::string scratch_;
  std::string error_;
  std::int64_t num_mended_ = 0;
};

}  // namespace steplens
