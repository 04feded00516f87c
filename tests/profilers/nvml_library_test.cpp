#include "profilers/nvml_library.h"

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

// Answers each name with an address of its own.
class FakeLibrary {
 public:
  explicit FakeLibrary(std::set<std::string> missing = {}) : missing_(std::move(missing)) {}

  void* symbol(const char* name) {
    asked_.emplace_back(name);
    if (missing_.contains(name)) return nullptr;
    return &addresses_[asked_.size() - 1];
  }

  void* address_of(const std::string& name) {
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      if (asked_[i] == name) return &addresses_[i];
    }
    return nullptr;
  }

  const std::vector<std::string>& asked() const { return asked_; }

 private:
  std::set<std::string> missing_;
  std::vector<std::string> asked_;
  char addresses_[64] = {};
};

TEST(ResolveNvml, AsksForEachFunctionOfTheTableByItsExportedName) {
  FakeLibrary library;
  const NvmlApi api = resolve_nvml([&](const char* name) { return library.symbol(name); });
  // Written down from nvml.h; the versions are those that its macros choose.
  EXPECT_THAT(
      library.asked(),
      testing::UnorderedElementsAre(
          "nvmlInit_v2", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2",
          "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByUUID",
          "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetName",
          "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetClockInfo",
          "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetApplicationsClock",
          "nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", "nvmlDeviceGetMarginTemperature",
          "nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit",
          "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetUtilizationRates",
          "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetEccMode", "nvmlDeviceGetMigMode",
          "nvmlDeviceGetPersistenceMode", "nvmlDeviceGetCurrPcieLinkGeneration",
          "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth",
          "nvmlDeviceGetMaxPcieLinkWidth", "nvmlDeviceGetComputeRunningProcesses_v3",
          "nvmlDeviceGetGraphicsRunningProcesses_v3"));
  EXPECT_EQ(reinterpret_cast<void*>(api.init), library.address_of("nvmlInit_v2"));
  EXPECT_EQ(reinterpret_cast<void*>(api.clock), library.address_of("nvmlDeviceGetClockInfo"));
}

TEST(ResolveNvml, FillsEverySlot) {
  FakeLibrary library;
  const NvmlApi api = resolve_nvml([&](const char* name) { return library.symbol(name); });
  // The table holds function pointers alone, so it can be read as an array of them.
  std::vector<void*> slots(sizeof(NvmlApi) / sizeof(void*));
  std::memcpy(static_cast<void*>(slots.data()), &api, sizeof(NvmlApi));
  EXPECT_THAT(slots, testing::Each(testing::NotNull()));
  EXPECT_EQ(std::set<void*>(slots.begin(), slots.end()).size(), slots.size());
}

TEST(ResolveNvml, TakesTheOldNameOfTheClockReasonsWhereTheNewOneIsMissing) {
  FakeLibrary library({"nvmlDeviceGetCurrentClocksEventReasons"});
  const NvmlApi api = resolve_nvml([&](const char* name) { return library.symbol(name); });
  ASSERT_NE(library.address_of("nvmlDeviceGetCurrentClocksThrottleReasons"), nullptr);
  EXPECT_EQ(reinterpret_cast<void*>(api.clock_event_reasons),
            library.address_of("nvmlDeviceGetCurrentClocksThrottleReasons"));
}

TEST(WhyNoNvml, SaysThatThereIsNoDriver) {
  EXPECT_EQ(why_no_nvml("libnvidia-ml.so.1: cannot open shared object file: No such file or "
                        "directory"),
            "libnvidia-ml.so.1 not found: no NVIDIA driver");
}

TEST(WhyNoNvml, KeepsAnotherCause) {
  EXPECT_EQ(why_no_nvml("libnvidia-ml.so.1: wrong ELF class: ELFCLASS32"),
            "libnvidia-ml.so.1 cannot be loaded: libnvidia-ml.so.1: wrong ELF class: ELFCLASS32");
}

}  // namespace
}  // namespace steplens
