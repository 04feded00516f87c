#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/machine.h"
#include "profilers/doctor.h"

namespace steplens {

// The single checks of doctor.h. run_doctor() lists them.

/// What several checks need, asked for once.
struct DoctorContext {
  const DoctorOptions& options;  // All functions are set.
  Machine& machine;
  std::vector<GpuInfo> gpus;
  std::string why_no_gpu;
  std::vector<nlohmann::json> gpu_environments;  // Machine::environment of each of `gpus`.
};

// What the machine is: doctor_machine_checks.cpp.
DoctorCheck check_driver(const DoctorContext& context);
DoctorCheck check_gpus(const DoctorContext& context);
DoctorCheck check_counter_permission(const DoctorContext& context);
DoctorCheck check_clocks(const DoctorContext& context);
DoctorCheck check_foreign_load(const DoctorContext& context);

// What is installed: doctor_software_checks.cpp.
DoctorCheck check_libtorch(const DoctorContext& context);
DoctorCheck check_nccl(const DoctorContext& context);
DoctorCheck check_cupti(const DoctorContext& context);
DoctorCheck check_worker(const DoctorContext& context);
DoctorCheck check_nvcc(const DoctorContext& context);
DoctorCheck check_display(const DoctorContext& context);
DoctorCheck check_disk_space(const DoctorContext& context);

/// "139.8 GiB"
std::string to_gib(std::int64_t bytes);

}  // namespace steplens
