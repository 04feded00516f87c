#include "workloads/step_clock.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <cmath>

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
  void start() override {
    times_ = {};
    start_ns_ = last_ns_ = now_ns();
  }
  std::int64_t end_step() override {
    const std::int64_t now = now_ns();
    times_.wall_ns.push_back(now - last_ns_);
    last_ns_ = now;
    return times_.wall_ns.back();
  }
  StepTimes finish() override {
    times_.total_wall_ns = last_ns_ - start_ns_;
    return std::move(times_);
  }

 private:
  StepTimes times_;
  std::int64_t start_ns_ = 0, last_ns_ = 0;
};

class CudaClock final : public StepClock {
 public:
  explicit CudaClock(std::int64_t max_steps) {
    for (std::int64_t i = 0; i <= max_steps; ++i) events_.emplace_back(cudaEventDefault);
  }
  void start() override {
    times_ = {};
    num_steps_ = 0;
    c10::cuda::device_synchronize();
    record(0);
    start_ns_ = last_ns_ = now_ns();
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
    times_.total_wall_ns = last_ns_ - start_ns_;
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
    return times_.wall_ns.back();
  }

  std::vector<at::cuda::CUDAEvent> events_;
  StepTimes times_;
  std::size_t num_steps_ = 0;
  std::int64_t start_ns_ = 0, last_ns_ = 0;
};

class BareCudaClock final : public StepClock {
 public:
  void start() override {
    num_steps_ = 0;
    c10::cuda::device_synchronize();
    start_ns_ = now_ns();
  }
  std::int64_t end_step() override {
    ++num_steps_;
    return -1;
  }
  StepTimes finish() override {
    c10::cuda::device_synchronize();
    StepTimes times{.total_wall_ns = now_ns() - start_ns_};
    for (std::int64_t i = 0; i < num_steps_; ++i) {
      // Differences of rounded shares, so that they add up to the total exactly.
      times.wall_ns.push_back(times.total_wall_ns * (i + 1) / num_steps_ -
                              times.total_wall_ns * i / num_steps_);
    }
    return times;
  }

 private:
  std::int64_t num_steps_ = 0, start_ns_ = 0;
};

}  // namespace

std::unique_ptr<StepClock> make_step_clock(const RunConfig& config, std::int64_t max_steps) {
  if (config.device == Device::kCpu) return std::make_unique<CpuClock>();
  if (config.instrumentation == Instrumentation::kMinimal) return std::make_unique<BareCudaClock>();
  return std::make_unique<CudaClock>(max_steps);
}

}  // namespace steplens
