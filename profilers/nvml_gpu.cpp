#include "profilers/nvml_gpu.h"

#include <array>

namespace steplens {
namespace {

double to_double(unsigned int value) { return value; }
double from_milli(unsigned int value) { return value / 1e3; }
std::int64_t to_int64(unsigned int value) { return value; }

template <std::size_t kSize>
NvmlReading<std::string> read_text(NvmlApi::ReadText function, NvmlDevice device) {
  if (function == nullptr) return {.status = NvmlStatus::kFunctionNotFound};
  std::array<char, kSize> text{};
  const NvmlStatus status = function(device, text.data(), kSize - 1);
  if (status != NvmlStatus::kSuccess) return {.status = status};
  return {.value = std::string(text.data())};
}

// The pending mode, after the next reset, is of no interest here.
NvmlReading<bool> read_current_mode(NvmlApi::ReadTwoUints function, NvmlDevice device,
                                    unsigned int enabled) {
  if (function == nullptr) return {.status = NvmlStatus::kFunctionNotFound};
  unsigned int current = 0;
  unsigned int pending = 0;
  const NvmlStatus status = function(device, &current, &pending);
  if (status != NvmlStatus::kSuccess) return {.status = status};
  return {.value = current == enabled};
}

NvmlReading<std::int64_t> read_memory(const NvmlApi& api, NvmlDevice device,
                                      std::uint64_t NvmlMemory::* member) {
  if (api.memory_info == nullptr) return {.status = NvmlStatus::kFunctionNotFound};
  NvmlMemory memory{.version = nvml_struct_version<NvmlMemory>(2)};
  const NvmlStatus status = api.memory_info(device, &memory);
  if (status != NvmlStatus::kSuccess) return {.status = status};
  return {.value = static_cast<std::int64_t>(memory.*member)};
}

NvmlReading<std::vector<NvmlProcess>> read_processes(NvmlApi::ReadProcesses function,
                                                     NvmlDevice device) {
  if (function == nullptr) return {.status = NvmlStatus::kFunctionNotFound};
  std::vector<NvmlProcess> processes;
  // NVML says how many rows there are; between two calls processes may come: hence spare rows, and
  // another try.
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto num_processes = static_cast<unsigned int>(processes.size());
    const NvmlStatus status =
        function(device, &num_processes, processes.empty() ? nullptr : processes.data());
    if (status == NvmlStatus::kSuccess) {
      processes.resize(num_processes);
      return {.value = std::move(processes)};
    }
    if (status != NvmlStatus::kInsufficientSize) return {.status = status};
    processes.resize(std::size_t{num_processes} + 8);
  }
  return {.status = NvmlStatus::kInsufficientSize};
}

}  // namespace

NvmlReading<std::string> NvmlGpu::uuid() const {
  return read_text<kNvmlUuidSize>(api_->uuid, device_);
}

NvmlReading<std::string> NvmlGpu::name() const {
  return read_text<kNvmlNameSize>(api_->name, device_);
}

NvmlReading<std::string> NvmlGpu::pci_id() const {
  return read_nvml<NvmlPciInfo>(
      api_->pci_info, [](const NvmlPciInfo& info) { return std::string(info.bus_id); }, device_);
}

GpuInfo NvmlGpu::info() const {
  return {.uuid = uuid().value.value_or(""),
          .name = name().value.value_or(""),
          .pci_id = pci_id().value.value_or(""),
          .memory_bytes = memory_bytes().value.value_or(0)};
}

NvmlReading<double> NvmlGpu::clock_mhz(NvmlClock clock) const {
  return read_nvml<unsigned int>(api_->clock, to_double, device_, clock);
}

NvmlReading<double> NvmlGpu::max_clock_mhz(NvmlClock clock) const {
  return read_nvml<unsigned int>(api_->max_clock, to_double, device_, clock);
}

NvmlReading<double> NvmlGpu::application_clock_mhz(NvmlClock clock) const {
  return read_nvml<unsigned int>(api_->application_clock, to_double, device_, clock);
}

NvmlReading<double> NvmlGpu::temperature_celsius() const {
  if (api_->temperature != nullptr) {
    NvmlTemperature temperature{.version = nvml_struct_version<NvmlTemperature>(1),
                                .sensor_type = kNvmlTemperatureGpu};
    const NvmlStatus status = api_->temperature(device_, &temperature);
    if (status == NvmlStatus::kSuccess) {
      return {.value = static_cast<double>(temperature.temperature_celsius)};
    }
    if (is_nvml_error(status)) return {.status = status};
  }
  return read_nvml<unsigned int>(api_->temperature_unversioned, to_double, device_,
                                 kNvmlTemperatureGpu);
}

NvmlReading<double> NvmlGpu::headroom_celsius() const {
  if (api_->margin_temperature == nullptr) return {.status = NvmlStatus::kFunctionNotFound};
  NvmlMarginTemperature margin{.version = nvml_struct_version<NvmlMarginTemperature>(1)};
  const NvmlStatus status = api_->margin_temperature(device_, &margin);
  if (status != NvmlStatus::kSuccess) return {.status = status};
  return {.value = static_cast<double>(margin.margin_celsius)};
}

NvmlReading<double> NvmlGpu::power_watts() const {
  return read_nvml<unsigned int>(api_->power_milliwatts, from_milli, device_);
}

NvmlReading<double> NvmlGpu::power_limit_watts() const {
  return read_nvml<unsigned int>(api_->power_limit_milliwatts, from_milli, device_);
}

NvmlReading<double> NvmlGpu::energy_j() const {
  return read_nvml<unsigned long long>(
      api_->energy_millijoules,
      [](unsigned long long millijoules) { return static_cast<double>(millijoules) / 1e3; },
      device_);
}

NvmlReading<NvmlUtilization> NvmlGpu::utilization() const {
  return read_nvml<NvmlUtilization>(
      api_->utilization, [](const NvmlUtilization& utilization) { return utilization; }, device_);
}

NvmlReading<std::uint64_t> NvmlGpu::clock_event_reasons() const {
  return read_nvml<unsigned long long>(
      api_->clock_event_reasons, [](unsigned long long bits) { return std::uint64_t{bits}; },
      device_);
}

NvmlReading<std::int64_t> NvmlGpu::memory_bytes() const {
  return read_memory(*api_, device_, &NvmlMemory::total_bytes);
}

NvmlReading<std::int64_t> NvmlGpu::memory_used_bytes() const {
  return read_memory(*api_, device_, &NvmlMemory::used_bytes);
}

NvmlReading<std::int64_t> NvmlGpu::memory_reserved_bytes() const {
  return read_memory(*api_, device_, &NvmlMemory::reserved_bytes);
}

NvmlReading<bool> NvmlGpu::is_ecc_enabled() const {
  return read_current_mode(api_->ecc_mode, device_, kNvmlFeatureEnabled);
}

NvmlReading<bool> NvmlGpu::is_mig_enabled() const {
  return read_current_mode(api_->mig_mode, device_, kNvmlMigEnabled);
}

NvmlReading<bool> NvmlGpu::is_persistence_enabled() const {
  return read_nvml<unsigned int>(
      api_->persistence_mode, [](unsigned int mode) { return mode == kNvmlFeatureEnabled; },
      device_);
}

NvmlReading<std::int64_t> NvmlGpu::pcie_generation() const {
  return read_nvml<unsigned int>(api_->pcie_generation, to_int64, device_);
}

NvmlReading<std::int64_t> NvmlGpu::max_pcie_generation() const {
  return read_nvml<unsigned int>(api_->max_pcie_generation, to_int64, device_);
}

NvmlReading<std::int64_t> NvmlGpu::num_pcie_lanes() const {
  return read_nvml<unsigned int>(api_->num_pcie_lanes, to_int64, device_);
}

NvmlReading<std::int64_t> NvmlGpu::max_num_pcie_lanes() const {
  return read_nvml<unsigned int>(api_->max_num_pcie_lanes, to_int64, device_);
}

NvmlReading<std::vector<NvmlProcess>> NvmlGpu::compute_processes() const {
  return read_processes(api_->compute_processes, device_);
}

NvmlReading<std::vector<NvmlProcess>> NvmlGpu::graphics_processes() const {
  return read_processes(api_->graphics_processes, device_);
}

}  // namespace steplens
