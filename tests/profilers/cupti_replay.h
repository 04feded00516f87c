#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profilers/cupti/cupti_api.h"
#include "profilers/trace/range_recorder.h"

namespace steplens {

/// Bytes of a record of CUDA 13.0; 0 for kinds that no test uses.
inline std::size_t activity_bytes(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: return sizeof(CUpti_ActivityGraphTrace2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD: return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_DEVICE: return sizeof(CUpti_ActivityDevice5);
    case CUPTI_ACTIVITY_KIND_MARKER: return sizeof(CUpti_ActivityMarker2);
    default: return 0;
  }
}

/// Records one behind the other, as in a buffer of CUPTI's.
class ActivityRecords {
 public:
  template <typename Record>
  ActivityRecords& add(const Record& record) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&record);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(record));
    return *this;
  }
  std::vector<std::uint8_t>& bytes() { return bytes_; }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

inline CUpti_ActivityKernel10 kernel_record(std::uint64_t start, std::uint64_t end,
                                            std::uint32_t correlation_id,
                                            const char* name = "kernel") {
  CUpti_ActivityKernel10 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.start = start;
  record.end = end;
  record.correlationId = correlation_id;
  record.name = name;
  return record;
}

inline CUpti_ActivityAPI api_record(std::uint64_t start, std::uint64_t end,
                                    std::uint32_t correlation_id,
                                    CUpti_ActivityKind kind = CUPTI_ACTIVITY_KIND_RUNTIME,
                                    CUpti_CallbackId cbid = 211) {
  CUpti_ActivityAPI record{};
  record.kind = kind;
  record.cbid = cbid;
  record.start = start;
  record.end = end;
  record.threadId = 1;
  record.correlationId = correlation_id;
  return record;
}

/// A CUPTI without a GPU: it keeps the callbacks that are registered, and feeds them what the test
/// says. One lives at a time; `deliver` and `drop` may be called by several threads.
class CuptiReplay {
 public:
  CuptiReplay() { current() = this; }
  ~CuptiReplay() { current() = nullptr; }
  CuptiReplay(const CuptiReplay&) = delete;
  CuptiReplay& operator=(const CuptiReplay&) = delete;

  // What it answers.
  CUptiResult subscribe_result = CUPTI_SUCCESS;
  std::string holder;  // Of the subscription, for a conflict.
  CUptiResult register_result = CUPTI_SUCCESS;
  std::map<CUpti_ActivityKind, CUptiResult> enable_results;
  std::int64_t clock_skew_ns = 0;

  // What it was told.
  bool is_subscribed = false;
  bool is_zeroed_out = false;
  int num_registrations = 0;
  std::string subscriber_name;
  std::set<CUpti_ActivityKind> enabled;
  std::set<CUpti_CallbackId> enabled_callbacks;  // Of the resource domain.
  std::set<std::string> enabled_calls;           // Of the runtime and the driver, by name.
  std::optional<CUpti_ActivityThreadIdType> thread_id_type;
  std::vector<std::uint32_t> flush_flags;
  std::atomic<std::int64_t> num_null_answers = 0;
  std::atomic<std::int64_t> num_dirty_buffers = 0;  // Handed out without being cleared.

  /// Asks for a buffer and hands it over with as many of the records as it holds. Records for which
  /// there is no buffer or no room are dropped and counted, as CUPTI does.
  void deliver(const ActivityRecords& records) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0;
    std::size_t max_num_records = 0;
    request_(&buffer, &size, &max_num_records);
    if (buffer == nullptr) ++num_null_answers;
    const std::vector<std::uint8_t>& bytes = records.bytes();
    if (buffer != nullptr && is_zeroed_out) {
      for (std::size_t i = 0; i < std::min(size, bytes.size()); ++i) {
        if (buffer[i] == 0) continue;
        ++num_dirty_buffers;
        break;
      }
    }
    std::size_t valid_bytes = 0;
    std::size_t place = 0;
    while (place < bytes.size()) {
      const std::size_t length = bytes_at(bytes.data() + place);
      if (buffer == nullptr || valid_bytes + length > size) {
        drop(1);
      } else {
        std::memcpy(buffer + valid_bytes, bytes.data() + place, length);
        valid_bytes += length;
      }
      place += length;
    }
    if (buffer != nullptr) complete_(nullptr, 0, buffer, size, valid_bytes);
  }

  /// Records of a buffer that is not full: they come with the next flush.
  void hold(ActivityRecords records) { held_.push_back(std::move(records)); }

  void drop(std::size_t num_records) { num_dropped_ += num_records; }

  /// What CUPTI says when a stream capture adds a node, and when a graph is instantiated.
  void create_node(std::uint64_t id) {
    CUpti_GraphData data{};
    data.node = handle(id);
    call(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, data);
  }
  void clone_node(std::uint64_t id, std::uint64_t original_id) {
    CUpti_GraphData data{};
    data.node = handle(id);
    data.originalNode = handle(original_id);
    call(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, data);
  }

  /// The functions of this replay; all are set.
  static CuptiApi api() {
    CuptiApi api;
    api.subscribe = [](CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                       void* user_data, CUpti_SubscriberParams* params) {
      CuptiReplay& self = *current();
      if (self.subscribe_result == CUPTI_SUCCESS && self.is_subscribed) {
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
      }
      if (self.subscribe_result != CUPTI_SUCCESS) {
        std::strncpy(params->oldSubscriberName, self.holder.c_str(), params->oldSubscriberSize - 1);
        return self.subscribe_result;
      }
      self.subscriber_name = params->subscriberName;
      self.is_subscribed = true;
      self.callback_ = callback;
      self.user_data_ = user_data;
      *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&self);
      return CUPTI_SUCCESS;
    };
    api.unsubscribe = [](CUpti_SubscriberHandle) {
      current()->is_subscribed = false;
      current()->enabled_callbacks.clear();
      return CUPTI_SUCCESS;
    };
    api.enable_callback = [](std::uint32_t is_on, CUpti_SubscriberHandle, CUpti_CallbackDomain,
                             CUpti_CallbackId cbid) {
      if (is_on != 0) {
        current()->enabled_callbacks.insert(cbid);
      } else {
        current()->enabled_callbacks.erase(cbid);
      }
      return CUPTI_SUCCESS;
    };
    api.register_callbacks = [](CUpti_BuffersCallbackRequestFunc request,
                                CUpti_BuffersCallbackCompleteFunc complete) {
      CuptiReplay& self = *current();
      if (self.register_result != CUPTI_SUCCESS) return self.register_result;
      ++self.num_registrations;
      self.request_ = request;
      self.complete_ = complete;
      return CUPTI_SUCCESS;
    };
    api.set_attribute = [](CUpti_ActivityAttribute attribute, std::size_t*, void* value) {
      if (attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) {
        current()->is_zeroed_out = *static_cast<std::uint8_t*>(value) == 1;
      }
      return CUPTI_SUCCESS;
    };
    api.enable = [](CUpti_ActivityKind kind) {
      const auto result = current()->enable_results.find(kind);
      if (result != current()->enable_results.end()) return result->second;
      current()->enabled.insert(kind);
      return CUPTI_SUCCESS;
    };
    api.disable = [](CUpti_ActivityKind kind) {
      return current()->enabled.erase(kind) == 1 ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
    };
    api.enable_runtime_call = [](CUpti_CallbackId cbid, std::uint8_t is_on) {
      return enable_call(CUPTI_CB_DOMAIN_RUNTIME_API, cbid, is_on != 0);
    };
    api.enable_driver_call = [](CUpti_CallbackId cbid, std::uint8_t is_on) {
      return enable_call(CUPTI_CB_DOMAIN_DRIVER_API, cbid, is_on != 0);
    };
    api.set_thread_id_type = [](CUpti_ActivityThreadIdType type) {
      current()->thread_id_type = type;
      return CUPTI_SUCCESS;
    };
    api.flush_all = [](std::uint32_t flags) {
      CuptiReplay& self = *current();
      self.flush_flags.push_back(flags);
      for (const ActivityRecords& records : std::exchange(self.held_, {})) self.deliver(records);
      return CUPTI_SUCCESS;
    };
    api.next_record = [](std::uint8_t* buffer, std::size_t valid_bytes, CUpti_Activity** record) {
      std::uint8_t* next = buffer;
      if (*record != nullptr) {
        auto* last = reinterpret_cast<std::uint8_t*>(*record);
        next = last + bytes_at(last);
      }
      if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
      if (bytes_at(next) == 0) return CUPTI_ERROR_INVALID_KIND;
      *record = reinterpret_cast<CUpti_Activity*>(next);
      return CUPTI_SUCCESS;
    };
    api.num_dropped = [](CUcontext, std::uint32_t, std::size_t* count) {
      *count = current()->num_dropped_.exchange(0);
      return CUPTI_SUCCESS;
    };
    api.timestamp = [](std::uint64_t* time) {
      *time = static_cast<std::uint64_t>(unix_now_ns() + current()->clock_skew_ns);
      return CUPTI_SUCCESS;
    };
    api.callback_name = [](CUpti_CallbackDomain domain, std::uint32_t cbid, const char** name) {
      const bool is_driver = domain == CUPTI_CB_DOMAIN_DRIVER_API;
      if (!is_driver && cbid == 211) {
        *name = "cudaLaunchKernel_v7000";
      } else if (!is_driver && cbid == 311) {
        *name = "cudaGraphLaunch_v10000";
      } else if (!is_driver && cbid == 17) {
        *name = "cudaGetDevice_v3020";
      } else if (is_driver && cbid == 307) {
        *name = "cuLaunchKernel";
      } else if (is_driver && cbid == 500) {
        *name = "cuDevicePrimaryCtxGetState";
      } else {
        return CUPTI_ERROR_INVALID_PARAMETER;
      }
      return CUPTI_SUCCESS;
    };
    api.graph_node_id = [](CUgraphNode node, std::uint64_t* id) {
      if (node == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
      *id = static_cast<std::uint64_t>(reinterpret_cast<char*>(node) - slots());
      return CUPTI_SUCCESS;
    };
    api.result_string = [](CUptiResult result, const char** text) {
      *text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
              : result == CUPTI_ERROR_NOT_INITIALIZED       ? "CUPTI_ERROR_NOT_INITIALIZED"
                                                            : nullptr;
      return *text == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
    };
    api.version = [](std::uint32_t* version) {
      *version = CUPTI_API_VERSION;
      return CUPTI_SUCCESS;
    };
    return api;
  }

 private:
  static CuptiReplay*& current() {
    static CuptiReplay* replay = nullptr;
    return replay;
  }

  static CUptiResult enable_call(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, bool is_on) {
    const char* name = nullptr;
    if (api().callback_name(domain, cbid, &name) != CUPTI_SUCCESS) {
      return CUPTI_ERROR_INVALID_PARAMETER;
    }
    if (is_on) {
      current()->enabled_calls.insert(name);
    } else {
      current()->enabled_calls.erase(name);
    }
    return CUPTI_SUCCESS;
  }

  static std::size_t bytes_at(const std::uint8_t* record) {
    CUpti_ActivityKind kind{};
    std::memcpy(&kind, record, sizeof(kind));
    return activity_bytes(kind);
  }

  // Handles are addresses of these, so that no number has to pass for a pointer.
  static char* slots() {
    static char bytes[256];
    return bytes;
  }
  static CUgraphNode handle(std::uint64_t id) {
    return reinterpret_cast<CUgraphNode>(slots() + id);
  }

  void call(CUpti_CallbackId cbid, CUpti_GraphData& data) {
    if (!enabled_callbacks.contains(cbid)) return;
    CUpti_ResourceData resource{};
    resource.resourceDescriptor = &data;
    callback_(user_data_, CUPTI_CB_DOMAIN_RESOURCE, cbid, &resource);
  }

  CUpti_CallbackFunc callback_ = nullptr;
  void* user_data_ = nullptr;
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::vector<ActivityRecords> held_;
  std::atomic<std::size_t> num_dropped_ = 0;
};

}  // namespace steplens
