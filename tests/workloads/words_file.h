#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace steplens {

/// Writes a token file of readable nonsense: words of 1 to 9 letters, documents of 40 to 300 bytes,
/// vocabulary 37. Returns its path.
inline std::filesystem::path write_words_file(const std::filesystem::path& folder) {
  std::mt19937_64 random(5);
  std::vector<std::uint16_t> tokens;
  std::int64_t num_documents = 0;
  while (tokens.size() < 20'000) {
    const std::size_t length = 40 + random() % 260;
    for (std::size_t i = 0; i < length; ++i) {
      tokens.push_back(static_cast<std::uint16_t>(random() % 5 == 0 ? 32 : random() % 26 + 1));
    }
    tokens.push_back(36);  // The document end.
    ++num_documents;
  }
  const std::filesystem::path path = folder / "words.bin";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()),
             static_cast<std::streamsize>(tokens.size() * 2));
  nlohmann::json info = {{"schema_version", 1},
                         {"name", "words"},
                         {"tokenizer", "bytes"},
                         {"dtype", "uint16"},
                         {"vocab_size", 37},
                         {"max_token", 36},
                         {"num_tokens", tokens.size()},
                         {"num_documents", num_documents},
                         {"document_end_token", 36},
                         {"sha256", std::string(64, '0')},
                         {"source", nlohmann::json::object()}};
  std::ofstream(folder / "words.json") << info.dump(2);
  return path;
}

}  // namespace steplens
