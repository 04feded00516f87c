#include "profilers/gpu_environment.h"

#include <optional>

namespace steplens {
namespace {

/// Puts readings under their names, and the reasons of those that are absent.
class Environment {
 public:
  template <typename T>
  void add(const char* name, const NvmlReading<T>& reading) {
    if (reading.value) {
      values_[name] = *reading.value;
    } else {
      values_[name] = nullptr;
      absent_reasons_[name] = nvml_reason(reading.status);
    }
  }

  nlohmann::json finish() {
    values_["absent_reasons"] = absent_reasons_;
    return values_;
  }

 private:
  nlohmann::json values_ = nlohmann::json::object();
  nlohmann::json absent_reasons_ = nlohmann::json::object();
};

/// "00000000:1B:00.0" -> "1B:00.0"
std::string without_domain(const std::string& pci_id) {
  const std::size_t colon = pci_id.find(':');
  return colon == std::string::npos ? pci_id : pci_id.substr(colon + 1);
}

}  // namespace

nlohmann::json gpu_environment(const Nvml& nvml, const std::string& gpu_uuid) {
  const std::optional<NvmlGpu> gpu = nvml.find_gpu(gpu_uuid);
  if (!gpu) return nullptr;

  Environment environment;
  environment.add("uuid", gpu->uuid());
  environment.add("name", gpu->name());
  NvmlReading<std::string> pci_id = gpu->pci_id();
  if (pci_id.value) pci_id.value = without_domain(*pci_id.value);
  environment.add("pci_id_suffix", pci_id);
  environment.add("driver_version", nvml.driver_version());
  environment.add("cuda_driver_version", nvml.cuda_driver_version());
  environment.add("memory_bytes", gpu->memory_bytes());
  environment.add("memory_reserved_bytes", gpu->memory_reserved_bytes());
  environment.add("is_ecc_enabled", gpu->is_ecc_enabled());
  environment.add("is_mig_enabled", gpu->is_mig_enabled());
  environment.add("is_persistence_enabled", gpu->is_persistence_enabled());
  // NVML keeps the application clock of the SMs under "graphics".
  environment.add("application_sm_clock_mhz", gpu->application_clock_mhz(NvmlClock::kGraphics));
  environment.add("application_memory_clock_mhz", gpu->application_clock_mhz(NvmlClock::kMemory));
  environment.add("max_sm_clock_mhz", gpu->max_clock_mhz(NvmlClock::kSm));
  environment.add("max_memory_clock_mhz", gpu->max_clock_mhz(NvmlClock::kMemory));
  environment.add("power_limit_watts", gpu->power_limit_watts());
  environment.add("pcie_generation", gpu->pcie_generation());
  environment.add("max_pcie_generation", gpu->max_pcie_generation());
  environment.add("num_pcie_lanes", gpu->num_pcie_lanes());
  environment.add("max_num_pcie_lanes", gpu->max_num_pcie_lanes());
  return environment.finish();
}

}  // namespace steplens
