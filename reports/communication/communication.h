#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/run_config.h"
#include "harness/trace/trace.h"

/// What ranks spend on gradients: read from their traces, merged on one clock.
namespace steplens {

/// One all-reduce, of one bucket of gradients, on one rank.
struct Collective {
  std::int64_t start_ns = 0;  // Since the step began on the device.
  std::int64_t duration_ns = 0;
  std::int64_t exposed_ns = 0;  // While the rank computed nothing.
  bool operator==(const Collective&) const = default;
};

/// Of one rank, means a step.
struct RankCommunication {
  double step_ns = 0;
  double communication_ns = 0;  // While at least one collective ran.
  double exposed_ns = 0;        // Of it, while nothing was computed.
  double num_collectives = 0;
  double num_hidden_collectives = 0;      // At least half under computation.
  std::int64_t clock_uncertainty_ns = 0;  // Of its clock against rank 0's.

  double overlapped_ns() const { return communication_ns - exposed_ns; }
};

struct CommunicationUse {
  std::vector<RankCommunication> ranks;  // By rank. Empty: nothing was sent.
  std::vector<Collective> timeline;      // Rank 0's, in the middle one of the counted steps.
  /// The same collective on all ranks, latest start - earliest start, mean over all of them; absent
  /// with one rank, or where ranks had unequal numbers of collectives.
  std::optional<double> start_skew_ns;
};

/// `trace`: of one rank, or merged (harness/trace/merge_ranks.h). Collectives are operations of the
/// category communication; what a CPU only enqueues (c10d::) is none.
CommunicationUse compute_communication(const Trace& trace);

/// Bytes of the gradients of all trained parameters, in the type in which they travel.
std::int64_t gradient_bytes(const RunConfig& config);

/// What a ring all-reduce of `bytes` sends from each rank: 2 (W - 1) / W of them. It is what
/// "bus bandwidth" counts; other algorithms send more or less.
double ring_bytes(double bytes, std::int64_t world_size);

/// `ring_bytes` of all gradients, once an optimizer step with no_sync and once a micro-step
/// without.
double ring_bytes_per_step(const RunConfig& config);

nlohmann::json to_json(const CommunicationUse& use);

}  // namespace steplens
