#include "profilers/nvml_library.h"

#include <dlfcn.h>

namespace steplens {
namespace {

constexpr const char* kLibrary = "libnvidia-ml.so.1";

}  // namespace

NvmlApi resolve_nvml(const std::function<void*(const char*)>& symbol) {
  NvmlApi api;
  const auto resolve = [&symbol](auto& function, const char* name) {
    // POSIX lets a pointer from dlsym be used as a function's.
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol(name));
  };
  resolve(api.init, "nvmlInit_v2");
  resolve(api.driver_version, "nvmlSystemGetDriverVersion");
  resolve(api.cuda_driver_version, "nvmlSystemGetCudaDriverVersion_v2");
  resolve(api.device_count, "nvmlDeviceGetCount_v2");
  resolve(api.handle_by_index, "nvmlDeviceGetHandleByIndex_v2");
  resolve(api.handle_by_uuid, "nvmlDeviceGetHandleByUUID");
  resolve(api.handle_by_pci_id, "nvmlDeviceGetHandleByPciBusId_v2");
  resolve(api.uuid, "nvmlDeviceGetUUID");
  resolve(api.name, "nvmlDeviceGetName");
  resolve(api.pci_info, "nvmlDeviceGetPciInfo_v3");
  resolve(api.memory_info, "nvmlDeviceGetMemoryInfo_v2");
  resolve(api.clock, "nvmlDeviceGetClockInfo");
  resolve(api.max_clock, "nvmlDeviceGetMaxClockInfo");
  resolve(api.application_clock, "nvmlDeviceGetApplicationsClock");
  resolve(api.temperature, "nvmlDeviceGetTemperatureV");
  resolve(api.temperature_unversioned, "nvmlDeviceGetTemperature");
  resolve(api.margin_temperature, "nvmlDeviceGetMarginTemperature");
  resolve(api.power_milliwatts, "nvmlDeviceGetPowerUsage");
  resolve(api.power_limit_milliwatts, "nvmlDeviceGetEnforcedPowerLimit");
  resolve(api.energy_millijoules, "nvmlDeviceGetTotalEnergyConsumption");
  resolve(api.utilization, "nvmlDeviceGetUtilizationRates");
  resolve(api.clock_event_reasons, "nvmlDeviceGetCurrentClocksEventReasons");
  if (api.clock_event_reasons == nullptr) {
    resolve(api.clock_event_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  }
  resolve(api.ecc_mode, "nvmlDeviceGetEccMode");
  resolve(api.mig_mode, "nvmlDeviceGetMigMode");
  resolve(api.persistence_mode, "nvmlDeviceGetPersistenceMode");
  resolve(api.pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
  resolve(api.max_pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration");
  resolve(api.num_pcie_lanes, "nvmlDeviceGetCurrPcieLinkWidth");
  resolve(api.max_num_pcie_lanes, "nvmlDeviceGetMaxPcieLinkWidth");
  resolve(api.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  resolve(api.graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses_v3");
  return api;
}

std::string why_no_nvml(const std::string& dlopen_error) {
  if (dlopen_error.find("No such file") != std::string::npos) {
    return std::string(kLibrary) + " not found: no NVIDIA driver";
  }
  return std::string(kLibrary) + " cannot be loaded: " + dlopen_error;
}

std::variant<NvmlApi, std::string> load_nvml() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    return why_no_nvml(error != nullptr ? error : "unknown error");
  }
  return resolve_nvml([library](const char* name) { return dlsym(library, name); });
}

}  // namespace steplens
