#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "profilers/doctor_checks.h"

namespace steplens {
namespace {

using Status = DoctorCheck::Status;

// CUDA 13.0 runs on drivers of the 580 series and later (CUDA release notes, table of drivers).
constexpr int kMinDriverMajor = 580;

// Capabilities that let a process read the counters: include/uapi/linux/capability.h.
constexpr int kCapSysAdmin = 21;
constexpr int kCapPerfmon = 38;

/// A value of Machine::environment's "gpu" object; null if it is not there.
nlohmann::json gpu_value(const nlohmann::json& environment, const char* key) {
  const auto gpu = environment.find("gpu");
  if (gpu == environment.end() || !gpu->is_object()) return nullptr;
  return gpu->value(key, nlohmann::json(nullptr));
}

bool is_true(const nlohmann::json& value) { return value.is_boolean() && value.get<bool>(); }
bool is_false(const nlohmann::json& value) { return value.is_boolean() && !value.get<bool>(); }

void append(std::string& text, std::string_view separator, std::string_view part) {
  if (!text.empty()) text += separator;
  text += part;
}

/// Collects what is found on several GPUs into one check.
class Findings {
 public:
  explicit Findings(std::string name) { check_.name = std::move(name); }

  void add(std::string_view finding) { append(check_.finding, "; ", finding); }

  void add_warning(std::string_view finding, std::string_view advice) {
    check_.status = Status::kWarning;
    add(finding);
    if (check_.advice.find(advice) == std::string::npos) append(check_.advice, " ", advice);
  }

  DoctorCheck finish() { return std::move(check_); }

 private:
  DoctorCheck check_;
};

bool has_capability(std::optional<std::uint64_t> mask, int bit) {
  return mask && (*mask >> bit & 1U) != 0;
}

}  // namespace

std::string to_gib(std::int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

DoctorCheck check_driver(const DoctorContext& context) {
  DoctorCheck check{.name = "driver"};
  if (context.gpus.empty()) {
    check.status = Status::kMissing;
    check.finding = context.why_no_gpu;
    check.advice = fmt::format(
        "For a GPU install NVIDIA driver {} or later; in a container start it with `--gpus all` "
        "and "
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility. Without one all runs are on the CPU.",
        kMinDriverMajor);
    return check;
  }
  const nlohmann::json version = gpu_value(context.gpu_environments.front(), "driver_version");
  const nlohmann::json cuda = gpu_value(context.gpu_environments.front(), "cuda_driver_version");
  if (!version.is_string()) {
    check.status = Status::kWarning;
    check.finding = "version not shown";
    check.advice = fmt::format("See that `nvidia-smi` shows driver {} or later.", kMinDriverMajor);
    return check;
  }
  const auto text = version.get<std::string>();
  check.finding = text;
  if (cuda.is_string()) check.finding += " (CUDA " + cuda.get<std::string>() + ")";
  int major = 0;
  std::from_chars(text.data(), text.data() + text.size(), major);
  if (major < kMinDriverMajor) {
    check.status = Status::kWarning;
    check.advice = fmt::format("Install driver {} or later: LibTorch here is built for CUDA 13.0.",
                               kMinDriverMajor);
  }
  return check;
}

DoctorCheck check_gpus(const DoctorContext& context) {
  if (context.gpus.empty()) {
    return {.name = "GPU",
            .status = Status::kMissing,
            .finding = "none",
            .advice = "Runs are on the CPU; for a GPU see the line on the driver."};
  }
  Findings findings("GPU");
  std::map<std::string, int> num_of_kind;
  for (const GpuInfo& gpu : context.gpus) {
    ++num_of_kind[fmt::format("{}, {}", gpu.name, to_gib(gpu.memory_bytes))];
  }
  for (const auto& [kind, num_gpus] : num_of_kind) {
    findings.add(fmt::format("{} x {}", num_gpus, kind));
  }
  const nlohmann::json& environment = context.gpu_environments.front();
  if (const int num_lost = environment.value("num_unreadable_gpus", 0); num_lost > 0) {
    findings.add_warning(fmt::format("{} more do not answer", num_lost),
                         "Look for \"Xid\" in `dmesg`, then restart the machine.");
  }
  if (std::ranges::any_of(context.gpu_environments, [](const nlohmann::json& each) {
        return is_true(gpu_value(each, "is_mig_enabled"));
      })) {
    findings.add_warning("MIG is on",
                         "Whole GPUs are measured: turn MIG off with `sudo nvidia-smi -mig 0`.");
  }
  return findings.finish();
}

DoctorCheck check_counter_permission(const DoctorContext& context) {
  DoctorCheck check{.name = "counter permission"};
  const std::optional<bool> is_admin_only = context.options.host.is_profiling_admin_only();
  const std::optional<std::uint64_t> mask = context.options.host.effective_capabilities();
  const bool is_admin = has_capability(mask, kCapSysAdmin) || has_capability(mask, kCapPerfmon);
  if (!is_admin_only) {
    check.status = context.gpus.empty() ? Status::kMissing : Status::kWarning;
    check.finding = "/proc/driver/nvidia/params does not say";
    check.advice = context.gpus.empty()
                       ? "Nothing: there are no counters without a GPU."
                       : "Try a run with counters: it says itself if they are refused.";
  } else if (!*is_admin_only) {
    check.finding = "everybody may read performance counters";
  } else if (is_admin) {
    check.finding = "for administrators only; this process is one";
  } else {
    check.status = Status::kWarning;
    check.finding = "for administrators only; this process is none";
    check.advice =
        "Only hardware counters need it: run as root (in a container with --cap-add=SYS_ADMIN), or "
        "write `options nvidia NVreg_RestrictProfilingToAdminUsers=0` to "
        "/etc/modprobe.d/nvidia-profiling.conf and restart the machine.";
  }
  return check;
}

DoctorCheck check_clocks(const DoctorContext& context) {
  Findings findings("clocks");
  for (std::size_t i = 0; i < context.gpus.size(); ++i) {
    const nlohmann::json& environment = context.gpu_environments[i];
    const nlohmann::json application = gpu_value(environment, "application_sm_clock_mhz");
    const nlohmann::json maximum = gpu_value(environment, "max_sm_clock_mhz");
    const std::string& name = context.gpus[i].name;
    if (application.is_number() && maximum.is_number()) {
      const std::string finding = fmt::format("{}: application clock {:.0f} of {:.0f} MHz", name,
                                              application.get<double>(), maximum.get<double>());
      if (application < maximum) {
        findings.add_warning(finding,
                             "Take the limit off with `sudo nvidia-smi -rac`, or keep it the same "
                             "for all runs that are compared.");
      } else {
        findings.add(finding);
      }
    } else if (maximum.is_number()) {
      findings.add(
          fmt::format("{}: up to {:.0f} MHz, no application clock", name, maximum.get<double>()));
    }
    if (is_false(gpu_value(environment, "is_persistence_enabled"))) {
      findings.add_warning(name + ": persistence off",
                           "Keep the driver loaded between blocks with `sudo nvidia-smi -pm 1`.");
    }
  }
  const std::optional<std::string> governor = context.options.host.governor();
  if (!governor) {
    findings.add("CPU governor not shown");
  } else if (*governor == "performance") {
    findings.add("CPU governor performance");
  } else {
    findings.add_warning("CPU governor " + *governor,
                         "Hold the CPU's clock with `sudo cpupower frequency-set -g performance`.");
  }
  return findings.finish();
}

DoctorCheck check_foreign_load(const DoctorContext& context) {
  Findings findings("foreign load");
  for (const GpuInfo& gpu : context.gpus) {
    for (const ForeignProcess& process : context.machine.foreign_processes(gpu.uuid)) {
      const std::string who =
          process.pid != 0 ? fmt::format("process {}", process.pid) : "an unseen process";
      const std::string memory =
          process.memory_bytes ? " holding " + to_gib(*process.memory_bytes) : "";
      findings.add_warning(
          fmt::format("{} on {}{}", who, gpu.name, memory),
          "End it, or measure on another GPU; --allow-foreign-load measures beside it.");
    }
  }
  const double load_average = context.machine.load_average();
  const int num_cpus = Host::num_cpus();
  const std::string finding = fmt::format("load average {:.2f} on {} CPUs", load_average, num_cpus);
  // One CPU in four busy with something else shows in step times of the CPU's model.
  if (load_average > 0.25 * num_cpus) {
    findings.add_warning(finding,
                         "See what runs with `top`, end it, and wait a minute for the average.");
  } else {
    findings.add(finding);
  }
  return findings.finish();
}

}  // namespace steplens
