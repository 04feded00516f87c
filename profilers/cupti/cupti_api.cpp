#include "profilers/cupti/cupti_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "profilers/cupti/cupti_library.h"

namespace steplens {
namespace {

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
  CuptiLibrary library;
  CuptiApi& api = loaded.api;
  library.resolve(api.subscribe, "cuptiSubscribe_v2");
  library.resolve(api.unsubscribe, "cuptiUnsubscribe");
  library.resolve(api.enable_callback, "cuptiEnableCallback");
  library.resolve(api.register_callbacks, "cuptiActivityRegisterCallbacks");
  library.resolve(api.set_attribute, "cuptiActivitySetAttribute");
  library.resolve(api.enable, "cuptiActivityEnable");
  library.resolve(api.disable, "cuptiActivityDisable");
  library.resolve(api.enable_runtime_call, "cuptiActivityEnableRuntimeApi");
  library.resolve(api.enable_driver_call, "cuptiActivityEnableDriverApi");
  library.resolve(api.set_thread_id_type, "cuptiSetThreadIdType");
  library.resolve(api.flush_all, "cuptiActivityFlushAll");
  library.resolve(api.next_record, "cuptiActivityGetNextRecord");
  library.resolve(api.num_dropped, "cuptiActivityGetNumDroppedRecords");
  library.resolve(api.timestamp, "cuptiGetTimestamp");
  library.resolve(api.callback_name, "cuptiGetCallbackName");
  library.resolve(api.graph_node_id, "cuptiGetGraphNodeId");
  library.resolve(api.result_string, "cuptiGetResultString");
  library.resolve(api.version, "cuptiGetVersion");
  loaded.why_not = library.why_not();
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
