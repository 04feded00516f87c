#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "workloads/catalog/token_file.h"

namespace steplens {

/// Tokens of the tokenizer "bytes": the byte's value, and one more that closes each document.
inline constexpr std::int64_t kByteDocumentEnd = 256;
inline constexpr std::int64_t kByteVocabSize = 257;

struct PrepareProgress {
  std::int64_t num_files_done = 0;
  std::int64_t num_files = 0;  // That match the patterns; binary ones are found out on the way.
  std::int64_t num_text_bytes = 0;
};

struct PrepareOptions {
  std::vector<std::filesystem::path> inputs;  // Files, and folders that are walked whole.
  std::vector<std::string>
      patterns;                     // Globs of file names, such as "*.py"; empty takes every file.
  std::filesystem::path output;     // The .bin; its JSON lands beside it.
  std::string name;                 // Of the corpus, in the JSON and in reports.
  std::string tokenizer = "bytes";  // "bytes" or "bpe".

  // For "bpe" only: scripts/prepare_bpe.py does the work, with the `tokenizers` library.
  std::int64_t vocab_size = 50304;
  std::filesystem::path python = "python3";  // One that can import `tokenizers`.
  std::filesystem::path bpe_script;

  std::function<void(const PrepareProgress&)> on_progress;  // After each file; "bytes" only.
};

struct PreparedData {
  TokenFileInfo info;
  std::int64_t num_files = 0;         // Documents: one a file.
  std::int64_t num_binary_files = 0;  // Skipped: they hold a NUL byte.
  std::int64_t num_empty_files = 0;   // Skipped.
  std::int64_t num_text_bytes = 0;
};

/// Turns real text into a token file and its JSON: one document a file, closed by the document end.
///
/// Files come in the order of `inputs`, within a folder by the bytes of their relative path, so the
/// same text gives the same file everywhere. Links to files are followed, links to folders are not.
/// Streams: memory does not grow with the corpus. The .bin appears whole or not at all, its JSON
/// after it. ConfigError names what is wrong: input missing, no matching text, disk full.
PreparedData prepare_data(const PrepareOptions& options);

/// The default corpus, which every installation has: the Python sources of the LibTorch wheel in
/// that site-packages folder, as bytes. ConfigError if it has no torch/.
PrepareOptions torch_python_corpus(const std::filesystem::path& site_packages,
                                   const std::filesystem::path& output);

}  // namespace steplens
