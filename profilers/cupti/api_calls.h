#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profilers/cupti/cupti_api.h"

namespace steplens {

/// A function of the CUDA runtime or driver as CUPTI knows it.
struct ApiCall {
  CUpti_CallbackId cbid = 0;
  bool is_driver = false;
  std::string name;  // As CUPTI spells it: "cudaLaunchKernel_v7000".
};

/// Whether a trace records calls of this name: what gives the device work, waits for it, orders
/// streams, takes or gives back memory, or loads code. Questions (cudaGetDevice, cudaGetLastError,
/// cuDevicePrimaryCtxGetState, ...) are not: an eager step asks more than ten for each kernel, and
/// a record of each delays the launches.
bool is_recorded_call(std::string_view name);

/// All calls of this CUPTI that are recorded.
std::vector<ApiCall> recorded_calls(const CuptiApi& cupti);

}  // namespace steplens
