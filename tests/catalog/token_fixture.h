#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/error.h"
#include "harness/temporary_folder.h"
#include "workloads/catalog/token_file.h"

namespace steplens::testing {

/// A test with an empty folder of its own, removed at its end.
class FolderTest : public ::testing::Test {
 protected:
  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  /// A raw file of tokens, with no JSON.
  template <typename T>
  std::filesystem::path write_tokens(std::string_view name, const std::vector<T>& tokens) const {
    return write(name, std::string_view(reinterpret_cast<const char*>(tokens.data()),
                                        tokens.size() * sizeof(T)));
  }

  /// Writes the JSON of a token file from its tokens.
  template <typename T>
  TokenFileInfo write_info(const std::filesystem::path& path, const std::vector<T>& tokens,
                           std::int64_t vocab_size, std::optional<std::int64_t> end_token) const {
    TokenFileInfo info;
    info.name = "test";
    info.tokenizer = "bytes";
    info.dtype = sizeof(T) == 2 ? TokenType::kUint16 : TokenType::kUint32;
    info.vocab_size = vocab_size;
    info.num_tokens = static_cast<std::int64_t>(tokens.size());
    info.document_end_token = end_token;
    for (const T token : tokens) {
      info.max_token = std::max(info.max_token, static_cast<std::int64_t>(token));
      if (end_token && token == static_cast<T>(*end_token)) ++info.num_documents;
    }
    std::ofstream(info_path(path)) << to_json(info).dump();
    return info;
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

/// The message of the ConfigError that `call` throws; a failed test and empty if it throws none.
template <typename F>
std::string config_error_of(F&& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no ConfigError was thrown";
  return "";
}

}  // namespace steplens::testing
