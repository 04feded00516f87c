#include "profilers/cupti/cupti_collector.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "harness/error.h"
#include "profilers/cupti/api_calls.h"

namespace steplens {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::atomic<CuptiCollector*> live_collector = nullptr;

void CUPTIAPI on_buffer_requested(std::uint8_t** buffer, std::size_t* size,
                                  std::size_t* max_num_records) {
  CuptiCollector* collector = live_collector;
  if (collector == nullptr) {
    *buffer = nullptr;
    *size = *max_num_records = 0;
    return;
  }
  collector->request_buffer(buffer, size, max_num_records);
}

void CUPTIAPI on_buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                  std::size_t /*size*/, std::size_t valid_bytes) {
  CuptiCollector* collector = live_collector;
  if (collector != nullptr) collector->complete_buffer(context, stream, buffer, valid_bytes);
}

void CUPTIAPI on_callback(void* user_data, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                          const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE) return;
  const auto* resource = static_cast<const CUpti_ResourceData*>(data);
  const auto* graph = static_cast<const CUpti_GraphData*>(resource->resourceDescriptor);
  if (graph == nullptr) return;
  static_cast<CuptiCollector*>(user_data)->on_graph_node(cbid, *graph);
}

std::int64_t thread_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

constexpr std::array kGraphNodeCallbacks = {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
                                            CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};

}  // namespace

CuptiCollector::CuptiCollector(const CuptiApi& cupti, StringTable& names, RangeRecorder& ranges,
                               const CollectorOptions& options)
    : cupti_(cupti),
      ranges_(ranges),
      options_(options),
      slabs_(options.num_slabs, options.slab_bytes),
      window_start_ns_(kNever),
      decoder_(cupti, names) {
  queue_.reserve(options.num_slabs);  // So that no callback allocates.
}

CuptiCollector::~CuptiCollector() {
  try {
    stop();
  } catch (const std::exception& error) {  // No memory left for the counters, or no thread to join.
    std::fprintf(stderr, "steplens: the trace could not be ended: %s\n", error.what());
  }
  if (subscriber_ != nullptr) cupti_.unsubscribe(subscriber_);
  CuptiCollector* self = this;
  live_collector.compare_exchange_strong(self, nullptr);
}

void CuptiCollector::subscribe() {
  std::array<char, CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN> holder{};
  CUpti_SubscriberParams params{};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.subscriberName = "steplens";
  params.oldSubscriberName = holder.data();
  params.oldSubscriberSize = holder.size();
  const CUptiResult result = cupti_.subscribe(&subscriber_, on_callback, this, &params);
  if (result == CUPTI_SUCCESS) return;
  subscriber_ = nullptr;
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    throw DeviceError(fmt::format(
        "cannot trace: {} uses CUPTI in this process already, and CUPTI serves one at a time; run "
        "without it (nsys, ncu, compute-sanitizer, cuda-gdb and torch.profiler are such)",
        holder[0] == '\0' ? "another profiler" : fmt::format("\"{}\"", holder.data())));
  }
  throw DeviceError(fmt::format("cannot trace: cuptiSubscribe: {}", describe(cupti_, result)));
}

void CuptiCollector::enable_kinds() {
  // Slabs come cleared, so CUPTI need not clear them on the application's thread.
  std::uint8_t is_zeroed = 1;
  std::size_t size = sizeof(is_zeroed);
  cupti_.set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &is_zeroed);
  const auto enable = [&](CUpti_ActivityKind kind, std::string_view what) {
    const CUptiResult result = cupti_.enable(kind);
    if (result == CUPTI_SUCCESS) return;
    throw DeviceError(
        fmt::format("cannot trace {}: cuptiActivityEnable: {}", what, describe(cupti_, result)));
  };
  // CONCURRENT_KERNEL: plain KERNEL lets one kernel run at a time.
  enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels");
  if (options_.is_whole_graph) enable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "graphs");
  enable(CUPTI_ACTIVITY_KIND_MEMCPY, "copies");
  enable(CUPTI_ACTIVITY_KIND_MEMCPY2, "peer copies");
  enable(CUPTI_ACTIVITY_KIND_MEMSET, "memsets");
  if (options_.is_null) return;
  enable(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronisation");
  enable(CUPTI_ACTIVITY_KIND_OVERHEAD, "the profiler's own cost");
  enable(CUPTI_ACTIVITY_KIND_DEVICE, "devices");
  enable_calls(true);
}

void CuptiCollector::enable_calls(bool is_on) {
  for (const ApiCall& call : recorded_calls(cupti_)) {
    const auto enable = call.is_driver ? cupti_.enable_driver_call : cupti_.enable_runtime_call;
    const CUptiResult result = enable(call.cbid, is_on ? 1 : 0);
    if (result == CUPTI_SUCCESS || !is_on) continue;
    throw DeviceError(fmt::format("cannot trace {}: cuptiActivityEnable{}Api: {}", call.name,
                                  call.is_driver ? "Driver" : "Runtime", describe(cupti_, result)));
  }
}

void CuptiCollector::start() {
  CuptiCollector* none = nullptr;
  if (!live_collector.compare_exchange_strong(none, this)) {
    throw DeviceError("cannot trace: this process is being traced by Steplens already");
  }
  subscribe();
  for (const CUpti_CallbackIdResource cbid : kGraphNodeCallbacks) {
    cupti_.enable_callback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, cbid);
  }
  const CUptiResult result = cupti_.register_callbacks(on_buffer_requested, on_buffer_completed);
  if (result != CUPTI_SUCCESS) {
    throw DeviceError(
        fmt::format("cannot trace: cuptiActivityRegisterCallbacks: {}", describe(cupti_, result)));
  }
  // The default is the address of a pthread, and NVTX ranges know their thread by gettid.
  cupti_.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  thread_ = std::thread([this] { decode_buffers(); });
  is_started_ = true;
  enable_kinds();
  bracket_clocks();
}

void CuptiCollector::bracket_clocks() {
  // The tightest of a few tries: one that was interrupted says nothing.
  std::int64_t tightest_ns = kNever;
  std::int64_t residual_ns = 0;
  for (int i = 0; i < 5; ++i) {
    const std::int64_t before_ns = unix_now_ns();
    std::uint64_t cupti_ns = 0;
    if (cupti_.timestamp(&cupti_ns) != CUPTI_SUCCESS) return;
    const std::int64_t after_ns = unix_now_ns();
    if (after_ns - before_ns >= tightest_ns) continue;
    tightest_ns = after_ns - before_ns;
    const std::int64_t middle_ns = before_ns + (after_ns - before_ns) / 2;
    residual_ns = std::abs(static_cast<std::int64_t>(cupti_ns) - middle_ns);
  }
  max_clock_residual_ns_ = std::max(max_clock_residual_ns_, residual_ns);
}

void CuptiCollector::request_buffer(std::uint8_t** buffer, std::size_t* size,
                                    std::size_t* max_num_records) {
  *buffer = slabs_.take();
  *size = *buffer == nullptr ? 0 : slabs_.slab_bytes();
  *max_num_records = 0;
}

void CuptiCollector::count_dropped(CUcontext context, std::uint32_t stream) {
  std::size_t num_dropped = 0;  // Since the last time that it was asked for.
  if (cupti_.num_dropped(context, stream, &num_dropped) != CUPTI_SUCCESS) return;
  num_dropped_ += static_cast<std::int64_t>(num_dropped);
}

void CuptiCollector::complete_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                     std::size_t valid_bytes) {
  count_dropped(context, stream);
  if (buffer == nullptr) return;
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back({.memory = buffer, .valid_bytes = valid_bytes, .completed_ns = unix_now_ns()});
  }
  queue_changed_.notify_one();
}

void CuptiCollector::decode_buffers() {
  std::vector<FullBuffer> batch;
  batch.reserve(options_.num_slabs);
  while (true) {
    batch.clear();
    {
      std::unique_lock lock(queue_mutex_);
      queue_changed_.wait(lock, [&] { return is_stopping_ || !queue_.empty(); });
      if (queue_.empty()) break;
      std::swap(batch, queue_);
    }
    for (const FullBuffer& full : batch) {
      if (!options_.is_null) decoder_.decode(full.memory, full.valid_bytes, window_start_ns_);
      std::memset(full.memory, 0, full.valid_bytes);
      slabs_.give(full.memory);
      max_decode_lag_ns_ = std::max(max_decode_lag_ns_, unix_now_ns() - full.completed_ns);
    }
  }
  decode_cpu_ns_ = thread_cpu_ns();
}

void CuptiCollector::on_graph_node(CUpti_CallbackId cbid, const CUpti_GraphData& data) {
  std::uint64_t id = 0;
  if (cupti_.graph_node_id(data.node, &id) != CUPTI_SUCCESS) return;
  if (cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) {
    const GraphNodeOrigin origin{.range = ranges_.current_range(),
                                 .step_range = ranges_.step_thread_range()};
    const std::lock_guard lock(nodes_mutex_);
    // An edited graph announces all of its nodes anew; where they were captured stands.
    nodes_.try_emplace(id, origin);
    return;
  }
  std::uint64_t original_id = 0;
  if (cupti_.graph_node_id(data.originalNode, &original_id) != CUPTI_SUCCESS) return;
  const std::lock_guard lock(nodes_mutex_);
  const auto it = nodes_.find(original_id);
  if (it != nodes_.end()) {
    const GraphNodeOrigin origin = it->second;
    nodes_[id] = origin;
  }
}

GraphNodeOrigins CuptiCollector::node_origins() const {
  const std::lock_guard lock(nodes_mutex_);
  return nodes_;
}

void CuptiCollector::stop() {
  if (!is_started_) return;
  is_started_ = false;
  bracket_clocks();
  // 0: complete records only. A forced flush would return what still runs without its end.
  cupti_.flush_all(0);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET,
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_OVERHEAD,
        CUPTI_ACTIVITY_KIND_DEVICE}) {
    cupti_.disable(kind);
  }
  if (!options_.is_null) enable_calls(false);
  for (const CUpti_CallbackIdResource cbid : kGraphNodeCallbacks) {
    cupti_.enable_callback(0, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, cbid);
  }
  cupti_.flush_all(0);
  count_dropped(nullptr, 0);
  {
    const std::lock_guard lock(queue_mutex_);
    is_stopping_ = true;
  }
  queue_changed_.notify_one();
  thread_.join();

  std::map<std::string, std::int64_t>& counters = decoder_.records().quality;
  counters[std::string(quality::kDropped)] = num_dropped_;
  counters[std::string(quality::kNullRequests)] = slabs_.num_refused();
  counters[std::string(quality::kPeakSlabs)] = slabs_.peak_taken();
  counters[std::string(quality::kMaxDecodeLagNs)] = max_decode_lag_ns_;
  counters[std::string(quality::kClockResidualNs)] = max_clock_residual_ns_;
  counters["decode_cpu_ns"] = decode_cpu_ns_;
  counters["decoded_records"] = decoder_.num_decoded();
}

RawRecords CuptiCollector::take_records() {
  SL_CHECK(!is_started_);
  return std::move(decoder_.records());
}

}  // namespace steplens
