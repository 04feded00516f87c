// Any bytes given to import_chrome_text end in a trace, whose rows refer to rows that are there, or
// in a ConfigError. And what a strict parser accepts is read without mending anything, into the
// same values. scripts/fuzz.sh builds and runs it.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/check_trace.h"
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "reports/import/chrome_import.h"
#include "reports/import/tolerant_json.h"

namespace steplens {
namespace {

using nlohmann::json;

// The same document, as a list of what it holds in order.
using Values = std::vector<std::pair<TolerantJson::Token, std::string>>;

// What nlohmann's parser finds.
class Listing : public nlohmann::json_sax<json> {
 public:
  Values values;

  bool null() override { return add(Token::kWord, "null"); }
  bool boolean(bool value) override { return add(Token::kWord, value ? "true" : "false"); }
  bool number_integer(number_integer_t) override { return add(Token::kInteger, ""); }
  bool number_unsigned(number_unsigned_t) override { return add(Token::kInteger, ""); }
  // An integer beyond 64 bits is one here too.
  bool number_float(number_float_t, const string_t& text) override {
    const bool is_integer = text.find_first_of(".eE") == std::string::npos;
    return add(is_integer ? Token::kInteger : Token::kDecimal, "");
  }
  bool string(string_t& text) override { return add(Token::kString, text); }
  bool binary(binary_t&) override { return true; }
  bool key(string_t& text) override { return add(Token::kKey, text); }
  bool start_object(std::size_t) override { return add(Token::kBeginObject, ""); }
  bool end_object() override { return add(Token::kEndObject, ""); }
  bool start_array(std::size_t) override { return add(Token::kBeginArray, ""); }
  bool end_array() override { return add(Token::kEndArray, ""); }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  using Token = TolerantJson::Token;
  bool add(Token token, std::string text) {
    values.emplace_back(token, std::move(text));
    return true;
  }
};

void check_against_strict_parser(std::string_view text) {
  Listing strict;
  if (!json::sax_parse(text.begin(), text.end(), &strict)) return;
  TolerantJson source(text);
  Values values;
  using Token = TolerantJson::Token;
  Token token = source.next();
  for (; token < Token::kEnd; token = source.next()) {
    const bool has_text = token == Token::kKey || token == Token::kString || token == Token::kWord;
    values.emplace_back(token, has_text ? std::string(source.text()) : std::string());
  }
  require(token == Token::kEnd, "valid JSON was refused");
  require(source.num_mended() == 0, "valid JSON was mended");
  require(values == strict.values, "valid JSON was read as something else");
}

}  // namespace
}  // namespace steplens

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace steplens;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_against_strict_parser(text);
  try {
    check_references(import_chrome_text(text, "fuzz"));
  } catch (const ConfigError&) {
  }
  return 0;
}
