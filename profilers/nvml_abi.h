#pragma once

#include <cstddef>
#include <cstdint>

namespace steplens {

// The part of NVML's C ABI that is used here, declared by hand: nvml.h is not part of every CUDA
// toolkit. Values and layouts are those of nvml.h of CUDA 12.2 (driver 580 answers them too);
// the trailing comments give the names there. NVML calls are thread-safe and need no CUDA context.

struct NvmlDeviceOpaque;
using NvmlDevice = NvmlDeviceOpaque*;  // nvmlDevice_t

/// nvmlReturn_t. Others than these occur too and are kept by value.
// NOLINTNEXTLINE(performance-enum-size): the ABI's size.
enum class NvmlStatus : unsigned int {
  kSuccess = 0,            // NVML_SUCCESS
  kUninitialized = 1,      // NVML_ERROR_UNINITIALIZED
  kInvalidArgument = 2,    // NVML_ERROR_INVALID_ARGUMENT
  kNotSupported = 3,       // NVML_ERROR_NOT_SUPPORTED
  kNoPermission = 4,       // NVML_ERROR_NO_PERMISSION
  kNotFound = 6,           // NVML_ERROR_NOT_FOUND
  kInsufficientSize = 7,   // NVML_ERROR_INSUFFICIENT_SIZE
  kDriverNotLoaded = 9,    // NVML_ERROR_DRIVER_NOT_LOADED
  kTimeout = 10,           // NVML_ERROR_TIMEOUT
  kFunctionNotFound = 13,  // NVML_ERROR_FUNCTION_NOT_FOUND
  kGpuIsLost = 15,         // NVML_ERROR_GPU_IS_LOST
  kResetRequired = 16,     // NVML_ERROR_RESET_REQUIRED
  kOperatingSystem = 17,   // NVML_ERROR_OPERATING_SYSTEM
  kLibraryMismatch = 18,   // NVML_ERROR_LIB_RM_VERSION_MISMATCH
  kNoData = 21,            // NVML_ERROR_NO_DATA
  kVersionMismatch = 25,   // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
  kUnknown = 999,          // NVML_ERROR_UNKNOWN
};

/// nvmlClockType_t
// NOLINTNEXTLINE(performance-enum-size): the ABI's size.
enum class NvmlClock : unsigned int {
  kGraphics = 0,  // NVML_CLOCK_GRAPHICS
  kSm = 1,        // NVML_CLOCK_SM
  kMemory = 2,    // NVML_CLOCK_MEM
};

inline constexpr unsigned int kNvmlTemperatureGpu = 0;  // NVML_TEMPERATURE_GPU
inline constexpr unsigned int kNvmlFeatureEnabled = 1;  // NVML_FEATURE_ENABLED
inline constexpr unsigned int kNvmlMigEnabled = 1;      // NVML_DEVICE_MIG_ENABLE

// nvmlClocksEventReason*: why the clocks are where they are; bits of one mask.
inline constexpr std::uint64_t kNvmlReasonGpuIdle = 0x1;             // ...GpuIdle
inline constexpr std::uint64_t kNvmlReasonApplicationsClocks = 0x2;  // ...ApplicationsClocksSetting
inline constexpr std::uint64_t kNvmlReasonSwPowerCap = 0x4;          // ...SwPowerCap
inline constexpr std::uint64_t kNvmlReasonHwSlowdown = 0x8;          // ...HwSlowdown
inline constexpr std::uint64_t kNvmlReasonSwThermal = 0x20;          // ...SwThermalSlowdown
inline constexpr std::uint64_t kNvmlReasonHwThermal = 0x40;          // ...HwThermalSlowdown
inline constexpr std::uint64_t kNvmlReasonHwPowerBrake = 0x80;       // ...HwPowerBrakeSlowdown

inline constexpr std::size_t kNvmlDriverVersionSize = 80;  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
inline constexpr std::size_t kNvmlUuidSize = 96;           // NVML_DEVICE_UUID_V2_BUFFER_SIZE
inline constexpr std::size_t kNvmlNameSize = 96;           // NVML_DEVICE_NAME_V2_BUFFER_SIZE

/// What a field of NvmlProcess holds when the driver does not know it (NVML_VALUE_NOT_AVAILABLE).
inline constexpr std::uint64_t kNvmlValueNotAvailable = ~std::uint64_t{0};

/// NVML_STRUCT_VERSION: the size of the struct, its version in the top byte.
template <typename Struct>
constexpr unsigned int nvml_struct_version(unsigned int version) {
  return static_cast<unsigned int>(sizeof(Struct)) | (version << 24U);
}

/// nvmlMemory_v2_t. `used` leaves out `reserved`, unlike in version 1.
struct NvmlMemory {
  unsigned int version;  // Input: nvmlMemory_v2.
  std::uint64_t total_bytes;
  std::uint64_t reserved_bytes;  // By driver and firmware.
  std::uint64_t free_bytes;
  std::uint64_t used_bytes;
};
static_assert(nvml_struct_version<NvmlMemory>(2) == 0x02000028);  // nvmlMemory_v2

/// nvmlUtilization_t: percent of the last sample period (1/6 to 1 second).
struct NvmlUtilization {
  unsigned int gpu_percent;     // At least one kernel was running.
  unsigned int memory_percent;  // Device memory was being read or written.
};

/// nvmlProcessInfo_t, as the _v3 calls fill it.
struct NvmlProcess {
  unsigned int pid;
  std::uint64_t used_bytes;  // kNvmlValueNotAvailable if unknown.
  unsigned int gpu_instance_id;
  unsigned int compute_instance_id;
};
static_assert(sizeof(NvmlProcess) == 24 && offsetof(NvmlProcess, used_bytes) == 8);

/// nvmlMarginTemperature_v1_t: degrees left to the nearest slowdown threshold.
struct NvmlMarginTemperature {
  unsigned int version;  // Input: nvmlMarginTemperature_v1.
  int margin_celsius;
};
static_assert(nvml_struct_version<NvmlMarginTemperature>(1) == 0x01000008);

/// nvmlTemperature_v1_t
struct NvmlTemperature {
  unsigned int version;      // Input: nvmlTemperature_v1.
  unsigned int sensor_type;  // Input: kNvmlTemperatureGpu.
  int temperature_celsius;
};
static_assert(nvml_struct_version<NvmlTemperature>(1) == 0x0100000C);

/// nvmlPciInfo_t
struct NvmlPciInfo {
  char bus_id_legacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pci_device_id;
  unsigned int pci_subsystem_id;
  char bus_id[32];  // "00000000:1B:00.0"
};
static_assert(sizeof(NvmlPciInfo) == 68 && offsetof(NvmlPciInfo, bus_id) == 36);

/// The functions that are used, by their names in nvml.h. Null where the driver has none: then the
/// reading is absent. Tests fill the table with a replay.
struct NvmlApi {
  using ReadUint = NvmlStatus (*)(NvmlDevice, unsigned int*);
  using ReadTwoUints = NvmlStatus (*)(NvmlDevice, unsigned int*, unsigned int*);
  using ReadUint64 = NvmlStatus (*)(NvmlDevice, unsigned long long*);
  using ReadText = NvmlStatus (*)(NvmlDevice, char*, unsigned int);
  using ReadClock = NvmlStatus (*)(NvmlDevice, NvmlClock, unsigned int*);
  using ReadProcesses = NvmlStatus (*)(NvmlDevice, unsigned int*, NvmlProcess*);

  NvmlStatus (*init)() = nullptr;                               // nvmlInit_v2
  NvmlStatus (*driver_version)(char*, unsigned int) = nullptr;  // nvmlSystemGetDriverVersion
  NvmlStatus (*cuda_driver_version)(int*) = nullptr;            // nvmlSystemGetCudaDriverVersion_v2
  NvmlStatus (*device_count)(unsigned int*) = nullptr;          // nvmlDeviceGetCount_v2
  NvmlStatus (*handle_by_index)(unsigned int, NvmlDevice*) = nullptr;  // ...GetHandleByIndex_v2
  NvmlStatus (*handle_by_uuid)(const char*, NvmlDevice*) = nullptr;    // ...GetHandleByUUID
  NvmlStatus (*handle_by_pci_id)(const char*, NvmlDevice*) = nullptr;  // ...GetHandleByPciBusId_v2

  ReadText uuid = nullptr;                                       // nvmlDeviceGetUUID
  ReadText name = nullptr;                                       // nvmlDeviceGetName
  NvmlStatus (*pci_info)(NvmlDevice, NvmlPciInfo*) = nullptr;    // nvmlDeviceGetPciInfo_v3
  NvmlStatus (*memory_info)(NvmlDevice, NvmlMemory*) = nullptr;  // nvmlDeviceGetMemoryInfo_v2
  ReadClock clock = nullptr;                                     // nvmlDeviceGetClockInfo
  ReadClock max_clock = nullptr;                                 // nvmlDeviceGetMaxClockInfo
  ReadClock application_clock = nullptr;  // nvmlDeviceGetApplicationsClock; gone in CUDA 14
  NvmlStatus (*temperature)(NvmlDevice, NvmlTemperature*) = nullptr;  // nvmlDeviceGetTemperatureV
  /// nvmlDeviceGetTemperature: gone in CUDA 14, and all that older drivers have.
  NvmlStatus (*temperature_unversioned)(NvmlDevice, unsigned int, unsigned int*) = nullptr;
  NvmlStatus (*margin_temperature)(NvmlDevice,
                                   NvmlMarginTemperature*) = nullptr;  // ...GetMarginTemperature
  ReadUint power_milliwatts = nullptr;                                 // nvmlDeviceGetPowerUsage
  ReadUint power_limit_milliwatts = nullptr;  // nvmlDeviceGetEnforcedPowerLimit
  ReadUint64 energy_millijoules = nullptr;    // nvmlDeviceGetTotalEnergyConsumption
  NvmlStatus (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;  // ...GetUtilizationRates
  /// nvmlDeviceGetCurrentClocksEventReasons, or its name before driver 535.
  ReadUint64 clock_event_reasons = nullptr;
  ReadTwoUints ecc_mode = nullptr;             // nvmlDeviceGetEccMode: current, pending
  ReadTwoUints mig_mode = nullptr;             // nvmlDeviceGetMigMode: current, pending
  ReadUint persistence_mode = nullptr;         // nvmlDeviceGetPersistenceMode
  ReadUint pcie_generation = nullptr;          // nvmlDeviceGetCurrPcieLinkGeneration
  ReadUint max_pcie_generation = nullptr;      // nvmlDeviceGetMaxPcieLinkGeneration
  ReadUint num_pcie_lanes = nullptr;           // nvmlDeviceGetCurrPcieLinkWidth
  ReadUint max_num_pcie_lanes = nullptr;       // nvmlDeviceGetMaxPcieLinkWidth
  ReadProcesses compute_processes = nullptr;   // nvmlDeviceGetComputeRunningProcesses_v3
  ReadProcesses graphics_processes = nullptr;  // nvmlDeviceGetGraphicsRunningProcesses_v3
};

}  // namespace steplens
