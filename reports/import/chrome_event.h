#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace steplens {

/// A string, a number or an array of integers.
struct ChromeValue {
  std::string text;                    // Of a string or a number.
  std::vector<std::int64_t> integers;  // Of an array.
  bool is_number = false;

  std::optional<std::int64_t> integer() const {
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && (at == end || *at == '.')) return number;
    return std::nullopt;
  }
};

/// One event of the format as it was read: members and arguments by key. Reused, so that strings
/// keep their memory.
class ChromeEvent {
 public:
  void clear() {
    num_members_ = 0;
    num_arguments_ = 0;
  }
  ChromeValue& add_member(std::string_view key) { return add(members_, num_members_, key); }
  ChromeValue& add_argument(std::string_view key) { return add(arguments_, num_arguments_, key); }

  std::string_view text(std::string_view key) const { return text_in(members_, num_members_, key); }
  std::string_view argument(std::string_view key) const {
    return text_in(arguments_, num_arguments_, key);
  }
  const ChromeValue* find_argument(std::string_view key) const {
    return find(arguments_, num_arguments_, key);
  }
  std::optional<std::int64_t> integer(std::string_view key) const {
    const ChromeValue* value = find(members_, num_members_, key);
    return value == nullptr ? std::nullopt : value->integer();
  }
  std::int64_t argument_or(std::string_view key, std::int64_t fallback) const {
    const ChromeValue* value = find_argument(key);
    return value == nullptr ? fallback : value->integer().value_or(fallback);
  }
  template <class Visit>
  void for_each_argument(Visit visit) const {
    for (std::size_t i = 0; i < num_arguments_; ++i)
      visit(arguments_[i].first, arguments_[i].second);
  }

 private:
  using Values = std::vector<std::pair<std::string, ChromeValue>>;

  static ChromeValue& add(Values& values, std::size_t& size, std::string_view key) {
    if (size == values.size()) values.emplace_back();
    values[size].first = key;
    ChromeValue& value = values[size++].second;
    value.text.clear();
    value.integers.clear();
    value.is_number = false;
    return value;
  }
  static const ChromeValue* find(const Values& values, std::size_t size, std::string_view key) {
    for (std::size_t i = 0; i < size; ++i) {
      if (values[i].first == key) return &values[i].second;
    }
    return nullptr;
  }
  static std::string_view text_in(const Values& values, std::size_t size, std::string_view key) {
    const ChromeValue* value = find(values, size, key);
    return value == nullptr ? std::string_view() : value->text;
  }

  Values members_;
  Values arguments_;
  std::size_t num_members_ = 0;
  std::size_t num_arguments_ = 0;
};

/// Nanoseconds of a decimal number of microseconds, rounded to the nearest; without going through
/// double unless it has an exponent. False if it is none or out of range.
bool parse_us(std::string_view text, std::int64_t& ns);

}  // namespace steplens
