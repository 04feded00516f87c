#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "harness/trace/trace.h"

namespace steplens {

/// Traces by hand: says what ran when, and the rows that must refer to each other do.
class TraceBuilder {
 public:
  TraceBuilder() { trace_.devices.push_back({.name = text("NVIDIA H200")}); }

  Trace& trace() { return trace_; }

  StringId text(std::string_view string) {
    const auto [it, is_new] =
        strings_.try_emplace(std::string(string), static_cast<StringId>(trace_.strings.size()));
    if (is_new) trace_.strings.emplace_back(string);
    return it->second;
  }

  /// Row of the thread of that name.
  std::uint32_t thread(std::string_view name = "main") {
    for (std::uint32_t row = 0; row < trace_.threads.size(); ++row) {
      if (trace_.text(trace_.threads[row].name) == name) return row;
    }
    trace_.threads.push_back({.tid = 100 + trace_.threads.size(), .name = text(name)});
    return static_cast<std::uint32_t>(trace_.threads.size() - 1);
  }

  /// Row of the range of that path, such as "step/micro-step/forward/block 3/attention".
  std::uint32_t range(std::string_view path, std::string_view domain = "") {
    std::uint32_t row = kNoRow;
    while (!path.empty()) {
      const std::size_t slash = std::min(path.find('/'), path.size());
      row = child(row, path.substr(0, slash), domain);
      path.remove_prefix(std::min(slash + 1, path.size()));
    }
    return row;
  }

  /// A kernel of step `step_index`, attributed to a range. The phase follows from the path.
  GpuOp& kernel(std::string_view name, std::int64_t start_ns, std::int64_t end_ns,
                std::int32_t step_index, std::string_view path = "") {
    GpuOp& op = trace_.gpu_ops.emplace_back();
    op.start_ns = start_ns;
    op.end_ns = end_ns;
    op.name = text(name);
    op.stream_id = 7;
    op.step_index = step_index;
    if (!path.empty()) {
      op.range = range(path);
      op.phase = phase_of(path);
      op.attribution = Attribution::kRange;
    }
    return op;
  }

  GpuOp& copy(CopyKind kind, std::int64_t start_ns, std::int64_t end_ns, std::int32_t step_index,
              std::string_view path = "") {
    GpuOp& op = kernel("", start_ns, end_ns, step_index, path);
    op.kind = GpuOpKind::kCopy;
    op.copy_kind = kind;
    op.stream_id = 20;
    return op;
  }

  /// An operator of a CPU arm.
  GpuOp& cpu_operator(std::string_view name, std::int64_t start_ns, std::int64_t end_ns,
                      std::int32_t step_index, std::string_view path = "") {
    const std::uint32_t row = thread();
    GpuOp& op = kernel(name, start_ns, end_ns, step_index, path);
    op.kind = GpuOpKind::kOperator;
    op.stream_id = row;
    return op;
  }

  Api& api(std::string_view name, std::int64_t start_ns, std::int64_t end_ns,
           std::string_view thread_name = "main") {
    const std::uint32_t row = thread(thread_name);
    Api& api = trace_.apis.emplace_back();
    api.start_ns = start_ns;
    api.end_ns = end_ns;
    api.name = text(name);
    api.thread = row;
    api.correlation_id = ++last_correlation_id_;
    return api;
  }

  /// The call that launched the last operation.
  Api& launched(std::int64_t start_ns, std::int64_t end_ns, std::string_view thread_name = "main") {
    Api& call = api("cudaLaunchKernel", start_ns, end_ns, thread_name);
    trace_.gpu_ops.back().correlation_id = call.correlation_id;
    return call;
  }

  void open(std::string_view path, std::int64_t start_ns, std::int64_t end_ns,
            std::string_view thread_name = "main", std::string_view domain = "") {
    trace_.range_instances.push_back({.start_ns = start_ns,
                                      .end_ns = end_ns,
                                      .range = range(path, domain),
                                      .thread = thread(thread_name)});
  }

  static Phase phase_of(std::string_view path) {
    static constexpr std::pair<std::string_view, Phase> kPhases[] = {
        {"forward", Phase::kForward},
        {"backward", Phase::kBackward},
        {"clip", Phase::kClip},
        {"optimizer", Phase::kOptimizer},
        {"data", Phase::kData}};
    for (const auto& [word, phase] : kPhases) {
      if (path.find(word) != std::string_view::npos) return phase;
    }
    return Phase::kOther;
  }

 private:
  std::uint32_t child(std::uint32_t parent, std::string_view name, std::string_view domain) {
    const StringId name_id = text(name);
    const StringId domain_id = text(domain);
    for (std::uint32_t row = 0; row < trace_.ranges.size(); ++row) {
      const Range& range = trace_.ranges[row];
      if (range.parent == parent && range.name == name_id && range.domain == domain_id) return row;
    }
    trace_.ranges.push_back({.name = name_id, .domain = domain_id, .parent = parent});
    return static_cast<std::uint32_t>(trace_.ranges.size() - 1);
  }

  Trace trace_;
  std::map<std::string, StringId> strings_ = {{"", 0}};
  std::uint32_t last_correlation_id_ = 0;
};

}  // namespace steplens
