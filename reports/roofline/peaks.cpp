#include "reports/roofline/peaks.h"

#include "harness/flops.h"

namespace steplens {
namespace {

struct KnownMemory {
  std::string_view name;  // Without the vendor, as in harness/flops.cpp.
  double bytes_per_s;
  std::string_view source;
};

constexpr KnownMemory kKnownMemories[] = {
    {"H200", 4.8e12, "NVIDIA H200 data sheet: 4.8 TB/s"},
    {"H100 80GB HBM3", 3.35e12, "NVIDIA H100 SXM data sheet: 3.35 TB/s"},
    {"H100 PCIe", 2.0e12, "NVIDIA H100 PCIe data sheet: 2 TB/s"},
    {"H100 NVL", 3.9e12, "NVIDIA H100 NVL data sheet: 3.9 TB/s"},
    {"A100-SXM4-40GB", 1.555e12, "NVIDIA A100 40GB data sheet: 1,555 GB/s"},
    {"A100-PCIE-40GB", 1.555e12, "NVIDIA A100 40GB data sheet: 1,555 GB/s"},
    {"A100-SXM4-80GB", 2.039e12, "NVIDIA A100 80GB SXM data sheet: 2,039 GB/s"},
    {"A100-SXM-80GB", 2.039e12, "NVIDIA A100 80GB SXM data sheet: 2,039 GB/s"},
    {"A100 80GB PCIe", 1.935e12, "NVIDIA A100 80GB PCIe data sheet: 1,935 GB/s"},
};

}  // namespace

std::optional<PeakRate> peak_memory_bytes_per_s(std::string_view gpu_name) {
  constexpr std::string_view kVendor = "NVIDIA ";
  if (gpu_name.starts_with(kVendor)) gpu_name.remove_prefix(kVendor.size());
  for (const KnownMemory& memory : kKnownMemories) {
    if (memory.name == gpu_name) {
      return PeakRate{.per_s = memory.bytes_per_s, .source = std::string(memory.source)};
    }
  }
  return std::nullopt;
}

std::optional<PeakRate> peak_matmul_flops_per_s(std::string_view gpu_name, Precision precision) {
  std::optional<PeakFlops> peak = peak_bf16_flops_per_s(gpu_name);
  if (!peak || precision == Precision::kFp32) return std::nullopt;
  if (precision != Precision::kTf32) {
    return PeakRate{.per_s = peak->flops_per_s, .source = std::move(peak->source)};
  }
  return PeakRate{.per_s = peak->flops_per_s / 2, .source = "half of " + peak->source};
}

}  // namespace steplens
