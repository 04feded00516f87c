#include "workloads/data_feed.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "harness/error.h"
#include "workloads/evidence.h"
#include "workloads/ranges.h"

namespace steplens {
namespace {

// Batches made ahead: one in use, one on its way to the device, two ready.
constexpr std::int64_t kNumSlots = 4;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A step's batch as one flat int64 tensor, so that it is one copy: per micro-batch its tokens, then
// its targets.
struct HostStep {
  struct Shape {
    std::int64_t num_rows, row_length;
  };
  at::Tensor flat;  // Its first `num_values` are used; reused slots may be longer.
  std::int64_t num_values = 0;
  std::vector<Shape> shapes;
  FedStep counts;
};

// Fills `host`, growing its buffer where it is too small.
void fill(HostStep& host, const StepBatch& batch, bool is_pinned) {
  host.num_values = 2 * batch.num_positions;
  host.shapes.clear();
  if (!host.flat.defined() || host.flat.numel() < host.num_values) {
    host.flat = at::empty({host.num_values}, at::TensorOptions(at::kLong).pinned_memory(is_pinned));
  }
  std::int64_t* out = host.flat.mutable_data_ptr<std::int64_t>();
  for (const MicroBatch& micro : batch.micro_batches) {
    out = std::copy(micro.inputs.begin(), micro.inputs.end(), out);
    out = std::copy(micro.targets.begin(), micro.targets.end(), out);
    host.shapes.push_back({micro.num_rows, micro.row_length});
    // A batch is counted by what it holds, so that padding and lengths can be proven.
    count_event("padding_positions", micro.num_positions() - micro.num_valid_tokens);
  }
  host.counts = {.num_positions = batch.num_positions,
                 .num_valid_tokens = batch.num_valid_tokens,
                 .num_loss_tokens = batch.num_loss_tokens};
  host.counts.step.num_loss_tokens = batch.num_loss_tokens_all_ranks;
}

FedStep views_of(const HostStep& host, const at::Tensor& flat) {
  FedStep fed = host.counts;
  std::int64_t offset = 0;
  for (const HostStep::Shape& shape : host.shapes) {
    const std::int64_t count = shape.num_rows * shape.row_length;
    const auto part = [&](std::int64_t begin) {
      return flat.narrow(0, begin, count).view({shape.num_rows, shape.row_length});
    };
    fed.step.micro_batches.push_back(
        {.tokens_BT = part(offset), .targets_BT = part(offset + count)});
    offset += 2 * count;
  }
  return fed;
}

// A thread that makes batches ahead into a ring of slots. It makes no CUDA call except the one-time
// page-locking of its slots, so that it may run beside a graph capture.
class Loader {
 public:
  Loader(BatchSource source, std::int64_t num_steps, bool is_pinned)
      : source_(std::move(source)),
        num_steps_(num_steps),
        is_pinned_(is_pinned),
        thread_([this] { run(); }) {}
  ~Loader() {
    {
      const std::scoped_lock lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Waits for the next batch. The caller gives it back by `recycle` when its memory is free.
  HostStep take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || error_ != nullptr; });
    if (ready_.empty()) std::rethrow_exception(error_);
    HostStep step = std::move(ready_.front());
    ready_.pop_front();
    return step;
  }

  void recycle(HostStep step) {
    {
      const std::scoped_lock lock(mutex_);
      free_.push_back(std::move(step));
    }
    changed_.notify_all();
  }

 private:
  void run() {
    // Whoever accounts for memory on the thread that made this one accounts for it here too.
    const c10::DebugInfoGuard debug_info(debug_info_);
    try {
      for (std::int64_t i = 0; i < num_steps_; ++i) {
        HostStep slot;
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock,
                        [&] { return is_stopping_ || !free_.empty() || num_made_ < kNumSlots; });
          if (is_stopping_) return;
          if (free_.empty()) {
            ++num_made_;
          } else {
            slot = std::move(free_.front());
            free_.pop_front();
          }
        }
        {
          const ScopedRange range("data");
          fill(slot, source_(i), is_pinned_);
        }
        count_event("loader_thread_batches");
        {
          const std::scoped_lock lock(mutex_);
          ready_.push_back(std::move(slot));
        }
        changed_.notify_all();
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  BatchSource source_;
  std::int64_t num_steps_;
  bool is_pinned_;
  std::shared_ptr<c10::ThreadLocalDebugInfo> debug_info_ = c10::ThreadLocalDebugInfo::current();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<HostStep> ready_, free_;
  std::int64_t num_made_ = 0;
  bool is_stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // Last: it starts when all else is there.
};

class SyncFeed final : public DataFeed {
 public:
  SyncFeed(const RunConfig& config, BatchSource source)
      : device_(config.device),
        source_(std::move(source)) {}

  FedStep next() override {
    const ScopedRange range("data");
    const std::int64_t start_ns = now_ns();
    HostStep host;
    fill(host, source_(num_fed_++), /*is_pinned=*/false);
    const at::Tensor flat = device_ == Device::kCuda ? host.flat.to(at::kCUDA) : host.flat;
    FedStep fed = views_of(host, flat);
    fed.wait_ns = now_ns() - start_ns;
    return fed;
  }

 private:
  Device device_;
  BatchSource source_;
  std::int64_t num_fed_ = 0;
};

class PrefetchFeed final : public DataFeed {
 public:
  PrefetchFeed(const RunConfig& config, BatchSource source, std::int64_t num_steps)
      : device_(config.device),
        loader_(std::move(source), num_steps, /*is_pinned=*/false) {}

  FedStep next() override {
    const ScopedRange range("data");
    const std::int64_t start_ns = now_ns();
    HostStep host = loader_.take();
    FedStep fed;
    if (device_ == Device::kCuda) {
      // From pageable memory the copy has left the host's buffer when this returns.
      fed = views_of(host, host.flat.narrow(0, 0, host.num_values).to(at::kCUDA));
      loader_.recycle(std::move(host));
    } else {
      // The step reads the slot itself: it is free when the next one is asked for.
      if (in_use_.flat.defined()) loader_.recycle(std::move(in_use_));
      fed = views_of(host, host.flat);
      in_use_ = std::move(host);
    }
    fed.wait_ns = now_ns() - start_ns;
    return fed;
  }

 private:
  Device device_;
  HostStep in_use_;
  Loader loader_;
};

class PinnedFeed final : public DataFeed {
 public:
  PinnedFeed(BatchSource source, std::int64_t num_steps)
      : num_steps_(num_steps),
        copy_stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false)),
        loader_(std::move(source), num_steps, /*is_pinned=*/true) {}

  FedStep next() override {
    const ScopedRange range("data");
    const std::int64_t start_ns = now_ns();
    if (num_enqueued_ == num_fed_) enqueue_copy();
    Slot& slot = slots_[static_cast<std::size_t>(num_fed_ % kNumDeviceSlots)];
    ++num_fed_;
    slot.arrived.block(c10::cuda::getCurrentCUDAStream());
    FedStep fed = views_of(slot.host, slot.device);
    // The one after travels while this step computes.
    if (num_enqueued_ < num_steps_) enqueue_copy();
    fed.wait_ns = now_ns() - start_ns;
    return fed;
  }

 private:
  // Step i computes from one slot while step i + 1 is copied into the next; a slot is written again
  // only after the step before has been enqueued, and the event below orders it on the device.
  static constexpr std::int64_t kNumDeviceSlots = 3;
  struct Slot {
    HostStep host;
    at::Tensor device;
    at::cuda::CUDAEvent arrived;
  };

  void enqueue_copy() {
    Slot& slot = slots_[static_cast<std::size_t>(num_enqueued_ % kNumDeviceSlots)];
    if (slot.host.flat.defined()) {
      slot.arrived.synchronize();  // Enqueued three steps ago: no wait in practice.
      loader_.recycle(std::move(slot.host));
    }
    slot.host = loader_.take();
    if (!slot.device.defined() || slot.device.numel() < slot.host.num_values) {
      slot.device =
          at::empty({slot.host.num_values}, at::TensorOptions(at::kCUDA).dtype(at::kLong));
    }
    // Everything enqueued so far may still read this slot: its last reader is two steps back.
    at::cuda::CUDAEvent readers;
    readers.record(c10::cuda::getCurrentCUDAStream());
    readers.block(copy_stream_);
    {
      const c10::cuda::CUDAStreamGuard guard(copy_stream_);
      slot.device.narrow(0, 0, slot.host.num_values)
          .copy_(slot.host.flat.narrow(0, 0, slot.host.num_values), /*non_blocking=*/true);
      slot.arrived.record(copy_stream_);
    }
    count_event("pinned_copies");
    ++num_enqueued_;
  }

  std::int64_t num_steps_;
  c10::cuda::CUDAStream copy_stream_;
  std::array<Slot, kNumDeviceSlots> slots_;
  std::int64_t num_enqueued_ = 0;
  std::int64_t num_fed_ = 0;
  Loader loader_;
};

}  // namespace

std::unique_ptr<DataFeed> make_data_feed(const RunConfig& config, BatchSource source,
                                         std::int64_t num_steps) {
  switch (config.data) {
    case DataPath::kSync: return std::make_unique<SyncFeed>(config, std::move(source));
    case DataPath::kPrefetch:
      return std::make_unique<PrefetchFeed>(config, std::move(source), num_steps);
    case DataPath::kPinned: return std::make_unique<PinnedFeed>(std::move(source), num_steps);
  }
  SL_CHECK(false);
  return nullptr;
}

}  // namespace steplens
