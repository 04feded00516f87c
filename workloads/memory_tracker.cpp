#include "workloads/memory_tracker.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "harness/error.h"
#include "harness/trace/range_names.h"
#include "workloads/autograd_ranges.h"
#include "workloads/ranges.h"

namespace steplens {
namespace {

using c10::CachingDeviceAllocator::TraceEntry;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
std::int64_t now_unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

MemoryOwner owner_of(Phase phase) {
  switch (phase) {
    case Phase::kForward:
    case Phase::kBackward: return MemoryOwner::kActivations;
    case Phase::kData: return MemoryOwner::kData;
    case Phase::kClip:
    case Phase::kOptimizer:
    case Phase::kOther: return MemoryOwner::kWorkspace;
    case Phase::kNone: break;
  }
  return MemoryOwner::kUnknown;
}

// The rows of Trace::ranges, made as paths come up.
class RangeTable {
 public:
  // Row of what is open: backward nodes share the row of their forward operator.
  std::uint32_t row_of(Phase phase, std::string_view modules) {
    if (phase == Phase::kNone && modules.empty()) return kNoRow;
    std::uint32_t row = child(kNoRow, kStepRangeName);
    const bool is_in_micro_step = phase == Phase::kForward || phase == Phase::kBackward;
    if (is_in_micro_step) row = child(row, kMicroStepRangeName);
    const bool is_backward_module = phase == Phase::kBackward && !modules.empty();
    const Phase of_row = is_backward_module ? Phase::kForward : phase;
    if (of_row != Phase::kNone) row = child(row, name_of(of_row));
    while (!modules.empty()) {
      const std::size_t slash = std::min(modules.find('/'), modules.size());
      row = child(row, modules.substr(0, slash));
      modules.remove_prefix(std::min(slash + 1, modules.size()));
    }
    return row;
  }

  void fill(Trace& trace) const {
    trace.strings = strings_;
    trace.ranges = ranges_;
  }

 private:
  std::uint32_t child(std::uint32_t parent, std::string_view name) {
    const auto [it, is_new] =
        rows_.try_emplace({parent, std::string(name)}, static_cast<std::uint32_t>(ranges_.size()));
    if (is_new) {
      ranges_.push_back({.name = static_cast<StringId>(strings_.size()), .parent = parent});
      strings_.emplace_back(name);
    }
    return it->second;
  }

  std::vector<std::string> strings_ = {""};
  std::vector<Range> ranges_;
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> rows_;
};

struct Sample {
  std::int64_t time_ns;
  std::int64_t bytes;
};

}  // namespace

// What the allocators call, on any thread and, on CUDA, under the allocator's lock: it takes its
// own mutex only, and whoever holds that calls nothing that allocates tensors.
class MemoryTracker::Recorder final : public c10::MemoryReportingInfoBase {
 public:
  explicit Recorder(bool is_cuda)
      : is_cuda_(is_cuda),
        device_index_(is_cuda ? c10::cuda::current_device() : c10::DeviceIndex{-1}),
        id_(++last_id) {
    restart_clock();
  }

  bool memoryProfilingEnabled() const override { return !is_stopped_; }

  void reportMemoryUsage(void* pointer, std::int64_t bytes, std::size_t total_allocated,
                         std::size_t total_reserved, c10::Device device) override {
    if (!is_mine(device) || pointer == nullptr || is_stopped_) return;
    const std::scoped_lock lock(mutex_);
    if (bytes >= 0) {
      add_alloc(address_of(pointer), bytes, /*is_rounded=*/true);
    } else {
      add_free(address_of(pointer));
    }
    if (!is_cuda_) return;
    add_reserved(static_cast<std::int64_t>(total_reserved));
    const std::int64_t error = live_bytes_ - static_cast<std::int64_t>(total_allocated);
    max_error_bytes_ = std::max(max_error_bytes_, error < 0 ? -error : error);
  }

  void reportOutOfMemory(std::int64_t bytes, std::size_t /*total_allocated*/,
                         std::size_t /*total_reserved*/, c10::Device device) override {
    if (!is_mine(device) || is_cuda_) return;  // CUDA: on_trace_entry.
    const std::scoped_lock lock(mutex_);
    add_row(AllocAction::kOutOfMemory, 0, bytes);
  }

  // CUDA: sees every thread, also those that report nothing, but not the rounded size of a block.
  void on_trace_entry(const TraceEntry& entry) {
    if (entry.device_ != device_index_ || is_stopped_) return;
    const auto bytes = static_cast<std::int64_t>(entry.size_);
    const std::scoped_lock lock(mutex_);
    switch (entry.action_) {
      case TraceEntry::ALLOC: add_alloc(entry.addr_, bytes, /*is_rounded=*/false); break;
      case TraceEntry::FREE_REQUESTED: add_free(entry.addr_); break;
      case TraceEntry::FREE_COMPLETED:
      case TraceEntry::SNAPSHOT: break;
      case TraceEntry::SEGMENT_ALLOC:
        add_row(AllocAction::kSegmentAlloc, entry.addr_, bytes);
        break;
      case TraceEntry::SEGMENT_FREE: add_row(AllocAction::kSegmentFree, entry.addr_, bytes); break;
      case TraceEntry::SEGMENT_MAP: add_row(AllocAction::kSegmentMap, entry.addr_, bytes); break;
      case TraceEntry::SEGMENT_UNMAP:
        add_row(AllocAction::kSegmentUnmap, entry.addr_, bytes);
        break;
      case TraceEntry::OOM: add_row(AllocAction::kOutOfMemory, 0, bytes); break;
    }
  }

  void own(std::uint64_t address, MemoryOwner owner) {
    const std::scoped_lock lock(mutex_);
    if (const auto it = live_.find(address); it != live_.end()) {
      rows_[it->second.row].owner = owner;
      it->second.is_owned = true;
    }
  }

  // What is allocated already, from the allocator's list.
  void take_over_live_blocks() {
    const auto snapshot = c10::cuda::CUDACachingAllocator::snapshot({0, 0}, false);
    const std::scoped_lock lock(mutex_);
    for (const auto& segment : snapshot.segments) {
      if (segment.device != device_index_) continue;
      std::uint64_t address = segment.address;
      for (const auto& block : segment.blocks) {
        if (block.allocated && !live_.contains(address)) {
          add_alloc(address, static_cast<std::int64_t>(block.size), /*is_rounded=*/true);
        }
        address += block.size;
      }
    }
  }

  void begin_window() {
    c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot;
    std::int64_t reserved_bytes = 0;
    if (is_cuda_) {
      snapshot = c10::cuda::CUDACachingAllocator::snapshot({0, 0}, /*include_traces=*/false);
      const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_index_);
      reserved_bytes =
          stats.reserved_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)]
              .current;
    }
    const std::scoped_lock lock(mutex_);
    restart_clock();
    std::vector<Alloc> before = std::exchange(rows_, {});
    std::vector<std::pair<std::size_t, std::uint64_t>> live;  // In the order of allocation.
    live.reserve(live_.size());
    for (const auto& [address, entry] : live_) live.emplace_back(entry.row, address);
    std::ranges::sort(live);
    for (const auto& [row, address] : live) {
      Alloc alloc = before[row];
      alloc.time_ns = start_ns_;
      alloc.step_index = -1;
      if (alloc.owner == MemoryOwner::kActivations || alloc.owner == MemoryOwner::kUnknown) {
        alloc.owner = MemoryOwner::kWorkspace;
      }
      live_[address].row = rows_.size();
      rows_.push_back(alloc);
    }
    for (const auto& segment : snapshot.segments) {
      if (segment.device == device_index_ &&
          segment.owner_private_pool_id != c10::MempoolId_t{0, 0}) {
        take_over_private_segment(segment);
      }
    }
    steps_.clear();
    reserved_.clear();
    driver_used_.clear();
    if (is_cuda_) {
      add_reserved(reserved_bytes);
      sample_driver();
    }
    num_unmatched_frees_ = num_unseen_frees_ = num_unrounded_ = 0;
    max_error_bytes_ = 0;
    is_window_ = true;
  }

  void begin_step(std::int64_t step_number) {
    const std::scoped_lock lock(mutex_);
    steps_.push_back({.start_ns = now_ns(), .end_ns = now_ns(), .first_step_number = step_number});
    is_in_step_ = true;
  }

  void end_step() {
    const std::scoped_lock lock(mutex_);
    if (steps_.empty()) return;
    steps_.back().end_ns = now_ns();
    is_in_step_ = false;
    if (is_cuda_) sample_driver();
  }

  void stop() { is_stopped_ = true; }

  Trace trace(const nlohmann::json& info) const {
    const std::scoped_lock lock(mutex_);
    Trace trace;
    ranges_.fill(trace);
    trace.info = info;
    trace.info["start_unix_ns"] = start_unix_ns_;
    trace.info["is_window"] = is_window_;
    trace.allocs = rows_;
    for (Alloc& alloc : trace.allocs) alloc.time_ns -= start_ns_;
    trace.steps = steps_;
    for (Step& step : trace.steps) {
      step.start_ns -= start_ns_;
      step.end_ns -= start_ns_;
    }
    const auto text = [&](std::string_view words) {
      trace.strings.emplace_back(words);
      return static_cast<StringId>(trace.strings.size() - 1);
    };
    trace.devices.push_back({.name = text(is_cuda_ ? "cuda" : "cpu")});
    add_track(trace, text, "allocated", allocated_samples());
    add_track(trace, text, "reserved", reserved_);
    add_track(trace, text, "driver_used", driver_used_);
    trace.quality = {{"unmatched_frees", num_unmatched_frees_},
                     {"unseen_frees", num_unseen_frees_},
                     {"unrounded", num_unrounded_},
                     {"account_error_bytes", max_error_bytes_}};
    return trace;
  }

  bool is_cuda() const { return is_cuda_; }

 private:
  struct Live {
    std::size_t row = 0;
    bool is_rounded = true;
    bool is_owned = false;  // `own` said whose it is.
  };

  // What is open on this thread, looked up again only when it has changed.
  struct OpenRow {
    std::uint64_t recorder_id = 0, ranges_version = 0, node_version = 0;
    Phase phase = Phase::kNone;
    std::uint32_t range = kNoRow;
  };

  bool is_mine(c10::Device device) const {
    return is_cuda_ ? device.is_cuda() && device.index() == device_index_ : device.is_cpu();
  }

  void restart_clock() {
    start_ns_ = now_ns();
    start_unix_ns_ = now_unix_ns();
  }

  const OpenRow& open_row() {
    thread_local OpenRow open;
    const OpenNode node = open_node();
    const std::uint64_t ranges_version = open_ranges_version();
    if (open.recorder_id == id_ && open.ranges_version == ranges_version &&
        open.node_version == node.version) {
      return open;
    }
    Phase phase = open_phase();
    std::string modules = open_modules();
    // Autograd's own threads know no phase; what a node runs again (checkpointing) names itself.
    if (node.is_open && phase == Phase::kNone) phase = Phase::kBackward;
    if (node.is_open && phase == Phase::kBackward && modules.empty()) modules = node.modules;
    open = {.recorder_id = id_,
            .ranges_version = ranges_version,
            .node_version = node.version,
            .phase = phase,
            .range = ranges_.row_of(phase, modules)};
    return open;
  }

  Alloc& add_row(AllocAction action, std::uint64_t address, std::int64_t bytes) {
    const OpenRow& open = open_row();
    return rows_.emplace_back(
        Alloc{.time_ns = now_ns(),
              .address = address,
              .bytes = bytes,
              .range = open.range,
              .step_index = is_in_step_ ? static_cast<std::int32_t>(steps_.size()) - 1 : -1,
              .action = action,
              .phase = open.phase});
  }

  void add_alloc(std::uint64_t address, std::int64_t bytes, bool is_rounded) {
    if (const auto it = live_.find(address); it != live_.end()) {
      Live& live = it->second;
      if (is_rounded && !live.is_rounded) {
        // The second report of one allocation, with the size of the block that it got.
        live.is_rounded = true;
        --num_unrounded_;
        live_bytes_ += bytes - rows_[live.row].bytes;
        rows_[live.row].bytes = bytes;
        return;
      }
      ++num_unseen_frees_;
      free_live(it);
    }
    live_[address] = {.row = rows_.size(), .is_rounded = is_rounded};
    Alloc& row = add_row(AllocAction::kAlloc, address, bytes);
    row.owner = owner_of(row.phase);
    live_bytes_ += bytes;
    if (!is_rounded) ++num_unrounded_;
  }

  void add_free(std::uint64_t address) {
    const auto it = live_.find(address);
    if (it != live_.end()) {
      free_live(it);
    } else if (!is_cuda_) {
      ++num_unmatched_frees_;  // CUDA: its second report.
    }
  }

  void free_live(std::unordered_map<std::uint64_t, Live>::iterator it) {
    const std::int64_t bytes = rows_[it->second.row].bytes;
    add_row(AllocAction::kFree, it->first, bytes);
    live_bytes_ -= bytes;
    live_.erase(it);
  }

  void take_over_private_segment(const c10::CachingDeviceAllocator::SegmentInfo& segment) {
    std::uint64_t address = segment.address;
    for (const auto& block : segment.blocks) {
      const auto it = live_.find(address);
      if (it != live_.end()) {
        if (!it->second.is_owned) rows_[it->second.row].owner = MemoryOwner::kGraphPool;
      } else if (!block.allocated) {
        // Not in `live_`, nor in the allocator's total: no free will ever come.
        rows_.push_back({.time_ns = start_ns_,
                         .address = address,
                         .bytes = static_cast<std::int64_t>(block.size),
                         .action = AllocAction::kAlloc,
                         .owner = MemoryOwner::kGraphPool});
      }
      address += block.size;
    }
  }

  void add_reserved(std::int64_t bytes) {
    if (reserved_.empty() || reserved_.back().bytes != bytes)
      reserved_.push_back({now_ns(), bytes});
  }

  void sample_driver() {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) return;
    driver_used_.push_back({now_ns(), static_cast<std::int64_t>(total_bytes - free_bytes)});
  }

  std::vector<Sample> allocated_samples() const {
    std::vector<Sample> samples;
    std::int64_t bytes = 0;
    for (const Alloc& row : rows_) {
      if (row.action != AllocAction::kAlloc && row.action != AllocAction::kFree) continue;
      bytes += row.action == AllocAction::kAlloc ? row.bytes : -row.bytes;
      if (!samples.empty() && samples.back().time_ns == row.time_ns) {
        samples.back().bytes = bytes;
      } else {
        samples.push_back({row.time_ns, bytes});
      }
    }
    return samples;
  }

  template <typename Text>
  void add_track(Trace& trace, const Text& text, std::string_view name,
                 const std::vector<Sample>& samples) const {
    const auto track = static_cast<std::uint32_t>(trace.counter_tracks.size());
    CounterTrack& row =
        trace.counter_tracks.emplace_back(CounterTrack{.name = text(name), .unit = text("B")});
    if (samples.empty()) {
      row.absent_reason = text(is_cuda_ ? "it was never reported" : "the CPU has no such memory");
    }
    for (const Sample& sample : samples) {
      trace.counter_samples.push_back({.time_ns = sample.time_ns - start_ns_,
                                       .value = static_cast<double>(sample.bytes),
                                       .track = track});
    }
  }

  static inline std::atomic<std::uint64_t> last_id{0};

  const bool is_cuda_;
  const c10::DeviceIndex device_index_;
  const std::uint64_t id_;  // Tells one recorder's rows from another's in the threads' caches.
  std::atomic<bool> is_stopped_{false};
  mutable std::mutex mutex_;
  std::int64_t start_ns_ = 0;
  std::int64_t start_unix_ns_ = 0;
  bool is_window_ = false;
  bool is_in_step_ = false;
  RangeTable ranges_;
  std::vector<Alloc> rows_;                       // Times of the steady clock.
  std::unordered_map<std::uint64_t, Live> live_;  // By address.
  std::int64_t live_bytes_ = 0;
  std::vector<Step> steps_;
  std::vector<Sample> reserved_, driver_used_;
  std::int64_t num_unmatched_frees_ = 0, num_unseen_frees_ = 0, num_unrounded_ = 0;
  std::int64_t max_error_bytes_ = 0;
};

namespace {

// A tracker cannot be detached from the CUDA allocator, so one for the whole process passes on.
std::mutex listener_mutex;
std::function<void(const TraceEntry&)> listener;

void set_listener(std::function<void(const TraceEntry&)> function) {
  static const bool is_attached = [] {
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([](const TraceEntry& entry) {
      const std::scoped_lock lock(listener_mutex);
      if (listener) listener(entry);
    });
    return true;
  }();
  static_cast<void>(is_attached);
  const std::scoped_lock lock(listener_mutex);
  listener = std::move(function);
}

}  // namespace

MemoryTracker::MemoryTracker(const RunConfig& config)
    : recorder_(std::make_shared<Recorder>(config.device == Device::kCuda)) {
  if (recorder_->is_cuda()) {
    set_listener(
        [recorder = recorder_.get()](const TraceEntry& entry) { recorder->on_trace_entry(entry); });
    recorder_->take_over_live_blocks();
  }
  // The slot of the profiler: both allocators report to whatever stands in it.
  guard_.emplace(c10::DebugInfoKind::PROFILER_STATE, recorder_);
}

MemoryTracker::~MemoryTracker() {
  guard_.reset();
  if (recorder_->is_cuda()) set_listener({});
}

void MemoryTracker::own(const std::vector<at::Tensor>& tensors, MemoryOwner owner) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.has_storage()) {
      recorder_->own(address_of(tensor.storage().data()), owner);
    }
  }
}

void MemoryTracker::begin_window() { recorder_->begin_window(); }
void MemoryTracker::begin_step(std::int64_t step_number) { recorder_->begin_step(step_number); }
void MemoryTracker::end_step() { recorder_->end_step(); }
void MemoryTracker::stop() { recorder_->stop(); }
Trace MemoryTracker::trace(const nlohmann::json& info) const { return recorder_->trace(info); }

}  // namespace steplens
