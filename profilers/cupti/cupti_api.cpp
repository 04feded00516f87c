#include "profilers/cupti/cupti_api.h"

#include <array>

#include <dlfcn.h>
#include <fmt/format.h>

namespace steplens {
namespace {

constexpr const char* kLibrary = "libcupti.so.13";

// CUPTI's functions half work without a driver: ask the driver itself.
std::string why_no_driver() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return "no NVIDIA driver: libcuda.so.1 cannot be loaded";
  if (::dlsym(driver, "cuInit") == nullptr) return "libcuda.so.1 has no cuInit";
  return "";
}

struct Loaded {
  CuptiApi api;
  std::string why_not;
};

Loaded load() {
  Loaded loaded;
  loaded.why_not = why_no_driver();
  if (!loaded.why_not.empty()) return loaded;
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.why_not = fmt::format("CUPTI cannot be loaded: {}", ::dlerror());
    return loaded;
  }
  const auto resolve = [&](auto& function, const char* name) {
    void* symbol = ::dlsym(library, name);
    if (symbol == nullptr && loaded.why_not.empty()) {
      loaded.why_not = fmt::format("{} has no {}: CUPTI of CUDA 13.0 is needed", kLibrary, name);
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  CuptiApi& api = loaded.api;
  resolve(api.subscribe, "cuptiSubscribe_v2");
  resolve(api.unsubscribe, "cuptiUnsubscribe");
  resolve(api.enable_callback, "cuptiEnableCallback");
  resolve(api.register_callbacks, "cuptiActivityRegisterCallbacks");
  resolve(api.set_attribute, "cuptiActivitySetAttribute");
  resolve(api.enable, "cuptiActivityEnable");
  resolve(api.disable, "cuptiActivityDisable");
  resolve(api.enable_runtime_call, "cuptiActivityEnableRuntimeApi");
  resolve(api.enable_driver_call, "cuptiActivityEnableDriverApi");
  resolve(api.set_thread_id_type, "cuptiSetThreadIdType");
  resolve(api.flush_all, "cuptiActivityFlushAll");
  resolve(api.next_record, "cuptiActivityGetNextRecord");
  resolve(api.num_dropped, "cuptiActivityGetNumDroppedRecords");
  resolve(api.timestamp, "cuptiGetTimestamp");
  resolve(api.callback_name, "cuptiGetCallbackName");
  resolve(api.graph_node_id, "cuptiGetGraphNodeId");
  resolve(api.result_string, "cuptiGetResultString");
  resolve(api.version, "cuptiGetVersion");
  return loaded;
}

}  // namespace

const CuptiApi* load_cupti(std::string& why_not) {
  static const Loaded loaded = load();
  why_not = loaded.why_not;
  return why_not.empty() ? &loaded.api : nullptr;
}

std::string describe(const CuptiApi& cupti, CUptiResult result) {
  const char* text = nullptr;
  if (cupti.result_string == nullptr || cupti.result_string(result, &text) != CUPTI_SUCCESS ||
      text == nullptr) {
    return fmt::format("error {}", static_cast<int>(result));
  }
  return fmt::format("{} ({})", text, static_cast<int>(result));
}

}  // namespace steplens
