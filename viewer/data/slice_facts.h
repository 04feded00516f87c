#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "viewer/data/trace_model.h"

namespace steplens {

/// What there is to say about something drawn, for a tooltip or a detail pane.
struct SliceFacts {
  std::string title;
  std::vector<std::pair<std::string, std::string>> lines;  // Label, value.

  void add(std::string_view label, std::string value) {
    if (!value.empty()) lines.emplace_back(label, std::move(value));
  }
};

/// Name, duration, place; of operations also range path, launch delay, grid and block, registers,
/// shared memory, bytes.
SliceFacts facts_of(const TraceModel& model, const SliceRef& ref);

/// Of a stretch of a row in which slices are too narrow to tell apart: how many, how busy, which
/// one is the longest.
SliceFacts facts_of_stretch(const TraceModel& model, std::uint32_t lane, std::uint32_t lane_row,
                            std::int64_t start_ns, std::int64_t end_ns);

/// "step 3 + 1.234 ms": a moment by the step that runs then on the device.
std::string moment_text(const TraceModel& model, std::int64_t time_ns);

/// What is written on a slice: the display name; of a step its number.
std::string_view label_of(const TraceModel& model, const Slice& slice);

}  // namespace steplens
