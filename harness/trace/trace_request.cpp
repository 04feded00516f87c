#include "harness/trace/trace_request.h"

#include <array>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "harness/error.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOut = "STEPLENS_TRACE_OUT";
constexpr const char* kKind = "STEPLENS_TRACE_KIND";
constexpr const char* kFirstStep = "STEPLENS_TRACE_FIRST_STEP";
constexpr const char* kNumSteps = "STEPLENS_TRACE_STEPS";
constexpr const char* kEnd = "STEPLENS_TRACE_END";  // "call" or nothing.
constexpr const char* kInfo = "STEPLENS_TRACE_INFO";

constexpr std::array kKinds = {TraceKind::kTrace, TraceKind::kGraphTrace, TraceKind::kCounters,
                               TraceKind::kNull};

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::int64_t number_in(const char* name, std::int64_t least) {
  const std::string_view text = variable(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    throw ConfigError(
        fmt::format("{}: \"{}\" is no whole number of at least {}", name, text, least));
  }
  return value;
}

}  // namespace

std::string_view name_of(TraceKind kind) {
  switch (kind) {
    case TraceKind::kTrace: return "trace";
    case TraceKind::kGraphTrace: return "graph-trace";
    case TraceKind::kCounters: return "counters";
    case TraceKind::kNull: return "null";
  }
  return "trace";
}

TraceKind trace_kind_from_name(std::string_view name) {
  for (const TraceKind kind : kKinds) {
    if (name == name_of(kind)) return kind;
  }
  throw ConfigError(
      fmt::format("{}: \"{}\" is not one of trace, graph-trace, counters, null", kKind, name));
}

std::map<std::string, std::string> environment_for(const TraceRequest& request,
                                                   const fs::path& library) {
  std::map<std::string, std::string> variables = {
      {kOut, request.path.string()},
      {kKind, std::string(name_of(request.kind))},
      {kNumSteps, fmt::format("{}", request.num_steps)},
      {kInfo, request.info.dump()},
      {"CUDA_INJECTION64_PATH", library.string()},
      {"NVTX_INJECTION64_PATH", library.string()},
  };
  if (request.is_ended_by_call) variables[kEnd] = "call";
  if (request.first_step) variables[kFirstStep] = fmt::format("{}", *request.first_step);
  return variables;
}

std::optional<TraceRequest> trace_request_from_environment() {
  const std::string_view path = variable(kOut);
  if (path.empty()) return std::nullopt;
  TraceRequest request;
  request.path = fs::path(path);
  if (!variable(kKind).empty()) request.kind = trace_kind_from_name(variable(kKind));
  if (!variable(kFirstStep).empty()) request.first_step = number_in(kFirstStep, 0);
  if (!variable(kNumSteps).empty()) request.num_steps = number_in(kNumSteps, 1);
  if (!variable(kEnd).empty()) {
    if (variable(kEnd) != "call") {
      throw ConfigError(fmt::format("{}: \"{}\" is not \"call\"", kEnd, variable(kEnd)));
    }
    request.is_ended_by_call = true;
  }
  if (!variable(kInfo).empty()) {
    request.info = nlohmann::json::parse(variable(kInfo), nullptr, /*allow_exceptions=*/false);
    if (!request.info.is_object()) {
      throw ConfigError(fmt::format("{}: not a JSON object", kInfo));
    }
  }
  return request;
}

std::optional<fs::path> find_inject_library() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return std::nullopt;
  const fs::path library = program.parent_path().parent_path() / "lib" / "libsteplens_inject.so";
  return fs::exists(library, error) ? std::optional(library) : std::nullopt;
}

}  // namespace steplens
