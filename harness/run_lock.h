#pragma once

#include <filesystem>

namespace steplens {

/// Holds a bundle for one scheduler. The kernel lets go of it when the process dies, however it
/// dies, so a killed run never leaves a stale lock.
class RunLock {
 public:
  /// Locks `folder`/.lock. ConfigError if another process holds it or the folder is not writable.
  [[nodiscard]] explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();  // Removes the file.
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace steplens
