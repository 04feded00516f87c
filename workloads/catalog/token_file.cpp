#include "workloads/catalog/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/json_field.h"

namespace steplens {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr int kTokenFileSchemaVersion = 1;
constexpr std::int64_t kMaxVocabSize = std::numeric_limits<std::int32_t>::max();

// llm.c's header (dev/data/data_common.py there): 256 int32, of which three are used.
constexpr std::size_t kHeaderBytes = 1024;
constexpr std::int32_t kUint16Magic = 20240520;
constexpr std::int32_t kUint32Magic = 20240801;

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view what) {
  throw ConfigError(fmt::format("{}: {}", path.string(), what));
}

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, int error) {
  fail(path, "cannot read: " + std::error_code(error, std::generic_category()).message());
}

// llm.c writes 1 for GPT-2 and 7 for Llama 3; both versions of the header are alike.
bool is_known_version(std::int32_t magic, std::int32_t version) {
  return version == 1 || (magic == kUint32Magic && version == 7);
}

}  // namespace

std::string_view name_of(TokenType type) {
  return type == TokenType::kUint16 ? "uint16" : "uint32";
}

std::int64_t size_bytes(TokenType type) { return type == TokenType::kUint16 ? 2 : 4; }

json to_json(const TokenFileInfo& info) {
  return {{"schema_version", kTokenFileSchemaVersion},
          {"name", info.name},
          {"tokenizer", info.tokenizer},
          {"dtype", name_of(info.dtype)},
          {"vocab_size", info.vocab_size},
          {"max_token", info.max_token},
          {"num_tokens", info.num_tokens},
          {"num_documents", info.num_documents},
          {"document_end_token",
           info.document_end_token ? json(*info.document_end_token) : json(nullptr)},
          {"sha256", info.sha256},
          {"source", info.source}};
}

TokenFileInfo token_file_info_from_json(const json& source_json, std::string_view source) {
  check_schema_version(source_json, source, kTokenFileSchemaVersion);
  const auto dtype = json_field<std::string>(source_json, source, "dtype");
  if (dtype != "uint16" && dtype != "uint32") {
    throw ConfigError(fmt::format("{}: dtype={}: takes uint16 | uint32", source, dtype));
  }
  const auto end_token = json_field_or<std::int64_t>(source_json, source, "document_end_token", -1);
  TokenFileInfo info{
      .name = json_field<std::string>(source_json, source, "name"),
      .tokenizer = json_field<std::string>(source_json, source, "tokenizer"),
      .dtype = dtype == "uint16" ? TokenType::kUint16 : TokenType::kUint32,
      .vocab_size = json_field<std::int64_t>(source_json, source, "vocab_size"),
      .max_token = json_field<std::int64_t>(source_json, source, "max_token"),
      .num_tokens = json_field<std::int64_t>(source_json, source, "num_tokens"),
      .num_documents = json_field<std::int64_t>(source_json, source, "num_documents"),
      .document_end_token = end_token < 0 ? std::nullopt : std::optional(end_token),
      .sha256 = json_field<std::string>(source_json, source, "sha256"),
      .source = json_field_or<json>(source_json, source, "source", json::object()),
  };
  if (info.max_token < 0 || info.max_token >= info.vocab_size) {
    throw ConfigError(fmt::format("{}: max_token={}: must be from 0 to vocab_size - 1 = {}", source,
                                  info.max_token, info.vocab_size - 1));
  }
  if (info.vocab_size > kMaxVocabSize) {
    throw ConfigError(
        fmt::format("{}: vocab_size={}: at most {}", source, info.vocab_size, kMaxVocabSize));
  }
  return info;
}

std::filesystem::path info_path(const std::filesystem::path& token_path) {
  return std::filesystem::path(token_path).replace_extension(".json");
}

template <typename F>
auto TokenFile::with_tokens(F&& visit) const {
  const auto* first = static_cast<const std::byte*>(mapping_) + header_bytes_;
  const auto count = static_cast<std::size_t>(info_.num_tokens);
  return info_.dtype == TokenType::kUint16
             ? visit(std::span(reinterpret_cast<const std::uint16_t*>(first), count))
             : visit(std::span(reinterpret_cast<const std::uint32_t*>(first), count));
}

TokenFile::TokenFile(const std::filesystem::path& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_with_errno(path, errno);
  struct stat status{};
  const bool has_status = ::fstat(fd, &status) == 0;
  const int error = errno;
  if (has_status && S_ISREG(status.st_mode) && status.st_size > 0) {
    file_bytes_ = static_cast<std::size_t>(status.st_size);
    mapping_ = ::mmap(nullptr, file_bytes_, PROT_READ, MAP_SHARED, fd, 0);
  }
  const int map_error = errno;
  ::close(fd);
  if (!has_status) fail_with_errno(path, error);
  if (!S_ISREG(status.st_mode)) fail(path, "is not a file; a token file (.bin) is needed");
  if (file_bytes_ == 0) fail(path, "is empty; a token file needs at least 2 tokens");
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    fail_with_errno(path, map_error);
  }
  try {
    read_header();
    read_info();
    refuse_constant();
  } catch (...) {
    ::munmap(mapping_, file_bytes_);
    throw;
  }
}

TokenFile::~TokenFile() { ::munmap(mapping_, file_bytes_); }

// Fills dtype, num_tokens and header_bytes_ of a file that has llm.c's header; leaves 0 otherwise.
void TokenFile::read_header() {
  std::array<std::int32_t, 3> header{};
  if (file_bytes_ < sizeof(header)) return;
  std::memcpy(header.data(), mapping_, sizeof(header));
  const auto [magic, version, count] = header;
  if (magic != kUint16Magic && magic != kUint32Magic) return;
  if (!is_known_version(magic, version)) {
    fail(path_, fmt::format("header version={}: takes 1 (or 7 for uint32 tokens)", version));
  }
  info_.dtype = magic == kUint16Magic ? TokenType::kUint16 : TokenType::kUint32;
  info_.num_tokens = count;
  header_bytes_ = kHeaderBytes;
  const auto expected = static_cast<std::int64_t>(kHeaderBytes) + count * size_bytes(info_.dtype);
  if (count < 0 || static_cast<std::int64_t>(file_bytes_) != expected) {
    fail(path_, fmt::format("has {} bytes, but its header says {} tokens, which is {} bytes: it is "
                            "cut short or damaged",
                            file_bytes_, count, expected));
  }
}

void TokenFile::read_info() {
  const std::filesystem::path json_path = info_path(path_);
  if (json_path == path_) fail(path_, "is the JSON of a token file; name the .bin");
  const auto data_bytes = static_cast<std::int64_t>(file_bytes_ - header_bytes_);
  if (std::filesystem::exists(json_path)) {
    const TokenFileInfo info = token_file_info_from_json(read_json(json_path), json_path.string());
    if (header_bytes_ > 0 && info.dtype != info_.dtype) {
      fail(json_path, fmt::format("dtype={}: the header of {} says {}", name_of(info.dtype),
                                  path_.filename().string(), name_of(info_.dtype)));
    }
    info_ = info;
    if (data_bytes != info_.num_tokens * size_bytes(info_.dtype)) {
      fail(path_, fmt::format("holds {} bytes of tokens, but {} says {} tokens of {}, which is {} "
                              "bytes: it is cut short or was replaced; prepare it again",
                              data_bytes, json_path.filename().string(), info_.num_tokens,
                              name_of(info_.dtype), info_.num_tokens * size_bytes(info_.dtype)));
    }
    if (info_.num_tokens < 2) fail(path_, "has fewer than 2 tokens");
    return;
  }
  if (data_bytes % size_bytes(info_.dtype) != 0) {
    fail(path_, fmt::format("has {} bytes, no multiple of {}: it is cut short, or no file of {} "
                            "tokens",
                            data_bytes, size_bytes(info_.dtype), name_of(info_.dtype)));
  }
  info_.num_tokens = data_bytes / size_bytes(info_.dtype);
  if (info_.num_tokens < 2) fail(path_, "has fewer than 2 tokens");
  info_.name = path_.stem().string();
  info_.tokenizer = "unknown";
  info_.num_documents = 1;
  info_.max_token = with_tokens([](auto tokens) {
    return static_cast<std::int64_t>(*std::max_element(tokens.begin(), tokens.end()));
  });
  info_.vocab_size = info_.max_token + 1;
  if (info_.vocab_size > kMaxVocabSize) {
    fail(path_, fmt::format("has token {}: no vocabulary is that large", info_.max_token));
  }
}

// Stops at the second distinct token, so it costs nothing on text.
void TokenFile::refuse_constant() const {
  const std::int64_t end_token = info_.document_end_token.value_or(-1);
  const bool is_constant = with_tokens([&](auto tokens) {
    const auto is_text = [&](auto token) { return static_cast<std::int64_t>(token) != end_token; };
    const auto first = std::find_if(tokens.begin(), tokens.end(), is_text);
    return std::none_of(first, tokens.end(),
                        [&](auto token) { return is_text(token) && token != *first; });
  });
  if (is_constant) {
    fail(path_,
         "all tokens are equal: zeros or constants are no text, so nothing is measured on "
         "them");
  }
}

std::int32_t TokenFile::at(std::int64_t index) const {
  std::int32_t token = 0;
  copy(index, std::span(&token, 1));
  return token;
}

void TokenFile::copy(std::int64_t first, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  SL_CHECK(first >= 0 && first + count <= info_.num_tokens);
  with_tokens([&](auto tokens) {
    const auto part = tokens.subspan(static_cast<std::size_t>(first), out.size());
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      largest = std::max(largest, static_cast<std::int64_t>(part[i]));
      out[i] = static_cast<std::int32_t>(part[i]);
    }
    // An index outside the embedding would end the process with a device assertion.
    if (largest > info_.max_token) {
      fail(path_, fmt::format("has token {}, but max_token={} in {}: it was changed; prepare it "
                              "again",
                              largest, info_.max_token, info_path(path_).filename().string()));
    }
  });
}

std::span<const std::int64_t> TokenFile::document_ends() const {
  std::call_once(document_ends_once_, [this] {
    if (!info_.document_end_token) return;
    with_tokens([this](auto tokens) {
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (static_cast<std::int64_t>(tokens[i]) == *info_.document_end_token) {
          document_ends_.push_back(static_cast<std::int64_t>(i));
        }
      }
    });
  });
  return document_ends_;
}

void TokenFile::check_fits(const RunConfig& config) const {
  if (info_.max_token >= config.shape.vocab_size) {
    throw ConfigError(fmt::format("vocab_size={}: {} has token {}, so the model needs at least {}",
                                  config.shape.vocab_size, path_.string(), info_.max_token,
                                  info_.max_token + 1));
  }
  if (info_.num_tokens < config.sequence_length + 1) {
    throw ConfigError(fmt::format(
        "sequence_length={}: {} has {} tokens, so it can be at most {} (one more token is the last "
        "target)",
        config.sequence_length, path_.string(), info_.num_tokens, info_.num_tokens - 1));
  }
}

}  // namespace steplens
