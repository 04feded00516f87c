#include "harness/measured_device.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/error.h"
#include "harness/files.h"

namespace steplens {

MeasuredDevice choose_device(Machine& machine, Device device, const std::string& wanted,
                             const std::string& preferred) {
  if (device == Device::kCpu) return {.machine_id = machine.cpu_model()};
  const std::vector<GpuInfo> gpus = machine.gpus();
  if (gpus.empty()) {
    throw DeviceError(fmt::format("device=cuda: no GPU here: {}; --device cpu runs without one",
                                  machine.why_no_gpu()));
  }
  const auto named = [&](const std::string& name) {
    return std::ranges::find_if(gpus, [&](const GpuInfo& gpu) {
      return !name.empty() && (gpu.uuid == name || gpu.pci_id == name);
    });
  };
  auto chosen = named(wanted);
  if (!wanted.empty() && chosen == gpus.end()) {
    std::vector<std::string> uuids;
    uuids.reserve(gpus.size());
    for (const GpuInfo& gpu : gpus) uuids.push_back(gpu.uuid);
    throw ConfigError(
        fmt::format("gpu={}: no such GPU; here are {}", wanted, fmt::join(uuids, ", ")));
  }
  if (chosen == gpus.end()) chosen = named(preferred);
  if (chosen == gpus.end()) {
    chosen = std::ranges::find_if(
        gpus, [&](const GpuInfo& gpu) { return machine.foreign_processes(gpu.uuid).empty(); });
  }
  if (chosen == gpus.end()) chosen = gpus.begin();
  return {.gpu_uuid = chosen->uuid, .gpu_name = chosen->name, .machine_id = chosen->uuid};
}

nlohmann::json describe_data(const std::filesystem::path& data_path) {
  if (!std::filesystem::is_regular_file(data_path)) {
    throw ConfigError(fmt::format("data={}: no such file; `steplens data prepare` makes one",
                                  data_path.string()));
  }
  std::filesystem::path info_path = data_path;
  info_path.replace_extension(".json");
  if (std::filesystem::exists(info_path)) return read_json(info_path);
  // A raw token file, as nanoGPT writes it.
  return {{"name", data_path.stem().string()}, {"sha256", sha256_file_hex(data_path)}};
}

}  // namespace steplens
