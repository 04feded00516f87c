#include "profilers/gpu_environment.h"

#include "tests/profilers/nvml_replay.h"
#include <gtest/gtest.h>

namespace steplens {
namespace {

TEST(GpuEnvironment, HoldsModesLimitsAndLinks) {
  NvmlReplay replay;
  replay.set("cuda_driver_version", {{.value = 13000}});
  replay.set("memory_total", {{.value = 150'754'820'096}});
  replay.set("memory_reserved", {{.value = 600'000'000}});
  replay.set("memory_used", {{.value = 0}});
  replay.set("ecc_mode", {{.value = 1}});
  replay.set("mig_mode", {{.value = 0}});
  replay.set("persistence_mode", {{.value = 1}});
  replay.set("application_clock_0", {{.value = 1830}});
  replay.set("application_clock_2", {{.value = 3201}});
  replay.set("max_clock_1", {{.value = 1980}});
  replay.set("max_clock_2", {{.value = 3201}});
  replay.set("power_limit_milliwatts", {{.value = 700'000}});
  replay.set("pcie_generation", {{.value = 4}});
  replay.set("max_pcie_generation", {{.value = 5}});
  replay.set("num_pcie_lanes", {{.value = 8}});
  replay.set("max_num_pcie_lanes", {{.value = 16}});
  const Nvml nvml(NvmlReplay::api());
  EXPECT_EQ(gpu_environment(nvml, "GPU-0"), nlohmann::json::parse(R"({
    "uuid": "GPU-0",
    "name": "NVIDIA H200",
    "pci_id_suffix": "10:00.0",
    "driver_version": "580.159.04",
    "cuda_driver_version": "13.0",
    "memory_bytes": 150754820096,
    "memory_reserved_bytes": 600000000,
    "is_ecc_enabled": true,
    "is_mig_enabled": false,
    "is_persistence_enabled": true,
    "application_sm_clock_mhz": 1830.0,
    "application_memory_clock_mhz": 3201.0,
    "max_sm_clock_mhz": 1980.0,
    "max_memory_clock_mhz": 3201.0,
    "power_limit_watts": 700.0,
    "pcie_generation": 4,
    "max_pcie_generation": 5,
    "num_pcie_lanes": 8,
    "max_num_pcie_lanes": 16,
    "absent_reasons": {}
  })"));
}

TEST(GpuEnvironment, SaysWhyANumberIsAbsent) {
  NvmlReplay replay;
  NvmlApi api = NvmlReplay::api();
  api.application_clock = nullptr;
  const Nvml nvml(api);
  const nlohmann::json environment = gpu_environment(nvml, "GPU-0");
  EXPECT_TRUE(environment.at("application_sm_clock_mhz").is_null());
  EXPECT_EQ(environment.at("absent_reasons").at("application_sm_clock_mhz"),
            "this driver's NVML has no such function");
  EXPECT_TRUE(environment.at("is_ecc_enabled").is_null());
  EXPECT_EQ(environment.at("absent_reasons").at("is_ecc_enabled"), "not supported by this GPU");
}

TEST(GpuEnvironment, IsNullWithoutSuchAGpu) {
  NvmlReplay replay;
  EXPECT_TRUE(gpu_environment(Nvml(NvmlReplay::api()), "GPU-9").is_null());
  EXPECT_TRUE(gpu_environment(Nvml("no driver"), "GPU-0").is_null());
}

}  // namespace
}  // namespace steplens
