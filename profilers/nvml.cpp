#include "profilers/nvml.h"

#include <array>
#include <utility>
#include <variant>

#include "profilers/nvml_library.h"

namespace steplens {

const Nvml& Nvml::system() {
  static const Nvml nvml = [] {
    std::variant<NvmlApi, std::string> loaded = load_nvml();
    if (const NvmlApi* api = std::get_if<NvmlApi>(&loaded)) return Nvml(*api);
    return Nvml(std::get<std::string>(std::move(loaded)));
  }();
  return nvml;
}

Nvml::Nvml(const NvmlApi& api) : api_(api) {
  if (api.init == nullptr || api.device_count == nullptr || api.handle_by_index == nullptr ||
      api.handle_by_uuid == nullptr || api.handle_by_pci_id == nullptr) {
    why_missing_ = "the NVIDIA driver is too old: its NVML cannot open devices";
    return;
  }
  const NvmlStatus status = api.init();
  if (status != NvmlStatus::kSuccess) why_missing_ = nvml_reason(status);
}

Nvml::Nvml(std::string why_missing) : why_missing_(std::move(why_missing)) {}

NvmlReading<std::string> Nvml::driver_version() const {
  if (api_.driver_version == nullptr) return {.status = NvmlStatus::kFunctionNotFound};
  std::array<char, kNvmlDriverVersionSize + 1> text{};
  const NvmlStatus status = api_.driver_version(text.data(), kNvmlDriverVersionSize);
  if (status != NvmlStatus::kSuccess) return {.status = status};
  return {.value = std::string(text.data())};
}

NvmlReading<std::string> Nvml::cuda_driver_version() const {
  return read_nvml<int>(api_.cuda_driver_version, [](int version) {
    // 1000 * major + 10 * minor, as in cuda.h.
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  });
}

Nvml::Gpus Nvml::gpus() const {
  if (!why_missing_.empty()) return {.why_none = why_missing_};
  unsigned int num_gpus = 0;
  if (const NvmlStatus status = api_.device_count(&num_gpus); status != NvmlStatus::kSuccess) {
    return {.why_none = nvml_reason(status)};
  }
  if (num_gpus == 0) return {.why_none = "the NVIDIA driver lists no GPU"};
  Gpus found;
  NvmlStatus last_error = NvmlStatus::kSuccess;
  for (unsigned int index = 0; index < num_gpus; ++index) {
    NvmlDevice device = nullptr;
    const NvmlStatus status = api_.handle_by_index(index, &device);
    if (status == NvmlStatus::kSuccess) {
      found.gpus.emplace_back(api_, device);
    } else {
      ++found.num_unreadable;
      last_error = status;
    }
  }
  if (found.gpus.empty()) {
    found.why_none = "the NVIDIA driver lists " + std::to_string(num_gpus) +
                     " GPU(s) and opens none: " + nvml_reason(last_error);
  }
  return found;
}

std::optional<NvmlGpu> Nvml::find_gpu(const std::string& uuid_or_pci_id) const {
  if (!why_missing_.empty() || uuid_or_pci_id.empty()) return std::nullopt;
  const bool is_uuid = uuid_or_pci_id.starts_with("GPU-") || uuid_or_pci_id.starts_with("MIG-");
  const auto find = is_uuid ? api_.handle_by_uuid : api_.handle_by_pci_id;
  NvmlDevice device = nullptr;
  if (find(uuid_or_pci_id.c_str(), &device) != NvmlStatus::kSuccess) return std::nullopt;
  return NvmlGpu(api_, device);
}

}  // namespace steplens
