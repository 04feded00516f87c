#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "profilers/cupti/activity_decoder.h"
#include "profilers/cupti/cupti_api.h"
#include "profilers/trace/range_recorder.h"
#include "profilers/trace/slab_pool.h"

namespace steplens {

struct CollectorOptions {
  /// One record a graph launch instead of one a node (run kind graph-trace).
  bool is_whole_graph = false;
  /// Only what the device does, and its records are thrown away: what CUPTI itself costs, to
  /// compare the collector with.
  bool is_null = false;
  std::uint32_t num_slabs = 64;
  std::size_t slab_bytes = std::size_t{4} << 20;
};

/// Collects CUPTI's activity of this process. At most one lives at a time: CUPTI's callbacks carry
/// no user data.
///
/// On the application's threads it pops a preallocated slab or hands a full one over; a thread of
/// its own decodes. Only what ran after `open_window` is kept.
class CuptiCollector {
 public:
  /// All three outlive this.
  CuptiCollector(const CuptiApi& cupti, StringTable& names, RangeRecorder& ranges,
                 const CollectorOptions& options);
  ~CuptiCollector();
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  /// Subscribes and enables what is to be recorded; call before the process's first CUDA call.
  /// DeviceError names who else traces this process, or what CUPTI refused.
  void start();

  void open_window(std::int64_t start_ns) { window_start_ns_ = start_ns; }

  /// Call when the device has finished all work of the window: takes the buffers without force,
  /// stops recording, and waits for the decoder. Nothing is recorded afterwards.
  void stop();

  /// After `stop`: the records and quality counters.
  RawRecords take_records();

  GraphNodeOrigins node_origins() const;

  /// Reads both clocks around each other: how far CUPTI's is from ours, ns.
  void bracket_clocks();

  // For CUPTI's callbacks.
  void request_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_num_records);
  void complete_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                       std::size_t valid_bytes);
  void on_graph_node(CUpti_CallbackId cbid, const CUpti_GraphData& data);

 private:
  struct FullBuffer {
    std::uint8_t* memory = nullptr;
    std::size_t valid_bytes = 0;
    std::int64_t completed_ns = 0;
  };
  void subscribe();
  void enable_kinds();
  void enable_calls(bool is_on);
  void decode_buffers();
  void count_dropped(CUcontext context, std::uint32_t stream);

  const CuptiApi& cupti_;
  RangeRecorder& ranges_;
  const CollectorOptions options_;
  SlabPool slabs_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool is_started_ = false;
  std::atomic<std::int64_t> window_start_ns_;
  std::atomic<std::int64_t> num_dropped_ = 0;

  mutable std::mutex nodes_mutex_;
  GraphNodeOrigins nodes_;

  std::mutex queue_mutex_;
  std::condition_variable queue_changed_;
  std::vector<FullBuffer> queue_;  // Never holds more than there are slabs.
  bool is_stopping_ = false;

  ActivityDecoder decoder_;  // Of the decode thread alone while that runs.
  std::int64_t max_decode_lag_ns_ = 0;
  std::int64_t decode_cpu_ns_ = 0;
  std::int64_t max_clock_residual_ns_ = 0;
  std::thread thread_;
};

}  // namespace steplens
