#include "profilers/cupti/pm_sampling_api.h"

#include <filesystem>
#include <type_traits>

#include <dlfcn.h>
#include <fmt/format.h>

#include "profilers/cupti/cupti_api.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libcupti.so.13";

struct Loaded {
  PmSamplingApi api;
  std::string why_not;
};

fs::path folder_of(const void* symbol) {
  Dl_info info{};
  return ::dladdr(symbol, &info) == 0 || info.dli_fname == nullptr
             ? fs::path()
             : fs::path(info.dli_fname).parent_path();
}

// CUPTI asks for them by name alone and has no search path of its own: whoever loads them first
// decides which they are, and they must be of CUPTI's version.
std::string why_not_preloaded(const fs::path& folder) {
  for (const char* name : {"libnvperf_host.so", "libnvperf_target.so"}) {
    std::error_code ignored;
    const fs::path beside = folder / name;
    const std::string path = fs::exists(beside, ignored) ? beside.string() : name;
    if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      return fmt::format("{} cannot be loaded, which CUPTI needs for counters: {}", name,
                         ::dlerror());
    }
  }
  return "";
}

Loaded load() {
  Loaded loaded;
  if (load_cupti(loaded.why_not) == nullptr) return loaded;
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
  PmSamplingApi& api = loaded.api;
  resolve(api.initialize, "cuptiProfilerInitialize");
  resolve(api.chip_name, "cuptiDeviceGetChipName");
  resolve(api.counter_availability, "cuptiPmSamplingGetCounterAvailability");
  resolve(api.host_initialize, "cuptiProfilerHostInitialize");
  resolve(api.host_deinitialize, "cuptiProfilerHostDeinitialize");
  resolve(api.metric_properties, "cuptiProfilerHostGetMetricProperties");
  resolve(api.add_metrics, "cuptiProfilerHostConfigAddMetrics");
  resolve(api.config_image_size, "cuptiProfilerHostGetConfigImageSize");
  resolve(api.config_image, "cuptiProfilerHostGetConfigImage");
  resolve(api.num_passes, "cuptiProfilerHostGetNumOfPasses");
  resolve(api.evaluate, "cuptiProfilerHostEvaluateToGpuValues");
  resolve(api.enable, "cuptiPmSamplingEnable");
  resolve(api.disable, "cuptiPmSamplingDisable");
  resolve(api.set_config, "cuptiPmSamplingSetConfig");
  resolve(api.counter_data_size, "cuptiPmSamplingGetCounterDataSize");
  resolve(api.initialize_counter_data, "cuptiPmSamplingCounterDataImageInitialize");
  resolve(api.start, "cuptiPmSamplingStart");
  resolve(api.stop, "cuptiPmSamplingStop");
  resolve(api.decode, "cuptiPmSamplingDecodeData");
  resolve(api.counter_data_info, "cuptiPmSamplingGetCounterDataInfo");
  resolve(api.sample_info, "cuptiPmSamplingCounterDataGetSampleInfo");
  resolve(api.result_string, "cuptiGetResultString");
  if (loaded.why_not.empty()) {
    loaded.why_not = why_not_preloaded(folder_of(reinterpret_cast<const void*>(api.decode)));
  }
  return loaded;
}

}  // namespace

const PmSamplingApi* load_pm_sampling(std::string& why_not) {
  static const Loaded loaded = load();
  why_not = loaded.why_not;
  return why_not.empty() ? &loaded.api : nullptr;
}

}  // namespace steplens
