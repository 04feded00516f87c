#include "workloads/device_info.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <torch/version.h>

#include "harness/error.h"

namespace steplens {
namespace {

using c10::CachingAllocator::StatType;
using nlohmann::json;

std::int64_t aggregate(const c10::CachingAllocator::StatArray& stats,
                       std::int64_t c10::CachingAllocator::Stat::* member) {
  return stats[static_cast<std::size_t>(StatType::AGGREGATE)].*member;
}

// "GPU-aabbccdd-eeff-...": as NVML and CUDA_VISIBLE_DEVICES write it.
std::string uuid_text(const cudaDeviceProp& properties) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  return text;
}

// Peak resident set since the last reset, from the line "VmHWM:   123 kB".
json peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return nullptr;
}

}  // namespace

void prepare_process(const RunConfig& config, const std::string& gpu_uuid) {
  at::set_num_threads(static_cast<int>(config.num_threads));
  // May be said once a process only.
  if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
  if (config.device == Device::kCpu) return;
  // Before the first CUDA call, after which the list of devices is fixed.
  if (!gpu_uuid.empty()) ::setenv("CUDA_VISIBLE_DEVICES", gpu_uuid.c_str(), 1);
  if (config.allocator == Allocator::kExpandableSegments) {
    c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
  }
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    throw DeviceError(fmt::format("no usable GPU{}: {}",
                                  gpu_uuid.empty() ? "" : " with UUID " + gpu_uuid,
                                  cudaGetErrorString(status)));
  }
  at::globalContext().lazyInitDevice(at::kCUDA);
  at::globalContext().setAllowTF32CuBLAS(config.precision == Precision::kTf32);
}

json environment_of(const RunConfig& config) {
  json result = {{"torch_version", TORCH_VERSION},
                 {"num_threads", at::get_num_threads()},
                 {"cpu_capability", at::get_cpu_capability()}};
  if (config.device == Device::kCpu) return result;
  const cudaDeviceProp& properties = *at::cuda::getCurrentDeviceProperties();
  int runtime = 0;
  int driver = 0;
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) result["cuda_runtime_version"] = runtime;
  if (cudaDriverGetVersion(&driver) == cudaSuccess) result["cuda_driver_version"] = driver;
  result["cudnn_version"] = at::detail::getCUDAHooks().versionRuntimeCuDNN();
  result["gpu_name"] = std::string(properties.name);
  result["gpu_uuid"] = uuid_text(properties);
  result["compute_capability"] = fmt::format("{}.{}", properties.major, properties.minor);
  result["num_multiprocessors"] = properties.multiProcessorCount;
  result["l2_cache_bytes"] = properties.l2CacheSize;
  return result;
}

void reset_memory_peaks(const RunConfig& config) {
  if (config.device == Device::kCuda) {
    c10::cuda::CUDACachingAllocator::resetPeakStats(c10::cuda::current_device());
    return;
  }
  // "5" resets the peak resident set of this process (proc(5), clear_refs).
  std::ofstream("/proc/self/clear_refs") << "5";
}

json memory_of(const RunConfig& config, std::int64_t graph_hidden_bytes) {
  if (config.device == Device::kCpu) {
    return {{"peak_rss_bytes", peak_rss_bytes()},
            {"peak_allocated_bytes", nullptr},
            {"absent_reason", "the CPU allocator keeps no peak; see peak_rss_bytes"}};
  }
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  using c10::CachingAllocator::Stat;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  json result = {
      {"peak_allocated_bytes", aggregate(stats.allocated_bytes, &Stat::peak) + graph_hidden_bytes},
      {"peak_active_bytes", aggregate(stats.active_bytes, &Stat::peak) + graph_hidden_bytes},
      {"peak_reserved_bytes", aggregate(stats.reserved_bytes, &Stat::peak)},
      {"graph_pool_hidden_bytes", graph_hidden_bytes},
      {"num_alloc_retries", stats.num_alloc_retries},
      {"num_ooms", stats.num_ooms},
      {"num_device_allocs", stats.num_device_alloc},
  };
  if (cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
    const auto used = static_cast<std::int64_t>(total_bytes - free_bytes);
    result["driver_used_bytes"] = used;
    result["driver_total_bytes"] = total_bytes;
    result["unaccounted_bytes"] = used - aggregate(stats.reserved_bytes, &Stat::current);
  }
  return result;
}

std::int64_t num_allocator_events(const RunConfig& config) {
  if (config.device == Device::kCpu) return 0;
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  return stats.num_device_alloc + stats.num_device_free + stats.num_alloc_retries;
}

bool has_expandable_segments(const RunConfig& config) {
  if (config.device == Device::kCpu) return false;
  const auto snapshot = c10::cuda::CUDACachingAllocator::snapshot({0, 0}, /*include_traces=*/false);
  for (const auto& segment : snapshot.segments) {
    if (segment.is_expandable) return true;
  }
  return false;
}

}  // namespace steplens
