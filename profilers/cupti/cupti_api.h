#pragma once

#include <string>

#include <cupti.h>

namespace steplens {

/// The CUPTI functions that are used, behind pointers: loaded from the library, or filled by a
/// replay that feeds records made by hand to the callbacks, without a GPU.
struct CuptiApi {
  decltype(&::cuptiSubscribe_v2) subscribe = nullptr;
  decltype(&::cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&::cuptiEnableCallback) enable_callback = nullptr;
  decltype(&::cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&::cuptiActivitySetAttribute) set_attribute = nullptr;
  decltype(&::cuptiActivityEnable) enable = nullptr;
  decltype(&::cuptiActivityDisable) disable = nullptr;
  decltype(&::cuptiActivityEnableRuntimeApi) enable_runtime_call = nullptr;
  decltype(&::cuptiActivityEnableDriverApi) enable_driver_call = nullptr;
  decltype(&::cuptiSetThreadIdType) set_thread_id_type = nullptr;
  decltype(&::cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&::cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&::cuptiActivityGetNumDroppedRecords) num_dropped = nullptr;
  decltype(&::cuptiGetTimestamp) timestamp = nullptr;
  decltype(&::cuptiGetCallbackName) callback_name = nullptr;
  decltype(&::cuptiGetGraphNodeId) graph_node_id = nullptr;
  decltype(&::cuptiGetResultString) result_string = nullptr;
  decltype(&::cuptiGetVersion) version = nullptr;
};

/// CUPTI of CUDA 13 as the process finds it, for the life of the process. Null, and a sentence in
/// `why_not`, if there is none, if it lacks a function, or if there is no driver.
const CuptiApi* load_cupti(std::string& why_not);

/// "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)"
std::string describe(const CuptiApi& cupti, CUptiResult result);

}  // namespace steplens
