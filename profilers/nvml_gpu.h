#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/machine.h"
#include "profilers/nvml_abi.h"
#include "profilers/nvml_reading.h"

namespace steplens {

/// One GPU, or one MIG instance, as NVML sees it. A handle: cheap to copy, thread-safe; the table
/// must outlive it.
class NvmlGpu {
 public:
  NvmlGpu(const NvmlApi& api, NvmlDevice device) : api_(&api), device_(device) {}

  NvmlReading<std::string> uuid() const;
  NvmlReading<std::string> name() const;
  NvmlReading<std::string> pci_id() const;
  /// Texts are empty and memory is 0 where NVML has no answer.
  GpuInfo info() const;

  NvmlReading<double> clock_mhz(NvmlClock clock) const;
  NvmlReading<double> max_clock_mhz(NvmlClock clock) const;
  NvmlReading<double> application_clock_mhz(NvmlClock clock) const;
  NvmlReading<double> temperature_celsius() const;
  NvmlReading<double> headroom_celsius() const;  // To the nearest slowdown threshold (T.Limit).
  NvmlReading<double> power_watts() const;
  NvmlReading<double> power_limit_watts() const;  // The one in force.
  NvmlReading<double> energy_j() const;           // Since the driver was loaded.
  NvmlReading<NvmlUtilization> utilization() const;
  NvmlReading<std::uint64_t> clock_event_reasons() const;

  NvmlReading<std::int64_t> memory_bytes() const;
  NvmlReading<std::int64_t> memory_used_bytes() const;      // Without what the driver reserves.
  NvmlReading<std::int64_t> memory_reserved_bytes() const;  // By driver and firmware.

  NvmlReading<bool> is_ecc_enabled() const;
  NvmlReading<bool> is_mig_enabled() const;
  NvmlReading<bool> is_persistence_enabled() const;
  NvmlReading<std::int64_t> pcie_generation() const;
  NvmlReading<std::int64_t> max_pcie_generation() const;
  NvmlReading<std::int64_t> num_pcie_lanes() const;
  NvmlReading<std::int64_t> max_num_pcie_lanes() const;

  NvmlReading<std::vector<NvmlProcess>> compute_processes() const;
  NvmlReading<std::vector<NvmlProcess>> graphics_processes() const;

 private:
  const NvmlApi* api_;
  NvmlDevice device_;
};

}  // namespace steplens
