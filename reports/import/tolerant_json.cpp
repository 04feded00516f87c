#include "reports/import/tolerant_json.h"

#include <cctype>
#include <cerrno>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <zlib.h>

#include "harness/error.h"
#include "reports/export/utf8.h"

namespace steplens {
namespace {

constexpr std::size_t kBlockBytes = 1 << 18;
// How far behind a quote its meaning is looked for.
constexpr std::size_t kMaxBlanks = 256;
constexpr std::size_t kReadyBytes = 1 << 14;

gzFile gzip(void* file) { return static_cast<gzFile>(file); }

bool is_blank(int c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_number_part(int c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}
bool is_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

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

TolerantJson::~TolerantJson() { ::gzclose(gzip(file_)); }

bool TolerantJson::is_compressed() const { return ::gzdirect(gzip(file_)) == 0; }

// Whether there is more.
bool TolerantJson::read_more() {
  if (is_raw_at_end_) return false;
  raw_.erase(0, raw_begin_);
  raw_begin_ = 0;
  const std::size_t old_size = raw_.size();
  raw_.resize(old_size + kBlockBytes);
  const int count = ::gzread(gzip(file_), raw_.data() + old_size, kBlockBytes);
  raw_.resize(old_size + static_cast<std::size_t>(count < 0 ? 0 : count));
  num_read_bytes_ += count < 0 ? 0 : count;
  // A gzip file that was cut gives what it has, like a plain one.
  is_raw_at_end_ = count <= 0;
  return count > 0;
}

int TolerantJson::raw(std::size_t ahead) {
  while (raw_begin_ + ahead >= raw_.size()) {
    if (!read_more()) return kEnd;
  }
  return static_cast<unsigned char>(raw_[raw_begin_ + ahead]);
}

int TolerantJson::next_after_blanks(std::size_t from) {
  std::size_t ahead = from;
  while (ahead < from + kMaxBlanks && is_blank(raw(ahead))) ++ahead;
  return raw(ahead);
}

void TolerantJson::append_replacement() {
  ready_ += "\xEF\xBF\xBD";
  ++num_mended_;
}

void TolerantJson::refill() {
  ready_.clear();
  ready_begin_ = 0;
  while (ready_.size() < kReadyBytes) {
    const int c = raw();
    if (c == kEnd) return;
    if (is_in_string_) {
      mend_string();
    } else if (c == '"') {
      is_in_string_ = true;
      ready_ += '"';
      take();
    } else if (is_number_part(c) && !(c == '-' && is_letter(raw(1))) && !is_letter(c)) {
      while (is_number_part(raw())) {
        ready_ += static_cast<char>(raw());
        take();
      }
    } else if (is_letter(c) || c == '-') {
      mend_word();
    } else if (c == ',') {
      const int next = next_after_blanks(1);
      if (next == ']' || next == '}') {
        ++num_mended_;
      } else {
        ready_ += ',';
      }
      take();
    } else {
      ready_ += static_cast<char>(c);
      take();
    }
  }
}

// One character of a string.
void TolerantJson::mend_string() {
  const int c = raw();
  if (c == '\\') {
    mend_escape();
    return;
  }
  if (c == '"') {
    const int next = next_after_blanks(1);
    const bool is_last = next == kEnd || next == ',' || next == ':' || next == '}' || next == ']';
    ready_ += is_last ? "\"" : "\\\"";
    is_in_string_ = !is_last;
    num_mended_ += is_last ? 0 : 1;
    take();
    return;
  }
  if (c < 0x20) {
    fmt::format_to(std::back_inserter(ready_), "\\u{:04x}", c);
    ++num_mended_;
    take();
    return;
  }
  if (c < 0x80) {
    ready_ += static_cast<char>(c);
    take();
    return;
  }
  raw(3);  // Reads what the character may need; the file may end before.
  const std::string_view rest = std::string_view(raw_).substr(raw_begin_, 4);
  const std::size_t length = utf8_length(rest);
  if (length == 0) {
    append_replacement();
    take();
  } else {
    ready_ += rest.substr(0, length);
    raw_begin_ += length;
  }
}

void TolerantJson::mend_escape() {
  const int next = raw(1);
  if (next == kEnd) {
    take();
    return;
  }
  const auto hex_digits_at = [&](std::size_t from) {
    int value = 0;
    for (std::size_t i = from; i < from + 4; ++i) {
      const int digit = raw(i);
      if (digit == kEnd || std::isxdigit(digit) == 0) return -1;
      value =
          value * 16 + (std::isdigit(digit) != 0 ? digit - '0' : std::tolower(digit) - 'a' + 10);
    }
    return value;
  };
  if (next == 'u') {
    const int unit = hex_digits_at(2);
    const bool is_high = unit >= 0xD800 && unit < 0xDC00;
    const bool is_low = unit >= 0xDC00 && unit < 0xE000;
    const int second = is_high && raw(6) == '\\' && raw(7) == 'u' ? hex_digits_at(8) : -1;
    const bool is_pair = second >= 0xDC00 && second < 0xE000;
    if (unit >= 0 && !is_low && (!is_high || is_pair)) {
      const std::size_t length = is_pair ? 12 : 6;
      ready_ += std::string_view(raw_).substr(raw_begin_, length);
      raw_begin_ += length;
      return;
    }
    if (unit >= 0) {  // Half of a pair.
      append_replacement();
      raw_begin_ += 6;
      return;
    }
  }
  if (next != 'u' &&
      std::string_view("\"\\/bfnrt").find(static_cast<char>(next)) != std::string_view::npos) {
    ready_ += '\\';
    ready_ += static_cast<char>(next);
    take();
    take();
    return;
  }
  ready_ += "\\\\";  // A lone backslash, as in a path of Windows.
  ++num_mended_;
  take();
}

void TolerantJson::mend_word() {
  std::string word;
  while (raw() == '-' || is_letter(raw())) {
    if (word.size() < 16) word += static_cast<char>(raw());
    take();
  }
  const bool is_json = word == "true" || word == "false" || word == "null";
  ready_ += is_json ? word : "null";
  num_mended_ += is_json ? 0 : 1;
}

}  // namespace steplens
