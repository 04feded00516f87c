#pragma once

#include <cuda_runtime_api.h>

namespace steplens {

[[noreturn]] void throw_device_error(const char* file, int line, const char* call,
                                     cudaError_t status);

}  // namespace steplens

/// Throws DeviceError unless `call` returns cudaSuccess.
#define SL_CUDA(call)                                                       \
  do {                                                                      \
    const cudaError_t sl_status = (call);                                   \
    if (sl_status != cudaSuccess) {                                         \
      ::steplens::throw_device_error(__FILE__, __LINE__, #call, sl_status); \
    }                                                                       \
  } while (false)
