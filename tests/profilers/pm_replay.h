#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "profilers/cupti/pm_sampling_api.h"

namespace steplens {

/// One sample as the GPU would have taken it: percentages by metric; what is not named is 0.
struct ReplayedSample {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::map<std::string, double> percents;
};

/// PM sampling without a GPU: a chip that knows some metrics, a buffer that the test fills, and
/// calls that can be made to fail. One lives at a time.
class PmReplay {
 public:
  PmReplay() { live = this; }
  ~PmReplay() {
    EXPECT_TRUE(hosts.empty()) << "a host object was not given back";
    EXPECT_FALSE(is_enabled) << "the device was left enabled";
    live = nullptr;
  }
  PmReplay(const PmReplay&) = delete;
  PmReplay& operator=(const PmReplay&) = delete;

  std::string chip = "GH100";
  std::set<std::string> unknown_metrics;
  std::size_t max_metrics_per_pass = 100;
  std::map<std::string, CUptiResult> failures;  // By the name of the call.
  bool is_enabled = false;
  CUpti_PmSampling_SetConfig_Params config{};  // As it was set; the pointers are gone.
  std::size_t device_index = 99;
  std::vector<std::string> configured;  // Metrics of the last config image.

  void push(ReplayedSample sample) {
    const std::scoped_lock lock(mutex);
    pending.push_back(std::move(sample));
  }
  /// The next decode says that the buffer has overflowed.
  void overflow(CUptiResult result = CUPTI_SUCCESS) {
    const std::scoped_lock lock(mutex);
    is_overflow = true;
    overflow_result = result;
  }

  static PmSamplingApi api() {
    PmSamplingApi api;
    api.initialize = [](CUpti_Profiler_Initialize_Params*) { return result_of("initialize"); };
    api.chip_name = [](CUpti_Device_GetChipName_Params* params) {
      params->pChipName = live->chip.c_str();
      return result_of("chip_name");
    };
    api.counter_availability = [](CUpti_PmSampling_GetCounterAvailability_Params* params) {
      if (params->pCounterAvailabilityImage == nullptr) params->counterAvailabilityImageSize = 4;
      return result_of("counter_availability");
    };
    api.host_initialize = [](CUpti_Profiler_Host_Initialize_Params* params) {
      EXPECT_EQ(params->structSize, CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
      EXPECT_EQ(params->profilerType, CUPTI_PROFILER_TYPE_PM_SAMPLING);
      EXPECT_EQ(params->pChipName, live->chip);
      EXPECT_NE(params->pCounterAvailabilityImage, nullptr);
      if (const CUptiResult result = result_of("host_initialize"); result != CUPTI_SUCCESS) {
        return result;
      }
      live->hosts.push_back(std::make_unique<std::vector<std::string>>());
      params->pHostObject = reinterpret_cast<CUpti_Profiler_Host_Object*>(live->hosts.back().get());
      return CUPTI_SUCCESS;
    };
    api.host_deinitialize = [](CUpti_Profiler_Host_Deinitialize_Params* params) {
      const auto num_erased = std::erase_if(live->hosts, [&](const auto& host) {
        return host.get() == reinterpret_cast<std::vector<std::string>*>(params->pHostObject);
      });
      EXPECT_EQ(num_erased, 1U);
      return CUPTI_SUCCESS;
    };
    api.metric_properties = [](CUpti_Profiler_Host_GetMetricProperties_Params* params) {
      return live->unknown_metrics.contains(params->pMetricName) ? CUPTI_ERROR_INVALID_METRIC_NAME
                                                                 : CUPTI_SUCCESS;
    };
    api.add_metrics = [](CUpti_Profiler_Host_ConfigAddMetrics_Params* params) {
      std::vector<std::string>& host = metrics_of(params->pHostObject);
      EXPECT_TRUE(host.empty()) << "metrics can be added only once";
      host.assign(params->ppMetricNames, params->ppMetricNames + params->numMetrics);
      return result_of("add_metrics");
    };
    api.config_image_size = [](CUpti_Profiler_Host_GetConfigImageSize_Params* params) {
      params->configImageSize = live->is_config_empty ? 0 : sizeof(std::size_t);
      return CUPTI_SUCCESS;
    };
    api.config_image = [](CUpti_Profiler_Host_GetConfigImage_Params* params) {
      live->configured = metrics_of(params->pHostObject);
      const std::size_t num_metrics = live->configured.size();
      if (params->configImageSize > 0) {
        std::memcpy(params->pConfigImage, &num_metrics, sizeof(num_metrics));
      }
      return CUPTI_SUCCESS;
    };
    api.num_passes = [](CUpti_Profiler_Host_GetNumOfPasses_Params* params) {
      std::size_t num_metrics = 0;
      std::memcpy(&num_metrics, params->pConfigImage, sizeof(num_metrics));
      params->numOfPasses =
          (num_metrics + live->max_metrics_per_pass - 1) / live->max_metrics_per_pass;
      return CUPTI_SUCCESS;
    };
    api.enable = [](CUpti_PmSampling_Enable_Params* params) {
      const CUptiResult result = result_of("enable");
      if (result != CUPTI_SUCCESS) return result;
      live->is_enabled = true;
      live->device_index = params->deviceIndex;
      params->pPmSamplingObject = reinterpret_cast<CUpti_PmSampling_Object*>(live);
      return CUPTI_SUCCESS;
    };
    api.disable = [](CUpti_PmSampling_Disable_Params*) {
      EXPECT_TRUE(live->is_enabled);
      EXPECT_FALSE(live->is_sampling) << "disabled before it was stopped";
      live->is_enabled = false;
      return CUPTI_SUCCESS;
    };
    api.set_config = [](CUpti_PmSampling_SetConfig_Params* params) {
      live->config = *params;
      return result_of("set_config");
    };
    api.counter_data_size = [](CUpti_PmSampling_GetCounterDataSize_Params* params) {
      live->max_samples = params->maxSamples;
      params->counterDataSize = sizeof(std::size_t) * (1 + params->maxSamples);
      return CUPTI_SUCCESS;
    };
    api.initialize_counter_data = [](CUpti_PmSampling_CounterDataImage_Initialize_Params* params) {
      std::memset(params->pCounterData, 0, params->counterDataSize);
      return result_of("initialize_counter_data");
    };
    api.start = [](CUpti_PmSampling_Start_Params*) {
      const CUptiResult result = result_of("start");
      live->is_sampling = result == CUPTI_SUCCESS;
      return result;
    };
    api.stop = [](CUpti_PmSampling_Stop_Params*) {
      EXPECT_TRUE(live->is_sampling);
      live->is_sampling = false;
      return result_of("stop");
    };
    api.decode = [](CUpti_PmSampling_DecodeData_Params* params) { return live->decode(params); };
    api.counter_data_info = [](CUpti_PmSampling_GetCounterDataInfo_Params* params) {
      std::memcpy(&params->numCompletedSamples, params->pCounterDataImage, sizeof(std::size_t));
      return CUPTI_SUCCESS;
    };
    api.sample_info = [](CUpti_PmSampling_CounterData_GetSampleInfo_Params* params) {
      const ReplayedSample& sample = sample_in(params->pCounterDataImage, params->sampleIndex);
      params->startTimestamp = sample.start_ns;
      params->endTimestamp = sample.end_ns;
      return CUPTI_SUCCESS;
    };
    api.evaluate = [](CUpti_Profiler_Host_EvaluateToGpuValues_Params* params) {
      const ReplayedSample& sample = sample_in(params->pCounterDataImage, params->rangeIndex);
      for (std::size_t i = 0; i < params->numMetrics; ++i) {
        const auto it = sample.percents.find(params->ppMetricNames[i]);
        params->pMetricValues[i] = it == sample.percents.end() ? 0.0 : it->second;
      }
      return result_of("evaluate");
    };
    api.result_string = [](CUptiResult result, const char** text) {
      *text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
                                                            : "CUPTI_ERROR_OF_THE_TEST";
      return CUPTI_SUCCESS;
    };
    return api;
  }

  bool is_config_empty = false;

 private:
  static CUptiResult result_of(const std::string& call) {
    const auto it = live->failures.find(call);
    return it == live->failures.end() ? CUPTI_SUCCESS : it->second;
  }
  static std::vector<std::string>& metrics_of(CUpti_Profiler_Host_Object* host) {
    return *reinterpret_cast<std::vector<std::string>*>(host);
  }
  static const ReplayedSample& sample_in(const std::uint8_t* image, std::size_t index) {
    std::size_t row = 0;
    std::memcpy(&row, image + sizeof(std::size_t) * (1 + index), sizeof(row));
    return live->decoded.at(row);
  }

  CUptiResult decode(CUpti_PmSampling_DecodeData_Params* params) {
    if (const CUptiResult result = result_of("decode"); result != CUPTI_SUCCESS) return result;
    const std::scoped_lock lock(mutex);
    std::size_t count = 0;
    for (; count < max_samples && !pending.empty(); ++count) {
      const std::size_t row = decoded.size();
      decoded.push_back(std::move(pending.front()));
      pending.pop_front();
      std::memcpy(params->pCounterDataImage + sizeof(std::size_t) * (1 + count), &row, sizeof(row));
    }
    std::memcpy(params->pCounterDataImage, &count, sizeof(count));
    params->decodeStopReason = pending.empty()
                                   ? CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS
                                   : CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL;
    params->overflow = is_overflow ? 1 : 0;
    return std::exchange(is_overflow, false) ? overflow_result : CUPTI_SUCCESS;
  }

  static inline PmReplay* live = nullptr;
  std::vector<std::unique_ptr<std::vector<std::string>>> hosts;
  std::mutex mutex;
  std::deque<ReplayedSample> pending;
  std::deque<ReplayedSample> decoded;  // A deque: references stay while it grows.
  std::uint32_t max_samples = 0;
  bool is_sampling = false;
  bool is_overflow = false;
  CUptiResult overflow_result = CUPTI_SUCCESS;
};

}  // namespace steplens
