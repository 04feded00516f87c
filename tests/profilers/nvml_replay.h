#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "profilers/nvml_abi.h"

namespace steplens {

/// A driver made of numbers: each function answers with the replies that were set under its name in
/// NvmlApi, one a call, the last one again and again; kNotSupported without any. It has
/// `num_gpus` GPUs with the UUIDs "GPU-0", "GPU-1" ... One lives at a time. Thread-safe.
class NvmlReplay {
 public:
  struct Reply {
    std::uint64_t value = 0;
    NvmlStatus status = NvmlStatus::kSuccess;
  };

  NvmlReplay() { current() = this; }
  ~NvmlReplay() { current() = nullptr; }
  NvmlReplay(const NvmlReplay&) = delete;
  NvmlReplay& operator=(const NvmlReplay&) = delete;

  unsigned int num_gpus = 1;
  NvmlStatus init_status = NvmlStatus::kSuccess;
  NvmlStatus handle_status = NvmlStatus::kSuccess;  // Of handle_by_index, for GPU 1 and above.
  std::vector<NvmlProcess> compute;
  std::vector<NvmlProcess> graphics;
  // Rows that appear between the call that asks for their number and the next.
  std::vector<NvmlProcess> late_compute;

  void set(const std::string& function, std::vector<Reply> replies) {
    const std::scoped_lock lock(mutex_);
    replies_[function] = std::move(replies);
  }

  std::size_t num_calls(const std::string& function) {
    const std::scoped_lock lock(mutex_);
    return num_calls_[function];
  }

  void wait_for_calls(const std::string& function, std::size_t num_calls) {
    std::unique_lock lock(mutex_);
    called_.wait(lock, [&] { return num_calls_[function] >= num_calls; });
  }

  /// The functions of this replay; all are set.
  static NvmlApi api() {
    NvmlApi api;
    api.init = [] { return current()->init_status; };
    api.driver_version = [](char* text, unsigned int size) {
      std::strncpy(text, "580.159.04", size);
      return NvmlStatus::kSuccess;
    };
    api.cuda_driver_version = [](int* version) { return put("cuda_driver_version", version); };
    api.device_count = [](unsigned int* count) {
      *count = current()->num_gpus;
      return NvmlStatus::kSuccess;
    };
    api.handle_by_index = [](unsigned int index, NvmlDevice* device) {
      if (index > 0 && current()->handle_status != NvmlStatus::kSuccess) {
        return current()->handle_status;
      }
      *device = handle(index);
      return NvmlStatus::kSuccess;
    };
    api.handle_by_uuid = [](const char* uuid, NvmlDevice* device) {
      for (unsigned int index = 0; index < current()->num_gpus; ++index) {
        if (uuid != "GPU-" + std::to_string(index)) continue;
        *device = handle(index);
        return NvmlStatus::kSuccess;
      }
      return NvmlStatus::kNotFound;
    };
    api.handle_by_pci_id = [](const char* pci_id, NvmlDevice* device) {
      for (unsigned int index = 0; index < current()->num_gpus; ++index) {
        if (pci_id != pci_id_of(index)) continue;
        *device = handle(index);
        return NvmlStatus::kSuccess;
      }
      return NvmlStatus::kNotFound;
    };
    api.uuid = [](NvmlDevice device, char* text, unsigned int size) {
      std::strncpy(text, ("GPU-" + std::to_string(index_of(device))).c_str(), size);
      return NvmlStatus::kSuccess;
    };
    api.name = [](NvmlDevice, char* text, unsigned int size) {
      std::strncpy(text, "NVIDIA H200", size);
      return NvmlStatus::kSuccess;
    };
    api.pci_info = [](NvmlDevice device, NvmlPciInfo* info) {
      std::strncpy(info->bus_id, pci_id_of(index_of(device)).c_str(), sizeof(info->bus_id) - 1);
      return NvmlStatus::kSuccess;
    };
    api.memory_info = [](NvmlDevice, NvmlMemory* memory) {
      if (memory->version != 0x02000028) return NvmlStatus::kVersionMismatch;
      put("memory_total", &memory->total_bytes);
      put("memory_reserved", &memory->reserved_bytes);
      return put("memory_used", &memory->used_bytes);
    };
    api.clock = [](NvmlDevice, NvmlClock clock, unsigned int* mhz) {
      return put("clock_" + std::to_string(static_cast<unsigned int>(clock)), mhz);
    };
    api.max_clock = [](NvmlDevice, NvmlClock clock, unsigned int* mhz) {
      return put("max_clock_" + std::to_string(static_cast<unsigned int>(clock)), mhz);
    };
    api.application_clock = [](NvmlDevice, NvmlClock clock, unsigned int* mhz) {
      return put("application_clock_" + std::to_string(static_cast<unsigned int>(clock)), mhz);
    };
    api.temperature = [](NvmlDevice, NvmlTemperature* temperature) {
      if (temperature->version != 0x0100000C) return NvmlStatus::kVersionMismatch;
      return put("temperature", &temperature->temperature_celsius);
    };
    api.temperature_unversioned = [](NvmlDevice, unsigned int, unsigned int* celsius) {
      return put("temperature_unversioned", celsius);
    };
    api.margin_temperature = [](NvmlDevice, NvmlMarginTemperature* margin) {
      if (margin->version != 0x01000008) return NvmlStatus::kVersionMismatch;
      return put("margin_temperature", &margin->margin_celsius);
    };
    api.power_milliwatts = [](NvmlDevice, unsigned int* value) {
      return put("power_milliwatts", value);
    };
    api.power_limit_milliwatts = [](NvmlDevice, unsigned int* value) {
      return put("power_limit_milliwatts", value);
    };
    api.energy_millijoules = [](NvmlDevice, unsigned long long* value) {
      return put("energy_millijoules", value);
    };
    api.utilization = [](NvmlDevice, NvmlUtilization* utilization) {
      put("memory_percent", &utilization->memory_percent);
      return put("gpu_percent", &utilization->gpu_percent);
    };
    api.clock_event_reasons = [](NvmlDevice, unsigned long long* bits) {
      return put("clock_event_reasons", bits);
    };
    api.ecc_mode = [](NvmlDevice, unsigned int* mode, unsigned int* pending) {
      *pending = 0;
      return put("ecc_mode", mode);
    };
    api.mig_mode = [](NvmlDevice, unsigned int* mode, unsigned int* pending) {
      *pending = 1;
      return put("mig_mode", mode);
    };
    api.persistence_mode = [](NvmlDevice, unsigned int* mode) {
      return put("persistence_mode", mode);
    };
    api.pcie_generation = [](NvmlDevice, unsigned int* value) {
      return put("pcie_generation", value);
    };
    api.max_pcie_generation = [](NvmlDevice, unsigned int* value) {
      return put("max_pcie_generation", value);
    };
    api.num_pcie_lanes = [](NvmlDevice, unsigned int* value) {
      return put("num_pcie_lanes", value);
    };
    api.max_num_pcie_lanes = [](NvmlDevice, unsigned int* value) {
      return put("max_num_pcie_lanes", value);
    };
    api.compute_processes = [](NvmlDevice, unsigned int* count, NvmlProcess* rows) {
      const NvmlStatus status = put_rows(current()->compute, count, rows);
      current()->compute.insert(current()->compute.end(), current()->late_compute.begin(),
                                current()->late_compute.end());
      current()->late_compute.clear();
      return status;
    };
    api.graphics_processes = [](NvmlDevice, unsigned int* count, NvmlProcess* rows) {
      return put_rows(current()->graphics, count, rows);
    };
    return api;
  }

 private:
  static NvmlReplay*& current() {
    static NvmlReplay* replay = nullptr;
    return replay;
  }

  // Handles are addresses of these, so that no number has to pass for a pointer.
  static char* slots() {
    static char bytes[16];
    return bytes;
  }
  static NvmlDevice handle(unsigned int index) {
    return reinterpret_cast<NvmlDevice>(slots() + index);
  }
  static unsigned int index_of(NvmlDevice device) {
    return static_cast<unsigned int>(reinterpret_cast<char*>(device) - slots());
  }
  static std::string pci_id_of(unsigned int index) {
    return "00000000:" + std::to_string(10 + index) + ":00.0";
  }

  template <typename T>
  static NvmlStatus put(const std::string& function, T* value) {
    NvmlReplay& replay = *current();
    const std::scoped_lock lock(replay.mutex_);
    const std::size_t index = replay.num_calls_[function]++;
    replay.called_.notify_all();
    const std::vector<Reply>& replies = replay.replies_[function];
    if (replies.empty()) return NvmlStatus::kNotSupported;
    const Reply& reply = replies[index < replies.size() ? index : replies.size() - 1];
    *value = static_cast<T>(reply.value);
    return reply.status;
  }

  static NvmlStatus put_rows(const std::vector<NvmlProcess>& rows, unsigned int* count,
                             NvmlProcess* out) {
    const unsigned int room = *count;
    *count = static_cast<unsigned int>(rows.size());
    if (rows.size() > room) return NvmlStatus::kInsufficientSize;
    for (std::size_t i = 0; i < rows.size(); ++i) out[i] = rows[i];
    return NvmlStatus::kSuccess;
  }

  std::mutex mutex_;
  std::condition_variable called_;
  std::map<std::string, std::vector<Reply>> replies_;
  std::map<std::string, std::size_t> num_calls_;
};

}  // namespace steplens
