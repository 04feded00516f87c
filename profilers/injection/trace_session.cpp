#include "profilers/injection/trace_session.h"

#include <exception>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "harness/build_info.h"
#include "harness/error.h"
#include "harness/trace/range_names.h"
#include "harness/trace/trace_writer.h"
#include "profilers/trace/counter_tracks.h"

namespace steplens {
namespace {

// The driver's own wait, without linking the driver. Fails harmlessly where CUDA was not used.
void synchronize_context() {
  using Synchronize = int (*)();
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return;
  const auto synchronize = reinterpret_cast<Synchronize>(::dlsym(driver, "cuCtxSynchronize"));
  if (synchronize != nullptr) synchronize();
}

std::optional<std::size_t> current_device() {
  using GetDevice = int (*)(int*);
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return std::nullopt;
  const auto get_device = reinterpret_cast<GetDevice>(::dlsym(driver, "cuCtxGetDevice"));
  int device = 0;
  if (get_device == nullptr || get_device(&device) != 0) return std::nullopt;
  return static_cast<std::size_t>(device);
}

}  // namespace

TraceSession::TraceSession(TraceRequest request)
    : request_(std::move(request)),
      ranges_(names_),
      fence_(synchronize_context),
      current_device_(current_device) {
  ranges_.watch_steps(
      kStepRangeName,
      [this](std::int64_t step, std::int64_t time_ns) { begin_step(step, time_ns); },
      [this](std::int64_t step, std::int64_t /*time_ns*/) { end_step(step); });
  if (!request_.first_step) open_window(unix_now_ns(), 0);
}

void TraceSession::start_cuda(const CuptiApi* cupti, const std::string& why_not) {
  const std::lock_guard lock(mutex_);
  if (collector_ != nullptr || is_closed_) return;
  if (cupti == nullptr) {
    cuda_absent_reason_ = why_not;
    return;
  }
  try {
    auto collector = std::make_unique<CuptiCollector>(
        *cupti, names_, ranges_,
        CollectorOptions{.is_whole_graph = request_.kind == TraceKind::kGraphTrace,
                         .is_null = request_.kind == TraceKind::kNull});
    collector->start();
    collector_ = std::move(collector);
    cuda_absent_reason_.clear();
  } catch (const std::exception& error) {
    cuda_absent_reason_ = error.what();
    fmt::print(stderr, "steplens: {}\n", error.what());
  }
  if (collector_ != nullptr && window_) collector_->open_window(window_->start_ns);
}

void TraceSession::start_counters(const PmSamplingApi* api, const std::string& why_not) {
  const std::lock_guard lock(mutex_);
  if (is_closed_ || sampler_ != nullptr) return;
  pm_sampling_ = api;
  counters_absent_reason_ =
      api == nullptr ? why_not
                     : fmt::format(
                           "the program opened no range named \"{}\" on a thread that uses "
                           "CUDA, where sampling begins",
                           kStepRangeName);
}

// Here and not earlier: CUPTI wants a CUDA that is initialised, and a step of the warm-up has the
// time for it.
void TraceSession::start_sampling() {
  if (pm_sampling_ == nullptr || sampler_ != nullptr) return;
  const std::optional<std::size_t> device = current_device_();
  if (!device) return;
  auto sampler = std::make_unique<PmSampler>(*pm_sampling_);
  counters_absent_reason_ = sampler->start(*device);
  if (!counters_absent_reason_.empty()) {
    pm_sampling_ = nullptr;  // Asked once.
    return;
  }
  sampler_ = std::move(sampler);
  if (window_) sampler_->open_window(window_->start_ns);
}

void TraceSession::open_window(std::int64_t start_ns, std::int64_t step_number) {
  window_ = TraceWindow{.start_ns = start_ns, .first_step_number = step_number};
  ranges_.set_recording(true);
  if (collector_ != nullptr) collector_->open_window(start_ns);
  if (sampler_ != nullptr) sampler_->open_window(start_ns);
}

void TraceSession::begin_step(std::int64_t step_number, std::int64_t time_ns) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  if (collector_ != nullptr) collector_->bracket_clocks();
  start_sampling();
  if (!window_ && request_.first_step && step_number >= *request_.first_step) {
    open_window(time_ns, step_number);
  }
}

void TraceSession::end_step(std::int64_t /*step_number*/) {
  {
    const std::lock_guard lock(mutex_);
    if (!window_ || is_closed_) return;
    ++num_steps_done_;
    if (!request_.first_step || request_.is_ended_by_call) return;
    if (num_steps_done_ < request_.num_steps) return;
  }
  finish();
}

// The device finishes the window's work while its records still arrive; only then is it cut off.
void TraceSession::close_window() {
  if (!window_) return;
  ranges_.push(0, kFenceRangeName);
  if (collector_ != nullptr || sampler_ != nullptr) fence_();
  ranges_.pop(0);
  window_->end_ns = unix_now_ns();
  ranges_.set_recording(false);
  if (sampler_ != nullptr) sampler_->stop();
  if (collector_ != nullptr) collector_->stop();
}

void TraceSession::write() {
  if (!window_) return;
  RawRecords raw;
  GraphNodeOrigins origins;
  if (collector_ != nullptr) {
    origins = collector_->node_origins();
    raw = collector_->take_records();
  }
  // In this order: other threads go on naming ranges.
  const RangeRecorder::Snapshot ranges = ranges_.snapshot();
  std::vector<std::string> names = names_.texts();
  Trace trace = build_trace(std::move(raw), ranges, origins, std::move(names), *window_);
  if (wants_counters()) {
    add_pm_samples(
        sampler_ != nullptr ? sampler_->take_samples() : absent_pm_samples(counters_absent_reason_),
        trace);
  }
  for (const auto& [key, value] : request_.info.items()) trace.info[key] = value;
  trace.info["kind"] = name_of(request_.kind);
  trace.info["num_steps_wanted"] = request_.first_step ? request_.num_steps : 0;
  trace.info["steplens_git_sha"] = build_info().git_sha;
  if (!cuda_absent_reason_.empty()) trace.info["cuda_absent_reason"] = cuda_absent_reason_;
  write_trace(request_.path, trace);
}

std::string TraceSession::finish() {
  const std::lock_guard lock(mutex_);
  if (is_written_ || !failure_.empty()) return failure_;
  if (!window_) {
    return failure_ =
               fmt::format("no trace: the program ended before its step {} (a range named \"{}\")",
                           request_.first_step.value_or(0), kStepRangeName);
  }
  try {
    if (!is_closed_) {
      is_closed_ = true;
      close_window();
    }
    write();
    is_written_ = true;
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  return failure_;
}

}  // namespace steplens
