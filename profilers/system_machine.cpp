#include "profilers/system_machine.h"

#include <set>
#include <utility>

#include <unistd.h>

#include "profilers/foreign_processes.h"
#include "profilers/gpu_environment.h"

namespace steplens {
namespace {

class SystemMachine final : public Machine {
 public:
  SystemMachine(const Nvml* nvml, Host host) : nvml_(nvml), host_(std::move(host)) {}

  std::vector<GpuInfo> gpus() override {
    std::vector<GpuInfo> infos;
    for (const NvmlGpu& gpu : nvml().gpus().gpus) infos.push_back(gpu.info());
    return infos;
  }

  std::string why_no_gpu() override { return nvml().gpus().why_none; }

  std::string cpu_model() override { return host_.cpu_model().value_or("unknown CPU"); }

  std::optional<double> temperature_celsius(const std::string& gpu_uuid) override {
    const std::optional<NvmlGpu> gpu = nvml().find_gpu(gpu_uuid);
    return gpu ? gpu->temperature_celsius().value : std::nullopt;
  }

  std::optional<double> headroom_celsius(const std::string& gpu_uuid) override {
    const std::optional<NvmlGpu> gpu = nvml().find_gpu(gpu_uuid);
    return gpu ? gpu->headroom_celsius().value : std::nullopt;
  }

  std::vector<ForeignProcess> foreign_processes(const std::string& gpu_uuid) override {
    const std::optional<NvmlGpu> gpu = nvml().find_gpu(gpu_uuid);
    if (!gpu) return {};
    const GpuUsers users = {.compute = gpu->compute_processes().value.value_or(NoRows()),
                            .graphics = gpu->graphics_processes().value.value_or(NoRows()),
                            .memory_used_bytes = gpu->memory_used_bytes().value};
    const ProcessParents parents = host_.process_parents();
    std::set<std::int64_t> visible_pids;
    for (const auto& [pid, parent] : parents) visible_pids.insert(pid);
    return foreign_processes_of(users, with_descendants(getpid(), parents), visible_pids);
  }

  double load_average() override { return host_.load_average().value_or(0); }

  nlohmann::json environment(const std::string& gpu_uuid) override {
    nlohmann::json environment = {{"host", host_.environment()}, {"gpu", nullptr}};
    if (gpu_uuid.empty()) return environment;
    const Nvml::Gpus gpus = nvml().gpus();
    environment["gpu"] = gpu_environment(nvml(), gpu_uuid);
    environment["num_gpus"] = gpus.gpus.size();
    environment["num_unreadable_gpus"] = gpus.num_unreadable;
    if (environment["gpu"].is_null()) {
      environment["why_no_gpu"] =
          gpus.why_none.empty() ? "the driver knows no GPU with this UUID" : gpus.why_none;
    }
    return environment;
  }

 private:
  using NoRows = std::vector<NvmlProcess>;

  // Loading NVML takes longer than the CLI may take to start.
  const Nvml& nvml() {
    if (nvml_ == nullptr) nvml_ = &Nvml::system();
    return *nvml_;
  }

  const Nvml* nvml_;
  Host host_;
};

}  // namespace

std::unique_ptr<Machine> make_system_machine() {
  return std::make_unique<SystemMachine>(nullptr, Host());
}

std::unique_ptr<Machine> make_machine(const Nvml& nvml, Host host) {
  return std::make_unique<SystemMachine>(&nvml, std::move(host));
}

}  // namespace steplens
