#include "profilers/nvml_reading.h"

namespace steplens {

bool is_nvml_error(NvmlStatus status) {
  return status != NvmlStatus::kSuccess && status != NvmlStatus::kNotSupported &&
         status != NvmlStatus::kFunctionNotFound;
}

std::string nvml_reason(NvmlStatus status) {
  switch (status) {
    case NvmlStatus::kSuccess: return "no error";
    case NvmlStatus::kUninitialized: return "NVML is not initialized";
    case NvmlStatus::kInvalidArgument: return "NVML refused an argument";
    case NvmlStatus::kNotSupported: return "not supported by this GPU";
    case NvmlStatus::kNoPermission: return "no permission";
    case NvmlStatus::kNotFound: return "not found";
    case NvmlStatus::kInsufficientSize: return "NVML wants a larger buffer";
    case NvmlStatus::kDriverNotLoaded: return "the NVIDIA driver is not loaded";
    case NvmlStatus::kTimeout: return "timeout";
    case NvmlStatus::kFunctionNotFound: return "this driver's NVML has no such function";
    case NvmlStatus::kGpuIsLost: return "the GPU is lost: it fell off the bus";
    case NvmlStatus::kResetRequired: return "the GPU needs a reset";
    case NvmlStatus::kOperatingSystem: return "the operating system blocked the request";
    case NvmlStatus::kLibraryMismatch:
      return "the driver's library and kernel module differ in version: restart the machine";
    case NvmlStatus::kNoData: return "no data";
    case NvmlStatus::kVersionMismatch: return "this driver's NVML has another struct version";
    case NvmlStatus::kUnknown: break;
  }
  return "NVML error " + std::to_string(static_cast<unsigned int>(status));
}

}  // namespace steplens
