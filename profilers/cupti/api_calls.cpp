#include "profilers/cupti/api_calls.h"

#include <algorithm>
#include <array>

namespace steplens {
namespace {

// How the names begin behind "cuda" or "cu".
constexpr auto kRecorded = std::to_array<std::string_view>({
    // Work for the device.
    "Launch",
    "GraphLaunch",
    "GraphUpload",
    "GraphInstantiate",
    "GraphExecUpdate",
    "Memcpy",
    "Memset",
    "MemPrefetch",
    // Waits and order.
    "DeviceSynchronize",
    "CtxSynchronize",
    "StreamSynchronize",
    "EventSynchronize",
    "StreamWaitEvent",
    "StreamWaitValue",
    "EventRecord",
    "StreamBeginCapture",
    "StreamEndCapture",
    // Memory.
    "Malloc",
    "Free",
    "HostAlloc",
    "HostRegister",
    "HostUnregister",
    "MemAlloc",
    "MemFree",
    "MemHostAlloc",
    "MemHostRegister",
    "MemCreate",
    "MemRelease",
    "MemMap",
    "MemUnmap",
    "MemAddress",
    "MemSetAccess",
    // Code.
    "ModuleLoad",
    "ModuleUnload",
    "LibraryLoad",
    "LibraryUnload",
});

}  // namespace

bool is_recorded_call(std::string_view name) {
  if (!name.starts_with("cu")) return false;
  name.remove_prefix(name.starts_with("cuda") ? 4 : 2);
  return std::ranges::any_of(kRecorded,
                             [&](std::string_view start) { return name.starts_with(start); });
}

std::vector<ApiCall> recorded_calls(const CuptiApi& cupti) {
  std::vector<ApiCall> calls;
  const auto add = [&](bool is_driver, CUpti_CallbackId num_ids) {
    const CUpti_CallbackDomain domain =
        is_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
    for (CUpti_CallbackId cbid = 1; cbid < num_ids; ++cbid) {
      const char* name = nullptr;
      if (cupti.callback_name(domain, cbid, &name) != CUPTI_SUCCESS || name == nullptr) continue;
      if (is_recorded_call(name)) {
        calls.push_back({.cbid = cbid, .is_driver = is_driver, .name = name});
      }
    }
  };
  add(/*is_driver=*/false, CUPTI_RUNTIME_TRACE_CBID_SIZE);
  add(/*is_driver=*/true, CUPTI_DRIVER_TRACE_CBID_SIZE);
  return calls;
}

}  // namespace steplens
