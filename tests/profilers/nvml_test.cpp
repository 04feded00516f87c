#include "profilers/nvml.h"

#include "tests/profilers/nvml_replay.h"
#include <gtest/gtest.h>

namespace steplens {
namespace {

std::string uuid_of(const std::optional<NvmlGpu>& gpu) {
  return gpu ? gpu->uuid().value.value_or("") : "no GPU";
}

TEST(Nvml, SaysWhyThereIsNone) {
  const Nvml nvml("libnvidia-ml.so.1 not found: no NVIDIA driver");
  EXPECT_EQ(nvml.why_missing(), "libnvidia-ml.so.1 not found: no NVIDIA driver");
  EXPECT_TRUE(nvml.gpus().gpus.empty());
  EXPECT_EQ(nvml.gpus().why_none, nvml.why_missing());
  EXPECT_FALSE(nvml.find_gpu("GPU-0").has_value());
  EXPECT_EQ(nvml.driver_version().status, NvmlStatus::kFunctionNotFound);
}

TEST(Nvml, NamesTheStatusOfAFailedInit) {
  NvmlReplay replay;
  replay.init_status = NvmlStatus::kLibraryMismatch;
  const Nvml nvml(NvmlReplay::api());
  EXPECT_EQ(nvml.why_missing(),
            "the driver's library and kernel module differ in version: restart the machine");
  EXPECT_FALSE(nvml.find_gpu("GPU-0").has_value());
}

TEST(Nvml, RefusesALibraryWithoutTheFunctionsThatItCannotDoWithout) {
  NvmlReplay replay;
  NvmlApi api = NvmlReplay::api();
  api.handle_by_uuid = nullptr;
  EXPECT_EQ(Nvml(api).why_missing(), "the NVIDIA driver is too old: its NVML cannot open devices");
}

TEST(Nvml, ListsGpusWithTheirIdentity) {
  NvmlReplay replay;
  replay.num_gpus = 2;
  replay.set("memory_total", {{.value = 150'754'820'096}});
  replay.set("memory_used", {{.value = 1}});
  const Nvml nvml(NvmlReplay::api());
  const Nvml::Gpus found = nvml.gpus();
  ASSERT_EQ(found.gpus.size(), 2u);
  EXPECT_EQ(found.why_none, "");
  const GpuInfo second = found.gpus[1].info();
  EXPECT_EQ(second.uuid, "GPU-1");
  EXPECT_EQ(second.name, "NVIDIA H200");
  EXPECT_EQ(second.pci_id, "00000000:11:00.0");
  EXPECT_EQ(second.memory_bytes, 150'754'820'096);
}

TEST(Nvml, CountsGpusThatDoNotAnswer) {
  NvmlReplay replay;
  replay.num_gpus = 3;
  replay.handle_status = NvmlStatus::kGpuIsLost;
  const Nvml nvml(NvmlReplay::api());
  const Nvml::Gpus found = nvml.gpus();
  EXPECT_EQ(found.gpus.size(), 1u);
  EXPECT_EQ(found.num_unreadable, 2);
}

TEST(Nvml, SaysThatTheDriverListsNoGpu) {
  NvmlReplay replay;
  replay.num_gpus = 0;
  EXPECT_EQ(Nvml(NvmlReplay::api()).gpus().why_none, "the NVIDIA driver lists no GPU");
}

TEST(Nvml, FindsAGpuByUuidAndByPciIdAndNotByIndex) {
  NvmlReplay replay;
  replay.num_gpus = 2;
  const Nvml nvml(NvmlReplay::api());
  EXPECT_EQ(uuid_of(nvml.find_gpu("GPU-1")), "GPU-1");
  EXPECT_EQ(uuid_of(nvml.find_gpu("00000000:11:00.0")), "GPU-1");
  EXPECT_FALSE(nvml.find_gpu("GPU-7").has_value());
  EXPECT_FALSE(nvml.find_gpu("1").has_value());
  EXPECT_FALSE(nvml.find_gpu("").has_value());
}

TEST(Nvml, WritesTheCudaVersionAsPeopleDo) {
  NvmlReplay replay;
  replay.set("cuda_driver_version", {{.value = 13000}, {.value = 12080}});
  const Nvml nvml(NvmlReplay::api());
  EXPECT_EQ(nvml.cuda_driver_version().value, "13.0");
  EXPECT_EQ(nvml.cuda_driver_version().value, "12.8");
  EXPECT_EQ(nvml.driver_version().value, "580.159.04");
}

TEST(NvmlGpu, ConvertsUnits) {
  NvmlReplay replay;
  replay.set("power_milliwatts", {{.value = 697'250}});
  replay.set("power_limit_milliwatts", {{.value = 700'000}});
  replay.set("energy_millijoules", {{.value = 5'000'000'000'123}});
  replay.set("clock_1", {{.value = 1980}});
  replay.set("clock_2", {{.value = 3201}});
  replay.set("temperature", {{.value = 61}});
  replay.set("margin_temperature", {{.value = 26}});
  const Nvml nvml(NvmlReplay::api());
  const NvmlGpu gpu = nvml.gpus().gpus.at(0);
  EXPECT_EQ(gpu.power_watts().value, 697.25);
  EXPECT_EQ(gpu.power_limit_watts().value, 700.0);
  EXPECT_EQ(gpu.energy_j().value, 5'000'000'000.123);
  EXPECT_EQ(gpu.clock_mhz(NvmlClock::kSm).value, 1980.0);
  EXPECT_EQ(gpu.clock_mhz(NvmlClock::kMemory).value, 3201.0);
  EXPECT_EQ(gpu.temperature_celsius().value, 61.0);
  EXPECT_EQ(gpu.headroom_celsius().value, 26.0);
}

TEST(NvmlGpu, KeepsANegativeMargin) {
  NvmlReplay replay;
  replay.set("margin_temperature", {{.value = static_cast<std::uint64_t>(-3)}});
  const Nvml nvml(NvmlReplay::api());
  EXPECT_EQ(nvml.gpus().gpus.at(0).headroom_celsius().value, -3.0);
}

TEST(NvmlGpu, ReadsTheTemperatureTheOldWayWhereTheNewOneIsNotSupported) {
  NvmlReplay replay;
  replay.set("temperature_unversioned", {{.value = 44}});
  const Nvml nvml(NvmlReplay::api());
  EXPECT_EQ(nvml.gpus().gpus.at(0).temperature_celsius().value, 44.0);
}

TEST(NvmlGpu, DoesNotHideAFailedTemperatureBehindTheOldWay) {
  NvmlReplay replay;
  replay.set("temperature", {{.status = NvmlStatus::kGpuIsLost}});
  replay.set("temperature_unversioned", {{.value = 44}});
  const Nvml nvml(NvmlReplay::api());
  const NvmlReading<double> reading = nvml.gpus().gpus.at(0).temperature_celsius();
  EXPECT_FALSE(reading.value.has_value());
  EXPECT_EQ(reading.status, NvmlStatus::kGpuIsLost);
}

TEST(NvmlGpu, IsAbsentWithTheStatusWhereTheFunctionIsMissing) {
  NvmlReplay replay;
  NvmlApi api = NvmlReplay::api();
  api.margin_temperature = nullptr;
  api.power_milliwatts = nullptr;
  api.memory_info = nullptr;
  api.ecc_mode = nullptr;
  api.compute_processes = nullptr;
  api.uuid = nullptr;
  const Nvml nvml(api);
  const NvmlGpu gpu = nvml.gpus().gpus.at(0);
  EXPECT_EQ(gpu.headroom_celsius().status, NvmlStatus::kFunctionNotFound);
  EXPECT_EQ(gpu.power_watts().status, NvmlStatus::kFunctionNotFound);
  EXPECT_EQ(gpu.memory_used_bytes().status, NvmlStatus::kFunctionNotFound);
  EXPECT_EQ(gpu.is_ecc_enabled().status, NvmlStatus::kFunctionNotFound);
  EXPECT_EQ(gpu.compute_processes().status, NvmlStatus::kFunctionNotFound);
  EXPECT_EQ(gpu.uuid().status, NvmlStatus::kFunctionNotFound);
  EXPECT_FALSE(gpu.power_watts().value.has_value());
}

TEST(NvmlGpu, TakesTheCurrentModeAndNotThePendingOne) {
  NvmlReplay replay;
  replay.set("ecc_mode", {{.value = 1}});  // Pending: 0.
  replay.set("mig_mode", {{.value = 0}});  // Pending: 1.
  const Nvml nvml(NvmlReplay::api());
  const NvmlGpu gpu = nvml.gpus().gpus.at(0);
  EXPECT_EQ(gpu.is_ecc_enabled().value, true);
  EXPECT_EQ(gpu.is_mig_enabled().value, false);
}

TEST(NvmlGpu, ListsProcessesThatComeBetweenTwoCalls) {
  NvmlReplay replay;
  replay.compute = {{.pid = 10, .used_bytes = 1}};
  replay.late_compute.assign(30, {.pid = 20, .used_bytes = 2});  // More than the spare rows.
  const Nvml nvml(NvmlReplay::api());
  const auto processes =
      nvml.gpus().gpus.at(0).compute_processes().value.value_or(std::vector<NvmlProcess>());
  ASSERT_EQ(processes.size(), 31u);
  EXPECT_EQ(processes.front().pid, 10u);
  EXPECT_EQ(processes.back().pid, 20u);
}

TEST(NvmlGpu, ListsNoProcesses) {
  NvmlReplay replay;
  const Nvml nvml(NvmlReplay::api());
  const NvmlReading<std::vector<NvmlProcess>> reading = nvml.gpus().gpus.at(0).compute_processes();
  EXPECT_EQ(reading.status, NvmlStatus::kSuccess);
  EXPECT_EQ(reading.value.value_or(std::vector<NvmlProcess>(9)).size(), 0u);
}

TEST(IsNvmlError, CountsFailuresAndNotWhatIsUnavailable) {
  EXPECT_FALSE(is_nvml_error(NvmlStatus::kSuccess));
  EXPECT_FALSE(is_nvml_error(NvmlStatus::kNotSupported));
  EXPECT_FALSE(is_nvml_error(NvmlStatus::kFunctionNotFound));
  EXPECT_TRUE(is_nvml_error(NvmlStatus::kGpuIsLost));
  EXPECT_TRUE(is_nvml_error(NvmlStatus::kTimeout));
}

TEST(NvmlReason, GivesTheNumberWhereThereIsNoClause) {
  EXPECT_EQ(nvml_reason(NvmlStatus::kUnknown), "NVML error 999");
  EXPECT_EQ(nvml_reason(NvmlStatus::kNotSupported), "not supported by this GPU");
}

// The declarations by hand against the real library.
TEST(SystemNvml, ReadsEachGpuOfThisMachine) {
  const Nvml& nvml = Nvml::system();
  const Nvml::Gpus found = nvml.gpus();
  if (found.gpus.empty()) GTEST_SKIP() << found.why_none;
  EXPECT_FALSE(nvml.driver_version().value.value_or("").empty());
  for (const NvmlGpu& gpu : found.gpus) {
    const GpuInfo info = gpu.info();
    SCOPED_TRACE(info.name);
    EXPECT_TRUE(info.uuid.starts_with("GPU-")) << info.uuid;
    EXPECT_FALSE(info.name.empty());
    EXPECT_GT(info.memory_bytes, 0);
    EXPECT_LE(gpu.memory_used_bytes().value.value_or(0), info.memory_bytes);
    EXPECT_TRUE(nvml.find_gpu(info.uuid).has_value());
    EXPECT_TRUE(nvml.find_gpu(info.pci_id).has_value());
    const double temperature = gpu.temperature_celsius().value.value_or(25);
    EXPECT_GT(temperature, 0);
    EXPECT_LT(temperature, 150);
    EXPECT_LT(gpu.power_watts().value.value_or(100), 5000);
  }
}

}  // namespace
}  // namespace steplens
