#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "harness/trace/trace.h"

namespace steplens {

/// What a timeline's track holds of the operations that a device executed; in the tracks' order.
enum class OpTrack : std::uint8_t { kStream, kGraph, kCommunication };

/// Of a graph's tracks: "graph", "communication".
constexpr std::string_view name_of(OpTrack track) {
  switch (track) {
    case OpTrack::kStream: return "stream";
    case OpTrack::kGraph: return "graph";
    case OpTrack::kCommunication: return "communication";
  }
  return "";
}

/// Where an operation of a device is drawn. A graph gives each of its branches a stream of its own,
/// dozens where ranks exchange gradients in buckets: its nodes share two tracks instead, whatever
/// their streams, and what overlaps there gets further rows. Only of a node `is_communication` is
/// asked whether its name says so (see category_of).
template <std::predicate IsCommunication>
OpTrack track_of(const GpuOp& op, IsCommunication is_communication) {
  if (op.graph_node_id == 0) return OpTrack::kStream;
  return is_communication() ? OpTrack::kCommunication : OpTrack::kGraph;
}

}  // namespace steplens
