#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace steplens {

/// A name beside `path` under which a file is made before it is whole. Goes away with the file
/// unless `publish` was called.
class TemporaryFile {
 public:
  [[nodiscard]] explicit TemporaryFile(std::filesystem::path path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& name() const { return name_; }

  /// Makes the file durable and gives it its final path. ConfigError names path and cause.
  void publish();

 private:
  std::filesystem::path path_;
  std::filesystem::path name_;
  bool is_published_ = false;
};

/// Text that goes to a file piece by piece; `path` holds its old content until `publish`. A path
/// that ends in .gz is compressed. Errors are ConfigErrors that name path and cause.
class OutputFile {
 public:
  [[nodiscard]] explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);
  void publish();

 private:
  class Stream;
  TemporaryFile file_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace steplens
