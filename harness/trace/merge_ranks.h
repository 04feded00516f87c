#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "harness/trace/trace.h"

/// The traces of the ranks of one block, as one.
///
/// Clocks: each trace counts from its own "start_unix_ns" by its host's clock, and says in
/// "clock_offset_ns" how far that clock is ahead of rank 0's (World::clock_offset). Merged times
/// are those of rank 0's trace.
namespace steplens {

/// Keys of Trace::info.
inline constexpr std::string_view kClockOffsetKey = "clock_offset_ns";
inline constexpr std::string_view kClockUncertaintyKey = "clock_uncertainty_ns";
/// Of a merged trace: a row a rank with "rank", "first_thread" (row of Trace::threads), and the two
/// above. Its devices are rows of Trace::devices from "first_device" on.
inline constexpr std::string_view kRanksKey = "ranks";

/// Traces of the ranks in rank order become one. Operations of rank r are on device r (of a rank
/// with several devices, on those behind it); threads and counter tracks are named after it;
/// correlation ids, graph nodes and rows are told apart; steps are those of rank 0. At most 256
/// devices; one trace stays as it is.
Trace merge_ranks(std::vector<Trace> ranks);

/// How many ranks a trace holds: 1 unless it was merged.
int num_ranks(const Trace& trace);

/// Rank of a row of Trace::devices or Trace::threads; 0 unless the trace was merged.
int rank_of_device(const Trace& trace, std::uint32_t device);
int rank_of_thread(const Trace& trace, std::uint32_t thread);

/// `trace` and the files beside it that other ranks of its block wrote, in rank order:
/// trace.slt, trace.rank1.slt, ...; only `trace` if it is not a block's.
std::vector<std::filesystem::path> rank_trace_paths(const std::filesystem::path& trace);

/// Reads and merges them.
Trace read_rank_traces(const std::filesystem::path& trace);

}  // namespace steplens
