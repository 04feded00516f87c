#include "harness/files.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <unistd.h>

#include "harness/error.h"
#include "harness/json_text.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

// Closes on every path out; `release` hands the descriptor to a close whose result matters.
class FileDescriptor {
 public:
  [[nodiscard]] explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string cause(int error) { return std::error_code(error, std::generic_category()).message(); }

[[noreturn]] void fail(const fs::path& path, std::string_view what, int error) {
  throw ConfigError(fmt::format("{}: {}: {}", path.string(), what, cause(error)));
}

void sync_folder(const fs::path& folder) {
  const FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems refuse fsync on a folder (EINVAL): there the rename is as durable as it gets.
  if (fd.get() >= 0 && ::fsync(fd.get()) != 0 && errno != EINVAL) {
    fail(folder, "cannot sync folder", errno);
  }
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    SL_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void update(std::string_view bytes) {
    SL_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    SL_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1);
    std::string text;
    for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest.at(i));
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

void write_file_atomically(const fs::path& path, std::string_view content) {
  const fs::path temporary = path.string() + fmt::format(".tmp-{}", ::getpid());
  const auto abandon = [&](std::string_view what, int error) {
    ::unlink(temporary.c_str());
    fail(path, what, error);
  };
  FileDescriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (fd.get() < 0) fail(path, "cannot write", errno);
  std::size_t written = 0;
  while (written < content.size()) {
    const ssize_t count = ::write(fd.get(), content.data() + written, content.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) abandon("cannot write", errno);
    written += static_cast<std::size_t>(count);
  }
  if (::fsync(fd.get()) != 0) abandon("cannot write", errno);
  if (::close(fd.release()) != 0) abandon("cannot write", errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) abandon("cannot rename into place", errno);
  sync_folder(parent_of(path));
}

void write_json_atomically(const fs::path& path, const nlohmann::json& json) {
  write_file_atomically(path, json_text(json));
}

void publish_folder(const fs::path& from, const fs::path& to) {
  if (fs::exists(to)) throw ConfigError(fmt::format("{}: already exists", to.string()));
  sync_folder(from);
  if (::rename(from.c_str(), to.c_str()) != 0) fail(to, "cannot rename into place", errno);
  sync_folder(parent_of(to));
}

std::string read_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) fail(path, "cannot read", EISDIR);
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(path, "cannot read", errno != 0 ? errno : ENOENT);
  std::string content((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (stream.bad()) fail(path, "cannot read", EIO);
  return content;
}

nlohmann::json read_json(const fs::path& path) {
  const std::string text = read_file(path);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw ConfigError(fmt::format("{}: damaged JSON at byte {} of {}: {}", path.string(),
                                  error.byte, text.size(), error.what()));
  }
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string sha256_file_hex(const fs::path& path) {
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(path, "cannot read", errno != 0 ? errno : ENOENT);
  Sha256 hash;
  std::string buffer(1 << 20, '\0');
  while (stream) {
    stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hash.update(std::string_view(buffer.data(), static_cast<std::size_t>(stream.gcount())));
  }
  if (stream.bad()) fail(path, "cannot read", EIO);
  return hash.hex();
}

std::string folder_name_of(std::string_view text) {
  std::string name(text);
  for (char& c : name) {
    const bool is_plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                          (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!is_plain) c = '-';
  }
  return name;
}

}  // namespace steplens
