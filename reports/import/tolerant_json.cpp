#include "reports/import/tolerant_json.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>
#include <zlib.h>

#include "harness/error.h"
#include "reports/export/utf8.h"

namespace steplens {
namespace {

using Token = TolerantJson::Token;

// Of one read: small beside a trace, large beside a call.
constexpr std::size_t kBlockBytes = 1 << 20;
// How far behind a quote its meaning is looked for.
constexpr std::size_t kMaxBlanks = 256;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

gzFile gzip(void* file) { return static_cast<gzFile>(file); }

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Characters of a string that stand for themselves: ASCII but for controls, quote and backslash.
constexpr std::array<bool, 256> plain_characters() {
  std::array<bool, 256> is_plain = {};
  for (std::size_t c = 0x20; c < 0x80; ++c) is_plain[c] = c != '"' && c != '\\';
  return is_plain;
}
constexpr std::array<bool, 256> kIsPlain = plain_characters();

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Of four hexadecimal digits; -1 if they are none.
int hex_value(std::string_view digits) {
  int value = 0;
  for (const char c : digits) {
    const int digit = hex_digit(c);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

bool is_high_surrogate(int unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low_surrogate(int unit) { return unit >= 0xDC00 && unit < 0xE000; }

void append_utf8(std::string& text, int code) {
  const auto put = [&](int byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

}  // namespace

TolerantJson::TolerantJson(const std::filesystem::path& path) : name_(path.string()) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw ConfigError(fmt::format("{}: cannot read: it is a folder", name_));
  }
  errno = 0;
  file_ = ::gzopen(path.c_str(), "rb");  // Reads plain files as they are.
  if (file_ == nullptr) {
    throw ConfigError(
        fmt::format("{}: cannot read: {}", name_,
                    std::error_code(errno != 0 ? errno : EIO, std::generic_category()).message()));
  }
  ::gzbuffer(gzip(file_), kBlockBytes);
}

TolerantJson::TolerantJson(std::string_view text) : window_(text), is_complete_(true) {
  if (window_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

TolerantJson::~TolerantJson() {
  if (file_ != nullptr) ::gzclose(gzip(file_));
}

bool TolerantJson::is_compressed() const {
  return file_ != nullptr && ::gzdirect(gzip(file_)) == 0;
}

// Whether it is worth looking again: the window grew, or is now known to be complete.
bool TolerantJson::read_more() {
  if (is_complete_) return false;
  const bool is_first = window_.empty() && num_dropped_bytes_ == 0;
  window_.erase(0, at_);
  num_dropped_bytes_ += static_cast<std::int64_t>(at_);
  at_ = 0;
  const std::size_t old_size = window_.size();
  // A token that fills the window is looked at again from its start, so the window doubles.
  const std::size_t num_bytes = std::max(kBlockBytes, old_size);
  window_.resize(old_size + num_bytes);
  const int count =
      ::gzread(gzip(file_), window_.data() + old_size, static_cast<unsigned int>(num_bytes));
  window_.resize(old_size + static_cast<std::size_t>(count < 0 ? 0 : count));
  // A gzip file that was cut gives what it has, like a plain one.
  is_complete_ = count <= 0;
  if (is_first && window_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  return true;
}

Token TolerantJson::next() {
  if (is_cut_) return Token::kCut;
  if (!error_.empty()) return Token::kError;
  if (expected_ == Expected::kNothing) return Token::kEnd;
  const Expected expected = expected_;
  const std::int64_t num_mended = num_mended_;
  while (true) {
    const std::size_t begin = at_;
    needs_more_ = false;
    const Token token = take_token();
    if (!needs_more_) return token;
    at_ = begin;
    expected_ = expected;
    num_mended_ = num_mended;
    if (!read_more()) break;
  }
  is_cut_ = true;
  at_ = window_.size();
  return Token::kCut;
}

std::size_t TolerantJson::after_blanks(std::size_t at) const {
  while (is_blank(window_[at])) ++at;
  return at;
}

Token TolerantJson::fail(std::string_view what) {
  const std::string_view near =
      std::string_view(window_).substr(at_, std::min<std::size_t>(20, window_.size() - at_));
  error_ = fmt::format("expected {}, found '{}'", what, valid_utf8(near));
  return Token::kError;
}

Token TolerantJson::after_value(Token token) {
  expected_ = is_object_.empty() ? Expected::kNothing : Expected::kCommaOrEnd;
  return token;
}

Token TolerantJson::take_token() {
  while (true) {
    at_ = after_blanks(at_);
    if (at_ == window_.size()) {
      needs_more_ = true;
      return Token::kCut;
    }
    const char c = window_[at_];
    switch (expected_) {
      case Expected::kValue: return take_value(c);
      case Expected::kFirstValue: return c == ']' ? take_end(c) : take_value(c);
      case Expected::kValueAfterComma:
        if (c != ']') return take_value(c);
        ++num_mended_;
        return take_end(c);
      case Expected::kFirstKey: return c == '}' ? take_end(c) : take_key();
      case Expected::kKeyAfterComma:
        if (c != '}') return take_key();
        ++num_mended_;
        return take_end(c);
      case Expected::kCommaOrEnd:
        if (c != ',') return take_end(c);
        expected_ = is_object_.back() ? Expected::kKeyAfterComma : Expected::kValueAfterComma;
        ++at_;
        break;
      case Expected::kNothing: return Token::kEnd;
    }
  }
}

Token TolerantJson::take_end(char bracket) {
  const bool is_object = is_object_.back();
  if (bracket != (is_object ? '}' : ']')) return fail(is_object ? "a comma or }" : "a comma or ]");
  is_object_.pop_back();
  ++at_;
  return after_value(is_object ? Token::kEndObject : Token::kEndArray);
}

Token TolerantJson::take_value(char first) {
  if (first == '"') return take_string() ? after_value(Token::kString) : Token::kCut;
  if (first == '{' || first == '[') {
    is_object_.push_back(first == '{');
    expected_ = first == '{' ? Expected::kFirstKey : Expected::kFirstValue;
    ++at_;
    return first == '{' ? Token::kBeginObject : Token::kBeginArray;
  }
  if (is_letter(first)) return take_word();
  if (first != '-') return is_digit(first) ? take_number() : fail("a value");
  if (at_ + 1 == window_.size()) {
    needs_more_ = true;
    return Token::kCut;
  }
  return is_letter(window_[at_ + 1]) ? take_word() : take_number();  // "-inf".
}

Token TolerantJson::take_key() {
  if (window_[at_] != '"') return fail("a key in quotes");
  if (!take_string()) return Token::kCut;
  at_ = after_blanks(at_);
  if (at_ == window_.size()) {
    needs_more_ = true;
    return Token::kCut;
  }
  if (window_[at_] != ':') return fail("a colon");
  ++at_;
  expected_ = Expected::kValue;
  return Token::kKey;
}

Token TolerantJson::take_number() {
  std::size_t at = at_ + (window_[at_] == '-' ? 1 : 0);
  bool is_number = is_digit(window_[at]);
  bool is_integer = true;
  const auto skip_digits = [&] {
    is_number = is_number && is_digit(window_[at]);
    while (is_digit(window_[at])) ++at;
  };
  if (window_[at] == '0') {
    ++at;
  } else {
    skip_digits();
  }
  if (window_[at] == '.') {
    is_integer = false;
    ++at;
    skip_digits();
  }
  if (window_[at] == 'e' || window_[at] == 'E') {
    is_integer = false;
    ++at;
    if (window_[at] == '+' || window_[at] == '-') ++at;
    skip_digits();
  }
  if (at == window_.size() && !is_complete_) {
    needs_more_ = true;
    return Token::kCut;
  }
  const char next = window_[at];
  if (!is_number || is_digit(next) || is_letter(next) || next == '.' || next == '+' ||
      next == '-') {
    return fail("a number");
  }
  text_ = std::string_view(window_).substr(at_, at - at_);
  at_ = at;
  return after_value(is_integer ? Token::kInteger : Token::kDecimal);
}

Token TolerantJson::take_word() {
  std::size_t at = at_;
  while (window_[at] == '-' || is_letter(window_[at])) ++at;
  if (at == window_.size() && !is_complete_) {
    needs_more_ = true;
    return Token::kCut;
  }
  text_ = std::string_view(window_).substr(at_, at - at_);
  if (text_ != "true" && text_ != "false" && text_ != "null") {
    text_ = "null";
    ++num_mended_;
  }
  at_ = at;
  return after_value(Token::kWord);
}

// ---- Strings. False: the window ends before the string does, or where that cannot be seen. ----

bool TolerantJson::take_string() {
  std::size_t at = at_ + 1;
  while (kIsPlain[static_cast<unsigned char>(window_[at])]) ++at;
  const char c = window_[at];
  const char next = c == '"' ? window_[at + 1] : '\0';
  if (next != ':' && next != ',' && next != '}' && next != ']') return take_string_slowly(at);
  text_ = std::string_view(window_).substr(at_ + 1, at - at_ - 1);
  at_ = at + 1;
  return true;
}

bool TolerantJson::take_string_slowly(std::size_t from) {
  scratch_.assign(window_, at_ + 1, from - at_ - 1);
  std::size_t at = from;
  while (true) {
    const auto c = static_cast<unsigned char>(window_[at]);
    if (kIsPlain[c]) {
      scratch_ += window_[at++];
    } else if (at == window_.size()) {
      needs_more_ = true;
      return false;
    } else if (c == '\\') {
      if (!take_escape(at)) return false;
    } else if (c == '"') {
      std::size_t behind = at + 1;
      while (behind < at + 1 + kMaxBlanks && is_blank(window_[behind])) ++behind;
      if (behind == window_.size() && !is_complete_) {
        needs_more_ = true;
        return false;
      }
      const char next = window_[behind];
      // A string that is the whole document has nothing behind it.
      if (is_object_.empty() || behind == window_.size() || next == ',' || next == ':' ||
          next == '}' || next == ']') {
        break;
      }
      scratch_ += '"';  // In the middle of a name.
      ++num_mended_;
      ++at;
    } else if (c < 0x20) {
      scratch_ += window_[at++];
      ++num_mended_;
    } else {
      const std::string_view rest = std::string_view(window_).substr(at, 4);
      if (rest.size() < 4 && !is_complete_) {
        needs_more_ = true;
        return false;
      }
      const std::size_t length = utf8_length(rest);
      scratch_ += length == 0 ? kReplacement : rest.substr(0, length);
      num_mended_ += length == 0 ? 1 : 0;
      at += std::max<std::size_t>(length, 1);
    }
  }
  text_ = scratch_;
  at_ = at + 1;
  return true;
}

// `at`: of the backslash; then behind what it begins.
bool TolerantJson::take_escape(std::size_t& at) {
  constexpr std::size_t kLongest = 12;  // Two surrogates.
  const std::string_view rest = std::string_view(window_).substr(at, kLongest);
  if (rest.size() < 2 || (rest[1] == 'u' && rest.size() < kLongest && !is_complete_)) {
    needs_more_ = true;
    return false;
  }
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const std::size_t index = kEscapes.find(rest[1]);
  if (index != std::string_view::npos) {
    scratch_ += kMeanings[index];
    at += 2;
    return true;
  }
  const int unit = rest[1] == 'u' && rest.size() >= 6 ? hex_value(rest.substr(2, 4)) : -1;
  if (unit < 0) {
    scratch_ += '\\';  // A lone backslash, as in a path of Windows.
    ++num_mended_;
    ++at;
    return true;
  }
  at += 6;
  if (!is_high_surrogate(unit) && !is_low_surrogate(unit)) {
    append_utf8(scratch_, unit);
    return true;
  }
  const int second =
      is_high_surrogate(unit) && rest.size() == kLongest && rest[6] == '\\' && rest[7] == 'u'
          ? hex_value(rest.substr(8, 4))
          : -1;
  if (!is_low_surrogate(second)) {  // Half of a pair.
    scratch_ += kReplacement;
    ++num_mended_;
    return true;
  }
  append_utf8(scratch_, 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00));
  at += 6;
  return true;
}

}  // namespace steplens
