#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace steplens {

/// One GPU as the driver names it. Devices are found by UUID or PCI id, never by index.
struct GpuInfo {
  std::string uuid;  // "GPU-…".
  std::string name;  // "NVIDIA H200".
  std::string pci_id;
  std::int64_t memory_bytes = 0;
};

/// A process of somebody else on the GPU.
struct ForeignProcess {
  std::int64_t pid = 0;
  std::optional<std::int64_t> memory_bytes;
};

/// What the scheduler asks about the machine between two blocks. Implemented in profilers/ by NVML
/// and /proc; tests fill it by hand. Not thread-safe.
class Machine {
 public:
  virtual ~Machine() = default;

  /// Empty without a GPU or driver; then `why_no_gpu` says why.
  virtual std::vector<GpuInfo> gpus() = 0;
  virtual std::string why_no_gpu() = 0;

  virtual std::string cpu_model() = 0;

  /// Temperature of the GPU, or absent with no sensor.
  virtual std::optional<double> temperature_celsius(const std::string& gpu_uuid) = 0;

  /// Degrees left before the GPU slows down by itself, or absent.
  virtual std::optional<double> headroom_celsius(const std::string& gpu_uuid) = 0;

  /// Compute processes on that GPU other than this process and its children.
  virtual std::vector<ForeignProcess> foreign_processes(const std::string& gpu_uuid) = 0;

  /// 1-minute load average of the host.
  virtual double load_average() = 0;

  /// Driver, clocks policy, ECC, MIG, persistence, kernel, CPU, memory, governor ...: goes into the
  /// manifest. No host name, no user name, no paths.
  virtual nlohmann::json environment(const std::string& gpu_uuid) = 0;
};

/// Collects curves while a block measures; `stop` returns the object that becomes block.json's
/// `samples`. Implemented in profilers/.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual void start() = 0;
  virtual nlohmann::json stop() = 0;
};

}  // namespace steplens
