#include "profilers/doctor.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <dlfcn.h>
#include <fmt/format.h>

#include "profilers/doctor_checks.h"
#include "profilers/system_machine.h"

namespace steplens {
namespace {

using Check = DoctorCheck (*)(const DoctorContext&);

constexpr Check kChecks[] = {
    &check_driver, &check_gpus,         &check_libtorch, &check_nccl,
    &check_cupti,  &check_worker,       &check_nvcc,     &check_counter_permission,
    &check_clocks, &check_foreign_load, &check_display,  &check_disk_space,
};

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::string why_not_loadable(const std::string& library) {
  // Stays loaded: unloading CUDA libraries is not safe, and the doctor ends soon.
  if (dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) return "";
  const char* error = dlerror();
  return error != nullptr ? error : "unknown error";
}

}  // namespace

std::string_view name_of(DoctorCheck::Status status) {
  switch (status) {
    case DoctorCheck::Status::kOk: return "ok";
    case DoctorCheck::Status::kWarning: return "warning";
    case DoctorCheck::Status::kMissing: return "missing";
  }
  return "";
}

std::vector<DoctorCheck> run_doctor(const DoctorOptions& options) {
  DoctorOptions complete = options;
  if (!complete.environment_variable) complete.environment_variable = environment_variable;
  if (!complete.why_not_loadable) complete.why_not_loadable = why_not_loadable;
  const std::unique_ptr<Machine> system = options.machine ? nullptr : make_system_machine();
  Machine& machine = options.machine ? *options.machine : *system;

  DoctorContext context = {.options = complete,
                           .machine = machine,
                           .gpus = machine.gpus(),
                           .why_no_gpu = machine.why_no_gpu()};
  for (const GpuInfo& gpu : context.gpus) {
    context.gpu_environments.push_back(machine.environment(gpu.uuid));
  }

  std::vector<DoctorCheck> checks;
  for (const Check check : kChecks) checks.push_back(check(context));
  return checks;
}

std::string format_doctor(const std::vector<DoctorCheck>& checks) {
  std::size_t name_width = 0;
  for (const DoctorCheck& check : checks) name_width = std::max(name_width, check.name.size());
  constexpr std::size_t kStatusWidth = 7;  // "missing"

  std::string table;
  for (const DoctorCheck& check : checks) {
    table += fmt::format("{:<{}}  {:<{}}  {}\n", check.name, name_width, name_of(check.status),
                         kStatusWidth, check.finding);
    if (check.advice.empty()) continue;
    table += fmt::format("{:{}}-> {}\n", "", name_width + kStatusWidth + 4, check.advice);
  }
  const auto num_with = [&checks](DoctorCheck::Status status) {
    return std::ranges::count(checks, status, &DoctorCheck::status);
  };
  table +=
      fmt::format("{} ok, {} warning, {} missing\n", num_with(DoctorCheck::Status::kOk),
                  num_with(DoctorCheck::Status::kWarning), num_with(DoctorCheck::Status::kMissing));
  return table;
}

nlohmann::json to_json(const std::vector<DoctorCheck>& checks) {
  nlohmann::json json = nlohmann::json::array();
  for (const DoctorCheck& check : checks) {
    json.push_back({{"name", check.name},
                    {"status", name_of(check.status)},
                    {"finding", check.finding},
                    {"advice", check.advice}});
  }
  return json;
}

}  // namespace steplens
