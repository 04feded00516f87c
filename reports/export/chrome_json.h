#pragma once

#include <filesystem>

#include "harness/trace/trace.h"
#include "reports/export/progress.h"

namespace steplens {

/// Version of the member "steplens" of the files that `write_chrome_json` writes.
inline constexpr int kChromeHeaderVersion = 1;

/// Writes a trace as Chrome trace JSON, for ui.perfetto.dev and for what reads Kineto's files: same
/// categories, same names in `args`. A path that ends in .gz is compressed.
///
/// One process per device with a track per stream and two for the nodes of graphs, whatever their
/// streams ("graph", "communication"; `args` has the stream), one for the host with a track per
/// thread (ranges, operators, API calls), the steps, synchronisation, counters and the allocator's
/// bytes; an arrow from each launch to what it launched. No operation is lost: what overlaps on a
/// stream goes to further tracks, "stream 7 (overlap 2)", and times before the run's start shift
/// all others. `ts` and `dur` are microseconds with three decimals, made of integers; `args` has
/// the nanoseconds.
///
/// The member "steplens" is a string of JSON with what the format has no place for; see
/// import_chrome_json. ConfigError names path and cause; then `path` is what it was.
void write_chrome_json(const std::filesystem::path& path, const Trace& trace,
                       const RowProgress& progress = {});

}  // namespace steplens
