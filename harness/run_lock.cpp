#include "harness/run_lock.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/error.h"

namespace steplens {

RunLock::RunLock(const std::filesystem::path& folder) : path_(folder / ".lock") {
  // A killed run's child holds the lock too, from fork to exec: a moment later it is free.
  constexpr int kNumTries = 10;
  for (int num_busy = 0;;) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) {
      throw ConfigError(fmt::format("{}: cannot write: {}", folder.string(),
                                    std::generic_category().message(errno)));
    }
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      ::close(fd_);
      if (error == EWOULDBLOCK && ++num_busy < kNumTries) {
        ::usleep(50'000);
        continue;
      }
      throw ConfigError(
          error == EWOULDBLOCK
              ? fmt::format("{}: another steplens is running this bundle", folder.string())
              : fmt::format("{}: cannot lock: {}", path_.string(),
                            std::generic_category().message(error)));
    }
    // The holder before us removes the file as it ends: what we locked may have no name any more.
    struct stat ours{};
    struct stat named{};
    if (::fstat(fd_, &ours) == 0 && ::stat(path_.c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino) {
      return;
    }
    ::close(fd_);
  }
}

RunLock::~RunLock() {
  ::unlink(path_.c_str());
  ::close(fd_);
}

}  // namespace steplens
