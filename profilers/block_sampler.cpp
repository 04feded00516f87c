#include "profilers/block_sampler.h"

#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "harness/error.h"
#include "profilers/gpu_samples.h"
#include "profilers/host_usage.h"
#include "profilers/periodic_thread.h"

namespace steplens {
namespace {

using Clock = std::chrono::steady_clock;

/// What one sample is. `at_stop` may run beside `sample`; nothing else overlaps.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void at_start() = 0;
  virtual void at_stop() = 0;
  virtual void sample(std::int64_t time_ns) = 0;
  virtual nlohmann::json summarize() = 0;
};

/// The thread, its own cost, and the host's counters.
class PeriodicSampler final : public Sampler {
 public:
  PeriodicSampler(std::unique_ptr<Probe> probe, Host host, std::chrono::nanoseconds period)
      : probe_(std::move(probe)),
        host_(std::move(host)),
        period_(period) {}

  void start() override {
    SL_CHECK(!thread_.has_value());
    num_samples_ = 0;
    sampling_ns_ = 0;
    is_peak_rss_reset_ = host_.reset_peak_rss();
    host_at_start_ = read_host_counters(host_);
    probe_->at_start();
    start_time_ = Clock::now();
    start_unix_ns_ =
        std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
    thread_.emplace(period_, [this] { sample(); });
  }

  nlohmann::json stop() override {
    SL_CHECK(thread_.has_value());
    const std::int64_t duration_ns = since_start_ns();
    probe_->at_stop();
    thread_->stop();
    const std::int64_t num_failed_samples = thread_->num_failed_calls();
    thread_.reset();
    const std::int64_t sampling_ns = sampling_ns_;
    // A block that is shorter than half a period still has one sample.
    if (num_samples_ == 0) sample();

    nlohmann::json json = probe_->summarize();
    json["start_unix_ns"] = start_unix_ns_;
    json["period_ns"] = period_.count();
    json["duration_ns"] = duration_ns;
    json["sampling_ns"] = sampling_ns;
    json["sampling_cost_ratio"] =
        static_cast<double>(sampling_ns) / static_cast<double>(duration_ns);
    json["num_failed_samples"] = num_failed_samples;
    const HostState state = {.load_average = host_.load_average(),
                             .peak_rss_bytes = host_.peak_rss_bytes(),
                             .is_peak_rss_reset = is_peak_rss_reset_};
    json.update(host_usage(host_at_start_, read_host_counters(host_), state),
                /*merge_objects=*/true);
    return json;
  }

 private:
  std::int64_t since_start_ns() const {
    return std::chrono::nanoseconds(Clock::now() - start_time_).count();
  }

  void sample() {
    const std::int64_t begin_ns = since_start_ns();
    probe_->sample(begin_ns);
    ++num_samples_;
    sampling_ns_ += since_start_ns() - begin_ns;
  }

  std::unique_ptr<Probe> probe_;
  Host host_;
  std::chrono::nanoseconds period_;
  Clock::time_point start_time_;
  std::int64_t start_unix_ns_ = 0;  // The same moment, for traces.
  HostCounters host_at_start_;
  bool is_peak_rss_reset_ = false;
  // Written by the thread; read after it has ended.
  std::int64_t num_samples_ = 0;
  std::int64_t sampling_ns_ = 0;
  std::optional<PeriodicThread> thread_;  // Last: it ends before what it uses, also without `stop`.
};

class GpuProbe final : public Probe {
 public:
  explicit GpuProbe(const NvmlGpu& gpu) : gpu_(gpu) {}

  void at_start() override {
    samples_.clear();
    failures_ = {};
    energy_at_start_ = gpu_.energy_j();
  }

  // Before the thread has ended: its end may take as long as a sample.
  void at_stop() override { energy_at_stop_ = gpu_.energy_j(); }

  void sample(std::int64_t time_ns) override {
    samples_.push_back(read_gpu_sample(gpu_, time_ns, failures_));
  }

  nlohmann::json summarize() override {
    std::optional<double> energy_j;
    std::string why_no_energy;
    if (energy_at_start_.value && energy_at_stop_.value) {
      energy_j = *energy_at_stop_.value - *energy_at_start_.value;
      if (*energy_j < 0) {
        energy_j.reset();
        why_no_energy = "the counter went back: the driver was reloaded";
      }
    } else {
      const NvmlStatus status =
          energy_at_start_.value ? energy_at_stop_.status : energy_at_start_.status;
      failures_.add("energy_j", status);
      why_no_energy = nvml_reason(status);
    }
    nlohmann::json json = summarize_gpu_samples(samples_, failures_);
    json["energy_j"] = nullptr;
    if (energy_j) {
      json["energy_j"] = *energy_j;
    } else {
      json["absent_reasons"]["energy_j"] = why_no_energy;
    }
    return json;
  }

 private:
  NvmlGpu gpu_;
  NvmlReading<double> energy_at_start_;
  NvmlReading<double> energy_at_stop_;
  std::vector<GpuSample> samples_;
  ReadFailures failures_;
};

/// Stands in for a GPU that NVML does not have.
class NoGpuProbe final : public Probe {
 public:
  explicit NoGpuProbe(std::string why) : why_(std::move(why)) {}

  void at_start() override {}
  void at_stop() override {}
  void sample(std::int64_t /*time_ns*/) override {}

  nlohmann::json summarize() override {
    nlohmann::json json = summarize_gpu_samples({}, {});
    json["energy_j"] = nullptr;
    json["absent_reasons"] = {{"gpu", why_}};
    return json;
  }

 private:
  std::string why_;
};

class CpuProbe final : public Probe {
 public:
  explicit CpuProbe(Host host) : host_(std::move(host)) {}

  void at_start() override {
    times_ns_.clear();
    cpu_mhz_.clear();
  }

  void at_stop() override {}

  void sample(std::int64_t time_ns) override {
    const std::optional<double> mhz = host_.mean_cpu_mhz();
    if (!mhz) return;
    times_ns_.push_back(time_ns);
    cpu_mhz_.push_back(*mhz);
  }

  nlohmann::json summarize() override {
    nlohmann::json json = {{"num_samples", cpu_mhz_.size()},
                           {"time_ns", times_ns_},
                           {"cpu_mhz", nullptr},
                           {"mean_cpu_mhz", nullptr},
                           {"absent_reasons", nlohmann::json::object()}};
    if (cpu_mhz_.empty()) {
      json["absent_reasons"]["cpu_mhz"] = "the kernel does not show it";
      return json;
    }
    json["cpu_mhz"] = cpu_mhz_;
    json["mean_cpu_mhz"] = std::accumulate(cpu_mhz_.begin(), cpu_mhz_.end(), 0.0) /
                           static_cast<double>(cpu_mhz_.size());
    return json;
  }

 private:
  Host host_;
  std::vector<std::int64_t> times_ns_;
  std::vector<double> cpu_mhz_;
};

}  // namespace

std::unique_ptr<Sampler> make_block_sampler(const std::string& gpu_uuid) {
  if (gpu_uuid.empty()) return make_cpu_sampler(Host(), kCpuSamplePeriod);
  return make_gpu_sampler(Nvml::system(), gpu_uuid, Host(), kGpuSamplePeriod);
}

std::unique_ptr<Sampler> make_gpu_sampler(const Nvml& nvml, const std::string& gpu_uuid, Host host,
                                          std::chrono::nanoseconds period) {
  std::unique_ptr<Probe> probe;
  if (const std::optional<NvmlGpu> gpu = nvml.find_gpu(gpu_uuid)) {
    probe = std::make_unique<GpuProbe>(*gpu);
  } else {
    probe = std::make_unique<NoGpuProbe>(
        nvml.why_missing().empty() ? "the driver knows no GPU with this UUID" : nvml.why_missing());
  }
  return std::make_unique<PeriodicSampler>(std::move(probe), std::move(host), period);
}

std::unique_ptr<Sampler> make_cpu_sampler(Host host, std::chrono::nanoseconds period) {
  auto probe = std::make_unique<CpuProbe>(host);
  return std::make_unique<PeriodicSampler>(std::move(probe), std::move(host), period);
}

bool is_throttled_by_hardware(const nlohmann::json& samples) {
  const auto found = samples.find("is_throttled_by_hardware");
  return found != samples.end() && found->is_boolean() && found->get<bool>();
}

}  // namespace steplens
