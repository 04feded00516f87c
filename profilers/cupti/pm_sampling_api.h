#pragma once

#include <string>

#include <cupti.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>

namespace steplens {

/// The functions of CUPTI's PM sampling that are used, behind pointers: loaded from the library, or
/// made by hand for tests.
struct PmSamplingApi {
  decltype(&::cuptiProfilerInitialize) initialize = nullptr;
  decltype(&::cuptiDeviceGetChipName) chip_name = nullptr;
  decltype(&::cuptiPmSamplingGetCounterAvailability) counter_availability = nullptr;
  // What a metric is and how it is scheduled: the host's side.
  decltype(&::cuptiProfilerHostInitialize) host_initialize = nullptr;
  decltype(&::cuptiProfilerHostDeinitialize) host_deinitialize = nullptr;
  decltype(&::cuptiProfilerHostGetMetricProperties) metric_properties = nullptr;
  decltype(&::cuptiProfilerHostConfigAddMetrics) add_metrics = nullptr;
  decltype(&::cuptiProfilerHostGetConfigImageSize) config_image_size = nullptr;
  decltype(&::cuptiProfilerHostGetConfigImage) config_image = nullptr;
  decltype(&::cuptiProfilerHostGetNumOfPasses) num_passes = nullptr;
  decltype(&::cuptiProfilerHostEvaluateToGpuValues) evaluate = nullptr;
  // The device's side.
  decltype(&::cuptiPmSamplingEnable) enable = nullptr;
  decltype(&::cuptiPmSamplingDisable) disable = nullptr;
  decltype(&::cuptiPmSamplingSetConfig) set_config = nullptr;
  decltype(&::cuptiPmSamplingGetCounterDataSize) counter_data_size = nullptr;
  decltype(&::cuptiPmSamplingCounterDataImageInitialize) initialize_counter_data = nullptr;
  decltype(&::cuptiPmSamplingStart) start = nullptr;
  decltype(&::cuptiPmSamplingStop) stop = nullptr;
  decltype(&::cuptiPmSamplingDecodeData) decode = nullptr;
  decltype(&::cuptiPmSamplingGetCounterDataInfo) counter_data_info = nullptr;
  decltype(&::cuptiPmSamplingCounterDataGetSampleInfo) sample_info = nullptr;
  decltype(&::cuptiGetResultString) result_string = nullptr;
};

/// PM sampling of CUPTI 13 as the process finds it, with the two libraries of NVIDIA's that CUPTI
/// needs for it. Null, and a sentence in `why_not`, if one of them or a driver is not there.
const PmSamplingApi* load_pm_sampling(std::string& why_not);

}  // namespace steplens
