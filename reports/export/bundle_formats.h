#pragma once

#include <filesystem>

#include "harness/bundle.h"
#include "reports/results.h"

/// A bundle's results in formats that other tools read. Each writes one file, atomically; what a
/// bundle lacks is left out. ConfigError names a path that cannot be written.
namespace steplens {

/// Lines of MLPerf's logging format, ":::MLLOG " and a JSON object with namespace, time_ms,
/// event_type, key, value and metadata. The baseline's settings under MLPerf's keys
/// (global_batch_size, max_sequence_length, opt_name, ...); between run_start and run_stop each
/// throughput block with its arm in the metadata: block_start, tracked_stats with its throughput in
/// tokens/s, block_stop; then the effects under keys of ours, "steplens_effect_ratio" and so on. It
/// is no MLPerf submission: nothing is trained to a quality target.
void write_mllog(const std::filesystem::path& path, const Bundle& bundle, const Results& results);

/// The JSON of Google Benchmark, which its tools/compare.py reads: a benchmark an arm, each
/// usable throughput block a repetition. real_time is the mean step of the block, cpu_time the
/// CPU time of the process a step where the sampler saw it, else real_time; items_per_second are
/// valid tokens. Aggregates (mean, median, stddev, cv) follow where there are two repetitions.
void write_benchmark_json(const std::filesystem::path& path, const Bundle& bundle,
                          const Results& results);

/// A row an arm, a column for each member of results.json's arms that is one value, under its
/// key. RFC 4180; absent is empty.
void write_results_csv(const std::filesystem::path& path, const Bundle& bundle,
                       const Results& results);

}  // namespace steplens
