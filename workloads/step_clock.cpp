#include "workloads/step_clock.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "harness/end_observer.h"
#include "workloads/evidence.h"

namespace steplens {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class CpuClock final : public StepClock {
 public:
  explicit CpuClock(std::int64_t num_warmup_steps) : num_warmup_steps_(num_warmup_steps) {}
  void start() override {
    times_ = {};
    measured_from_ns_ = last_ns_ = now_ns();
  }
  std::int64_t end_step() override {
    const std::int64_t now = now_ns();
    times_.wall_ns.push_back(now - last_ns_);
    last_ns_ = now;
    if (std::ssize(times_.wall_ns) == num_warmup_steps_) measured_from_ns_ = now;
    return times_.wall_ns.back();
  }
  ClockedSteps finish() override {
    times_.measured_wall_ns = last_ns_ - measured_from_ns_;
    return std::move(times_);
  }

 private:
  std::int64_t num_warmup_steps_;
  ClockedSteps times_;
  std::int64_t measured_from_ns_ = 0, last_ns_ = 0;
};

// Ends of steps on the device: an event each, waited for by an observer.
class CudaEnds {
 public:
  explicit CudaEnds(std::size_t max_ends) : device_(c10::cuda::current_device()) {
    // Blocking: the observer sleeps instead of taking a core from the loader threads.
    for (std::size_t i = 0; i < max_ends; ++i) events_.emplace_back(cudaEventBlockingSync);
  }
  /// Enqueues an end; returns its index.
  std::size_t record() {
    events_.at(num_recorded_).record(c10::cuda::getCurrentCUDAStream(device_));
    count_event("timing_events");
    observer_.expect_end();
    return num_recorded_++;
  }
  std::int64_t time_of(std::size_t index) { return observer_.time_of(index); }
  std::int64_t elapsed_ns(std::size_t from, std::size_t to) const {
    return std::llround(static_cast<double>(events_[from].elapsed_time(events_[to])) * 1e6);
  }

 private:
  c10::DeviceIndex device_;
  std::vector<at::cuda::CUDAEvent> events_;
  std::size_t num_recorded_ = 0;
  EndObserver observer_{[this](std::size_t index) {
                          c10::cuda::set_device(device_);
                          events_[index].synchronize();
                        },
                        now_ns};
};

class CudaClock final : public StepClock {
 public:
  CudaClock(std::int64_t num_warmup_steps, std::int64_t max_steps)
      : num_warmup_steps_(static_cast<std::size_t>(num_warmup_steps)),
        ends_(static_cast<std::size_t>(max_steps) + 1) {}
  void start() override {
    c10::cuda::device_synchronize();
    last_end_ = ends_.record();
  }
  std::int64_t end_step() override {
    last_end_ = ends_.record();
    // Stays one step ahead of the device.
    return last_end_ < 2 ? -1 : wall_ns(last_end_ - 1);
  }
  ClockedSteps finish() override {
    ClockedSteps times;
    for (std::size_t i = 1; i <= last_end_; ++i) {
      times.wall_ns.push_back(wall_ns(i));
      times.gpu_ns.push_back(ends_.elapsed_ns(i - 1, i));
    }
    c10::cuda::device_synchronize();
    times.measured_wall_ns =
        ends_.time_of(last_end_) - ends_.time_of(std::min(num_warmup_steps_, last_end_));
    return times;
  }

 private:
  std::int64_t wall_ns(std::size_t step) {
    const std::int64_t end_ns = ends_.time_of(step);
    return end_ns - ends_.time_of(step - 1);
  }

  std::size_t num_warmup_steps_;
  CudaEnds ends_;
  std::size_t last_end_ = 0;
};

// Three events a block: start, end of the warm-up, end.
class BareCudaClock final : public StepClock {
 public:
  explicit BareCudaClock(std::int64_t num_warmup_steps) : num_warmup_steps_(num_warmup_steps) {}
  void start() override {
    c10::cuda::device_synchronize();
    start_ = warmup_end_ = ends_.record();
  }
  std::int64_t end_step() override {
    if (++num_steps_ == num_warmup_steps_) warmup_end_ = ends_.record();
    return -1;
  }
  ClockedSteps finish() override {
    const std::int64_t end_ns = ends_.time_of(ends_.record());
    c10::cuda::device_synchronize();
    const std::int64_t warmup_end_ns = ends_.time_of(warmup_end_);
    ClockedSteps times{.measured_wall_ns = end_ns - warmup_end_ns};
    append_means(times.wall_ns, warmup_end_ns - ends_.time_of(start_),
                 std::min(num_steps_, num_warmup_steps_));
    append_means(times.wall_ns, times.measured_wall_ns, num_steps_ - num_warmup_steps_);
    return times;
  }

 private:
  // Differences of rounded shares, so that they add up to the total exactly.
  static void append_means(std::vector<std::int64_t>& out, std::int64_t total_ns,
                           std::int64_t num_steps) {
    for (std::int64_t i = 0; i < num_steps; ++i) {
      out.push_back(total_ns * (i + 1) / num_steps - total_ns * i / num_steps);
    }
  }

  std::int64_t num_warmup_steps_;
  CudaEnds ends_{3};
  std::int64_t num_steps_ = 0;
  std::size_t start_ = 0, warmup_end_ = 0;
};

}  // namespace

std::unique_ptr<StepClock> make_step_clock(const RunConfig& config, std::int64_t num_warmup_steps,
                                           std::int64_t max_steps, bool is_pilot) {
  if (config.device == Device::kCpu) return std::make_unique<CpuClock>(num_warmup_steps);
  if (config.instrumentation == Instrumentation::kMinimal && !is_pilot) {
    return std::make_unique<BareCudaClock>(num_warmup_steps);
  }
  return std::make_unique<CudaClock>(num_warmup_steps, max_steps);
}

}  // namespace steplens
