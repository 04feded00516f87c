#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "profilers/doctor_checks.h"

namespace steplens {
namespace {

using Status = DoctorCheck::Status;
namespace fs = std::filesystem;

constexpr std::string_view kTorchVersion = "2.11.0";
constexpr int kCudaMajor = 13;
constexpr int kCudaMinor = 0;
constexpr std::string_view kSetupAdvice =
    "Run scripts/setup.sh, or set STEPLENS_TORCH to a site-packages folder with torch 2.11.0 for "
    "CUDA 13.";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_executable(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

/// The rest of the first line of `path` that begins with `prefix`; absent if there is none.
std::optional<std::string> line_after(const fs::path& path, std::string_view prefix) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(prefix)) return line.substr(prefix.size());
  }
  return std::nullopt;
}

/// What stands between the first two quotation marks; empty if nothing does.
std::string unquoted(const std::string& text) {
  const std::size_t begin = text.find('\'');
  if (begin == std::string::npos) return "";
  const std::size_t end = text.find('\'', begin + 1);
  if (end == std::string::npos) return "";
  return text.substr(begin + 1, end - begin - 1);
}

/// A library of the wheels, at its place under site-packages.
DoctorCheck check_library(const DoctorContext& context, const char* name, const fs::path& file,
                          std::string_view without_it) {
  DoctorCheck check{.name = name};
  if (context.options.site_packages.empty()) {
    check.status = Status::kMissing;
    check.finding = "no site-packages folder";
    check.advice = kSetupAdvice;
    return check;
  }
  const fs::path path = context.options.site_packages / file;
  if (!is_there(path)) {
    check.status = Status::kMissing;
    check.finding = "no " + file.string() + " in " + context.options.site_packages.string();
    check.advice = fmt::format("{} {}", kSetupAdvice, without_it);
    return check;
  }
  check.finding = file.string();
  const std::string why_not = context.options.why_not_loadable(path.string());
  if (!why_not.empty()) {
    check.status = Status::kWarning;
    check.finding = "does not load: " + why_not;
    check.advice = fmt::format("Reinstall it with scripts/setup.sh. {}", without_it);
  }
  return check;
}

/// Where nvcc is looked for: as the build does, then on PATH.
std::optional<fs::path> find_nvcc(const DoctorOptions& options) {
  if (const std::optional<std::string> given = options.environment_variable("CUDACXX")) {
    if (is_executable(*given)) return *given;
  }
  std::vector<fs::path> folders = {options.cuda_folder / "bin"};
  if (!options.site_packages.empty()) folders.push_back(options.site_packages / "nvidia/cu13/bin");
  std::istringstream path(options.environment_variable("PATH").value_or(""));
  for (std::string folder; std::getline(path, folder, ':');) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  for (const fs::path& folder : folders) {
    if (is_executable(folder / "nvcc")) return folder / "nvcc";
  }
  return std::nullopt;
}

/// CUDART_VERSION of the header beside a compiler: 1000 * major + 10 * minor.
std::optional<int> cuda_version(const fs::path& nvcc) {
  const std::optional<std::string> text = line_after(
      nvcc.parent_path().parent_path() / "include/cuda_runtime_api.h", "#define CUDART_VERSION");
  if (!text) return std::nullopt;
  const std::size_t begin = text->find_first_not_of(' ');
  if (begin == std::string::npos) return std::nullopt;
  int version = 0;
  const auto [end, error] =
      std::from_chars(text->data() + begin, text->data() + text->size(), version);
  if (error != std::errc()) return std::nullopt;
  return version;
}

}  // namespace

DoctorCheck check_libtorch(const DoctorContext& context) {
  DoctorCheck check{.name = "LibTorch"};
  const fs::path& site = context.options.site_packages;
  const fs::path version_file = site / "torch/version.py";
  if (site.empty() || !is_there(version_file) || !is_there(site / "torch/lib/libtorch_cpu.so")) {
    check.status = Status::kMissing;
    check.finding = site.empty() ? "not found" : "no torch in " + site.string();
    check.advice = kSetupAdvice;
    return check;
  }
  const std::string version = unquoted(line_after(version_file, "__version__").value_or(""));
  const std::string cuda = unquoted(line_after(version_file, "cuda").value_or(""));
  check.finding =
      fmt::format("{} in {}", version.empty() ? "unknown version" : version, site.string());
  const std::string release = version.substr(0, version.find('+'));
  if (release != kTorchVersion) {
    check.status = Status::kWarning;
    check.advice = fmt::format("This build is for torch {}. {}", kTorchVersion, kSetupAdvice);
  } else if (!cuda.starts_with(fmt::format("{}.", kCudaMajor))) {
    check.status = Status::kWarning;
    check.finding += cuda.empty() ? ", without CUDA" : ", for CUDA " + cuda;
    check.advice = kSetupAdvice;
  }
  return check;
}

DoctorCheck check_nccl(const DoctorContext& context) {
  return check_library(context, "NCCL", "nvidia/nccl/lib/libnccl.so.2",
                       "Only training on several GPUs needs it.");
}

DoctorCheck check_cupti(const DoctorContext& context) {
  const fs::path library = "nvidia/cu13/lib/libcupti.so.13";
  DoctorCheck check = check_library(context, "CUPTI", library, "Only kernel traces need it.");
  if (check.status != Status::kOk) return check;
  for (const char* name : {"libnvperf_host.so", "libnvperf_target.so"}) {
    const fs::path path = context.options.site_packages / library.parent_path() / name;
    const std::string why_not =
        is_there(path) ? context.options.why_not_loadable(path.string()) : "it is not there";
    if (why_not.empty()) continue;
    check.status = Status::kWarning;
    check.finding += fmt::format(", without {}: {}", name, why_not);
    check.advice = "Only hardware counters need it: reinstall CUPTI with scripts/setup.sh.";
    break;
  }
  return check;
}

DoctorCheck check_worker(const DoctorContext& context) {
  DoctorCheck check{.name = "worker"};
  const fs::path& worker = context.options.worker;
  if (!worker.empty() && is_executable(worker)) {
    check.finding = worker.string();
    return check;
  }
  check.status = Status::kMissing;
  check.finding =
      worker.empty() ? "steplens-worker not found" : worker.string() + " is no executable file";
  check.advice =
      "Build it: `cmake --preset release && cmake --build --preset release` (the cpu preset leaves "
      "it out).";
  return check;
}

DoctorCheck check_nvcc(const DoctorContext& context) {
  DoctorCheck check{.name = "nvcc"};
  const std::optional<fs::path> nvcc = find_nvcc(context.options);
  if (!nvcc) {
    check.status = Status::kMissing;
    check.finding = "not found";
    check.advice =
        "Only building needs it: run scripts/setup.sh, or install the CUDA 13.0 toolkit.";
    return check;
  }
  const std::optional<int> version = cuda_version(*nvcc);
  if (!version) {
    check.finding = nvcc->string() + ", version not shown";
    return check;
  }
  const int major = *version / 1000;
  const int minor = *version % 1000 / 10;
  check.finding = fmt::format("CUDA {}.{}, {}", major, minor, nvcc->string());
  if (major != kCudaMajor || minor != kCudaMinor) {
    check.status = Status::kWarning;
    check.advice = fmt::format("Building wants CUDA {}.{}, as LibTorch: run scripts/setup.sh.",
                               kCudaMajor, kCudaMinor);
  }
  return check;
}

DoctorCheck check_display(const DoctorContext& context) {
  DoctorCheck check{.name = "display"};
  for (const char* name : {"WAYLAND_DISPLAY", "DISPLAY"}) {
    const std::optional<std::string> value = context.options.environment_variable(name);
    if (!value || value->empty()) continue;
    check.finding = fmt::format("{}={}", name, *value);
    return check;
  }
  if (context.options.why_not_loadable("libEGL.so.1").empty()) {
    check.status = Status::kWarning;
    check.finding = "none; EGL draws without one";
    check.advice =
        "Only a window of the viewer needs one: log in with `ssh -X`, or copy the bundle to a "
        "desktop machine.";
  } else {
    check.status = Status::kMissing;
    check.finding = "none, and no libEGL.so.1";
    check.advice = "Only the viewer needs it: install EGL with `apt install libegl1`.";
  }
  return check;
}

DoctorCheck check_disk_space(const DoctorContext& context) {
  DoctorCheck check{.name = "disk space"};
  std::error_code error;
  fs::path folder = fs::absolute(context.options.output_folder, error);
  // The folder is made by the first run: what counts is where.
  while (!is_there(folder) && folder.has_parent_path() && folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  const bool is_folder = fs::is_directory(folder, error);
  if (!is_folder || access(folder.c_str(), W_OK) != 0) {
    check.status = Status::kMissing;
    check.finding = is_folder ? "no permission to write to " + folder.string()
                              : folder.string() + " is no folder";
    check.advice = "Choose an output folder that you may write to.";
    return check;
  }
  const fs::space_info space = fs::space(folder, error);
  if (error) {
    check.status = Status::kWarning;
    check.finding = "not shown for " + folder.string() + ": " + error.message();
    check.advice = "See `df -h`.";
    return check;
  }
  // A kernel trace of a long block, its export beside it, and all other blocks fit into this.
  constexpr std::uintmax_t kEnoughBytes = std::uintmax_t{2} << 30;
  check.finding = fmt::format("{} free in {}", to_gib(static_cast<std::int64_t>(space.available)),
                              folder.string());
  if (space.available < kEnoughBytes) {
    check.status = Status::kWarning;
    check.advice = "Free some space, or choose another output folder.";
  }
  return check;
}

}  // namespace steplens
