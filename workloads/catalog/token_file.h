#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/run_config.h"

namespace steplens {

/// How one token is stored. Always little-endian.
enum class TokenType { kUint16, kUint32 };
std::string_view name_of(TokenType type);  // "uint16", "uint32"
std::int64_t size_bytes(TokenType type);

/// What the JSON beside a token file (`x.bin` -> `x.json`) says. JSON keys are the member names.
struct TokenFileInfo {
  std::string name;       // Of the corpus, such as "torch-python".
  std::string tokenizer;  // "bytes" or "bpe"; "unknown" with no JSON.
  TokenType dtype = TokenType::kUint16;
  std::int64_t vocab_size = 0;     // Of the tokenizer; a model's may be larger, never smaller.
  std::int64_t max_token = 0;      // Largest token in the file.
  std::int64_t num_tokens = 0;     // Document ends included.
  std::int64_t num_documents = 0;  // 1 with no `document_end_token`.
  std::optional<std::int64_t> document_end_token;    // Closes each document, stands inside it.
  std::string sha256;                                // Of the .bin; empty with no JSON.
  nlohmann::json source = nlohmann::json::object();  // Where the text came from: counts, no paths.
};
nlohmann::json to_json(const TokenFileInfo& info);

/// ConfigError names `source` (the file) and the field that is missing, wrong or newer.
TokenFileInfo token_file_info_from_json(const nlohmann::json& json, std::string_view source);

/// The JSON that belongs to a token file: the same name with the ending .json.
std::filesystem::path info_path(const std::filesystem::path& token_path);

/// A stream of tokens of real text in a file, mapped into memory.
///
/// Formats: raw little-endian uint16 or uint32 as nanoGPT writes them, and llm.c's files (a header
/// of 256 int32: magic 20240520 for uint16 or 20240801 for uint32, version, number of tokens). With
/// no JSON beside it a raw file is taken as uint16 and one document, and is scanned once.
///
/// Thread-safe once constructed. Neither copied nor moved: batchers keep a reference.
class TokenFile {
 public:
  /// ConfigError names the path and what is wrong: missing, empty, cut short, longer or shorter
  /// than its JSON says, a token beyond its own vocabulary, or nothing but one repeated token
  /// (zeros are no text).
  explicit TokenFile(const std::filesystem::path& path);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const TokenFileInfo& info() const { return info_; }
  std::int64_t num_tokens() const { return info_.num_tokens; }

  std::int32_t at(std::int64_t index) const;

  /// Copies tokens [first, first + out.size()), which must lie inside the file. ConfigError for a
  /// token above `max_token`: the file was changed after its JSON was written.
  void copy(std::int64_t first, std::span<std::int32_t> out) const;

  /// Indices of the document ends, ascending; empty if the file has no `document_end_token`. Found
  /// at the first call.
  std::span<const std::int64_t> document_ends() const;

  /// ConfigError if a model of `config` cannot train on this file: a token that its vocabulary
  /// lacks, or fewer than sequence_length + 1 tokens.
  void check_fits(const RunConfig& config) const;

 private:
  template <typename F>
  auto with_tokens(F&& visit) const;  // Calls it with a span of uint16_t or uint32_t.
  void read_header();
  void read_info();
  void refuse_constant() const;

  std::filesystem::path path_;
  TokenFileInfo info_;
  void* mapping_ = nullptr;
  std::size_t file_bytes_ = 0;
  std::size_t header_bytes_ = 0;
  mutable std::once_flag document_ends_once_;
  mutable std::vector<std::int64_t> document_ends_;
};

}  // namespace steplens
