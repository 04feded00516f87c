#include "workloads/step_clock.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

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
  StepTimes finish() override {
    times_.measured_wall_ns = last_ns_ - measured_from_ns_;
    return std::move(times_);
  }

 private:
  std::int64_t num_warmup_steps_;
  StepTimes times_;
  std::int64_t measured_from_ns_ = 0, last_ns_ = 0;
};

class CudaClock final : public StepClock {
 public:
  CudaClock(std::int64_t num_warmup_steps, std::int64_t max_steps)
      : num_warmup_steps_(num_warmup_steps) {
    for (std::int64_t i = 0; i <= max_steps; ++i) events_.emplace_back(cudaEventDefault);
  }
  void start() override {
    times_ = {};
    num_steps_ = 0;
    c10::cuda::device_synchronize();
    record(0);
    measured_from_ns_ = last_ns_ = now_ns();
  }
  std::int64_t end_step() override {
    ++num_steps_;
    record(num_steps_);
    if (num_steps_ < 2) return -1;
    events_[num_steps_ - 1].synchronize();
    return observe();
  }
  StepTimes finish() override {
    if (num_steps_ > 0) {
      events_[num_steps_].synchronize();
      observe();
    }
    c10::cuda::device_synchronize();
    times_.measured_wall_ns = last_ns_ - measured_from_ns_;
    for (std::size_t i = 1; i <= num_steps_; ++i) {
      const float ms = events_[i - 1].elapsed_time(events_[i]);
      times_.gpu_ns.push_back(std::llround(static_cast<double>(ms) * 1e6));
    }
    return std::move(times_);
  }

 private:
  void record(std::size_t index) {
    events_[index].record(c10::cuda::getCurrentCUDAStream());
    count_event("timing_events");
  }
  std::int64_t observe() {
    const std::int64_t now = now_ns();
    times_.wall_ns.push_back(now - last_ns_);
    last_ns_ = now;
    if (std::ssize(times_.wall_ns) == num_warmup_steps_) measured_from_ns_ = now;
    return times_.wall_ns.back();
  }

  std::int64_t num_warmup_steps_;
  std::vector<at::cuda::CUDAEvent> events_;
  StepTimes times_;
  std::size_t num_steps_ = 0;
  std::int64_t measured_from_ns_ = 0, last_ns_ = 0;
};

// One event a block, at the end of the warm-up, observed after the first measured step has been
// enqueued, as the full clock does.
class BareCudaClock final : public StepClock {
 public:
  explicit BareCudaClock(std::int64_t num_warmup_steps) : num_warmup_steps_(num_warmup_steps) {}
  void start() override {
    num_steps_ = 0;
    c10::cuda::device_synchronize();
    start_ns_ = warmup_end_ns_ = now_ns();
  }
  std::int64_t end_step() override {
    ++num_steps_;
    if (num_steps_ == num_warmup_steps_) {
      warmup_end_.record(c10::cuda::getCurrentCUDAStream());
    } else if (num_steps_ == num_warmup_steps_ + 1 && num_warmup_steps_ > 0) {
      warmup_end_.synchronize();
      warmup_end_ns_ = now_ns();
    }
    return -1;
  }
  StepTimes finish() override {
    c10::cuda::device_synchronize();
    const std::int64_t end_ns = now_ns();
    StepTimes times{.measured_wall_ns = end_ns - warmup_end_ns_};
    append_means(times.wall_ns, warmup_end_ns_ - start_ns_,
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
  at::cuda::CUDAEvent warmup_end_;
  std::int64_t num_steps_ = 0, start_ns_ = 0, warmup_end_ns_ = 0;
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
