#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace steplens {

enum class TraceKind {
  kTrace,       // Every kernel, those of graphs too.
  kGraphTrace,  // One row a graph launch.
  kCounters,    // Every kernel, and the GPU's hardware counters over time.
  kNull,        // CUPTI at work and its records thrown away: the cost of any collector.
};
std::string_view name_of(TraceKind kind);  // "trace", "graph-trace", "counters", "null"
TraceKind trace_kind_from_name(std::string_view name);

/// What libsteplens_inject.so is asked for, through the environment of the process that it is
/// loaded into.
struct TraceRequest {
  std::filesystem::path path;  // Of the trace file.
  TraceKind kind = TraceKind::kTrace;
  /// Steps are the outermost ranges named "step". Absent: the whole run, from the library's loading
  /// to the process's end.
  std::optional<std::int64_t> first_step;
  std::int64_t num_steps = 10;
  /// The program itself ends the window, by `steplens_inject_finish`, when its device is idle. Else
  /// the end of the last step does, whose own time then holds the wait and the writing of the file.
  bool is_ended_by_call = false;
  nlohmann::json info = nlohmann::json::object();  // Goes into Trace::info as it is.
};

/// Variables that make a CUDA program, or one with NVTX ranges, load the library and be traced.
std::map<std::string, std::string> environment_for(const TraceRequest& request,
                                                   const std::filesystem::path& library);

/// The request in this process's environment; absent if there is none. ConfigError names the
/// variable.
std::optional<TraceRequest> trace_request_from_environment();

/// libsteplens_inject.so beside the running program (../lib); absent if it is not there.
std::optional<std::filesystem::path> find_inject_library();

}  // namespace steplens
