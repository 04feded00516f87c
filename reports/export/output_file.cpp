#include "reports/export/output_file.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include "harness/error.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

// Fewer, larger writes; beyond this they get no faster.
constexpr std::size_t kBufferBytes = 1 << 20;

[[noreturn]] void fail(const fs::path& path, int error) {
  throw ConfigError(fmt::format("{}: cannot write: {}", path.string(),
                                std::error_code(error, std::generic_category()).message()));
}

// Closes nothing but its own descriptor; false: errno says why.
bool sync(const fs::path& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_synced = ::fsync(fd) == 0 || errno == EINVAL;  // Some folders cannot be synced.
  const int error = errno;
  ::close(fd);
  errno = error;
  return is_synced;
}

}  // namespace

TemporaryFile::TemporaryFile(fs::path path)
    : path_(std::move(path)),
      name_(path_.string() + fmt::format(".tmp-{}", ::getpid())) {}

TemporaryFile::~TemporaryFile() {
  if (!is_published_) ::unlink(name_.c_str());
}

void TemporaryFile::publish() {
  if (!sync(name_, O_RDONLY)) fail(path_, errno);
  if (::rename(name_.c_str(), path_.c_str()) != 0) fail(path_, errno);
  is_published_ = true;
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  if (!sync(folder, O_RDONLY | O_DIRECTORY)) fail(path_, errno);
}

class OutputFile::Stream {
 public:
  Stream(fs::path path, const fs::path& name, bool is_compressed) : path_(std::move(path)) {
    std::error_code error;
    if (fs::is_directory(path_, error)) fail(path_, EISDIR);
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) fail(path_, errno);
    if (is_compressed) {
      gzip_ = ::gzdopen(fd_, "wb6");
      if (gzip_ == nullptr) fail(path_, ENOMEM);
      ::gzbuffer(gzip_, kBufferBytes);
    }
    buffer_.reserve(kBufferBytes);
  }
  ~Stream() {
    if (gzip_ != nullptr) {
      ::gzclose(gzip_);
    } else if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void write(std::string_view text) {
    if (buffer_.size() + text.size() > kBufferBytes) flush();
    if (text.size() > kBufferBytes) {
      put(text);
    } else {
      buffer_ += text;
    }
  }

  void close() {
    flush();
    if (gzip_ != nullptr) {
      errno = 0;
      if (::gzclose(std::exchange(gzip_, nullptr)) != Z_OK) fail(path_, errno != 0 ? errno : EIO);
    } else if (::close(std::exchange(fd_, -1)) != 0) {
      fail(path_, errno);
    }
    fd_ = -1;
  }

 private:
  void flush() {
    put(buffer_);
    buffer_.clear();
  }

  void put(std::string_view text) {
    while (!text.empty()) {
      errno = 0;
      const std::size_t piece = std::min<std::size_t>(text.size(), 1U << 30);
      const ssize_t count = gzip_ != nullptr
                                ? ::gzwrite(gzip_, text.data(), static_cast<unsigned>(piece))
                                : ::write(fd_, text.data(), piece);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail(path_, errno != 0 ? errno : EIO);
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  fs::path path_;
  int fd_ = -1;
  gzFile gzip_ = nullptr;
  std::string buffer_;
};

OutputFile::OutputFile(const fs::path& path)
    : file_(path),
      stream_(std::make_unique<Stream>(path, file_.name(), path.extension() == ".gz")) {}

OutputFile::~OutputFile() = default;

void OutputFile::write(std::string_view text) { stream_->write(text); }

void OutputFile::publish() {
  stream_->close();
  file_.publish();
}

}  // namespace steplens
