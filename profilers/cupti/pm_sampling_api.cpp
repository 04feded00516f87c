#include "profilers/cupti/pm_sampling_api.h"

#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>

#include "profilers/cupti/cupti_api.h"
#include "profilers/cupti/cupti_library.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

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
  CuptiLibrary library;
  PmSamplingApi& api = loaded.api;
  library.resolve(api.initialize, "cuptiProfilerInitialize");
  library.resolve(api.chip_name, "cuptiDeviceGetChipName");
  library.resolve(api.counter_availability, "cuptiPmSamplingGetCounterAvailability");
  library.resolve(api.host_initialize, "cuptiProfilerHostInitialize");
  library.resolve(api.host_deinitialize, "cuptiProfilerHostDeinitialize");
  library.resolve(api.metric_properties, "cuptiProfilerHostGetMetricProperties");
  library.resolve(api.add_metrics, "cuptiProfilerHostConfigAddMetrics");
  library.resolve(api.config_image_size, "cuptiProfilerHostGetConfigImageSize");
  library.resolve(api.config_image, "cuptiProfilerHostGetConfigImage");
  library.resolve(api.num_passes, "cuptiProfilerHostGetNumOfPasses");
  library.resolve(api.evaluate, "cuptiProfilerHostEvaluateToGpuValues");
  library.resolve(api.enable, "cuptiPmSamplingEnable");
  library.resolve(api.disable, "cuptiPmSamplingDisable");
  library.resolve(api.set_config, "cuptiPmSamplingSetConfig");
  library.resolve(api.counter_data_size, "cuptiPmSamplingGetCounterDataSize");
  library.resolve(api.initialize_counter_data, "cuptiPmSamplingCounterDataImageInitialize");
  library.resolve(api.start, "cuptiPmSamplingStart");
  library.resolve(api.stop, "cuptiPmSamplingStop");
  library.resolve(api.decode, "cuptiPmSamplingDecodeData");
  library.resolve(api.counter_data_info, "cuptiPmSamplingGetCounterDataInfo");
  library.resolve(api.sample_info, "cuptiPmSamplingCounterDataGetSampleInfo");
  library.resolve(api.result_string, "cuptiGetResultString");
  loaded.why_not = library.why_not();
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
