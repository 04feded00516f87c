#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profilers/nvml_abi.h"
#include "profilers/nvml_gpu.h"
#include "profilers/nvml_reading.h"

namespace steplens {

/// The driver's management library, initialized; or the reason why there is none, and then it has
/// no GPUs. Thread-safe. Handles that it gave stay valid as long as it lives.
class Nvml {
 public:
  /// The one of this machine: loaded at the first call and kept until the process ends, because
  /// initializing opens every device; the driver cleans up after a process by itself.
  static const Nvml& system();

  /// Initializes the library behind `api`.
  explicit Nvml(const NvmlApi& api);
  /// No library.
  explicit Nvml(std::string why_missing);

  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Empty if the library is usable.
  const std::string& why_missing() const { return why_missing_; }

  NvmlReading<std::string> driver_version() const;       // "580.159.04"
  NvmlReading<std::string> cuda_driver_version() const;  // "13.0"

  struct Gpus {
    std::vector<NvmlGpu> gpus;
    int num_unreadable = 0;  // The driver counts them but gives no handle: lost, or no permission.
    std::string why_none;    // Empty if there is one.
  };
  /// All physical GPUs.
  Gpus gpus() const;

  /// The GPU or MIG instance with that UUID ("GPU-...", "MIG-...") or PCI id ("00000000:1B:00.0").
  std::optional<NvmlGpu> find_gpu(const std::string& uuid_or_pci_id) const;

 private:
  NvmlApi api_;
  std::string why_missing_;
};

}  // namespace steplens
