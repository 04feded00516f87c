#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/trace/trace.h"
#include "reports/breakdown/kernel_patterns.h"
#include "viewer/data/slice_row.h"

namespace steplens {

/// A StringId of the trace, or one behind its strings: what an operation without a name is called
/// ("Memcpy HtoD (Pinned -> Device)").
using NameId = std::uint32_t;

/// What a call of the runtime or driver is for.
enum class ApiTone : Tone { kLaunch, kCopy, kAllocator, kWait, kGraph, kOther };

/// Tones of ranges: the phases (by Phase), then the structure around them, then modules, of which
/// neighbours differ.
inline constexpr Tone kStructureTone = 7;
inline constexpr Tone kFirstModuleTone = 8;
inline constexpr Tone kNumModuleTones = 4;

/// Names of everything drawn, and what colours them. Display names are made on loading, so that a
/// frame never makes text of a kernel's name.
class NameTable {
 public:
  NameTable() = default;
  explicit NameTable(const Trace& trace);

  std::size_t size() const { return raw_.size(); }
  /// As the trace has it: mangled.
  const std::string& raw(NameId id) const { return raw_[id]; }
  /// Short, for people.
  const std::string& display(NameId id) const {
    return display_[id].empty() ? raw_[id] : display_[id];
  }

  NameId name_of(Phase phase) const { return first_phase_ + static_cast<NameId>(phase); }
  /// What the module of a row of Trace::ranges is called, "block 3/attention"; 0 if it has none.
  NameId module_of(std::uint32_t range) const {
    return range < module_of_range_.size() ? module_of_range_[range] : 0;
  }
  NameId step() const { return step_; }

  /// What an operation is called: its name, or one made of its kind.
  NameId name_of(const GpuOp& op) const;

  /// Makes the display names and categories of those that name operations: `is_used` by NameId.
  void describe_operations(const std::vector<std::uint8_t>& is_used);
  /// Those that name operations.
  std::span<const NameId> operations() const { return operations_; }
  KernelCategory category(NameId id) const {
    return static_cast<KernelCategory>(kernel_tones_[id]);
  }

  /// By NameId; they stay where they are when the table is moved.
  std::span<const Tone> kernel_tones() const { return kernel_tones_; }
  std::span<const Tone> api_tones() const { return api_tones_; }
  std::span<const Tone> range_tones() const { return range_tones_; }

 private:
  NameId add(std::string name);

  std::vector<std::string> raw_;
  std::vector<std::string> display_;  // Empty: as raw.
  std::vector<Tone> kernel_tones_, api_tones_, range_tones_;
  std::vector<NameId> operations_;
  std::vector<NameId> module_of_range_;
  NameId first_made_ = 0;  // Behind the strings of the trace: operations without a name,
  NameId graph_ = 0;
  NameId first_phase_ = 0;  // phases, "step", and paths of modules.
  NameId step_ = 0;
};

}  // namespace steplens
