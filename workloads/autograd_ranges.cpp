#include "workloads/autograd_ranges.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <nvtx3/nvToolsExt.h>
#include <torch/csrc/autograd/engine.h>

#include "harness/trace/range_names.h"
#include "workloads/ranges.h"

namespace steplens {
namespace {

// The profiler's callbacks are plain function pointers, so what they share is global.
std::mutex mutex;

// What modules are open, and how their backward nodes are named. Kept for good: there are few.
struct Modules {
  std::string path;
  std::string node_name;
};
std::map<std::string, Modules, std::less<>> known_modules;

// Autograd numbers its nodes one by one, thread by thread, as the forward operators make them. So
// it is enough to note at which number other modules begin: no operator need be observed.
struct SequenceLog {
  struct Span {
    std::int64_t first_number = 0;
    const Modules* modules = nullptr;
  };
  static constexpr std::size_t kMaxSpans = 65'536;  // Some hundreds a micro-step.
  std::vector<Span> spans;

  const Modules* modules_of(std::int64_t number) const {
    const auto after = std::ranges::upper_bound(spans, number, {}, &Span::first_number);
    return after == spans.begin() ? nullptr : std::prev(after)->modules;
  }
};
std::map<std::uint64_t, SequenceLog> logs;  // By the profiler's number of the thread.

// Of a thread that runs the backward pass: a range of the last node is open. It stays open until
// the next node begins, because the engine adds up gradients between nodes.
thread_local bool is_node_open = false;
thread_local const Modules* node_modules = nullptr;
thread_local std::uint64_t node_version = 0;
thread_local int operator_depth = 0;
thread_local bool is_collective_open = false;
std::atomic<bool> has_operators = false;

nvtxDomainHandle_t operator_domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA(kOperatorDomainName.data());
  return domain;
}

void close_node() {
  if (!std::exchange(is_node_open, false)) return;
  ++node_version;
  nvtxRangePop();
}

void on_ranges() {
  std::string path = open_modules();
  const auto first_number = static_cast<std::int64_t>(at::sequence_number::peek());
  const std::lock_guard lock(mutex);
  auto it = known_modules.find(path);
  if (it == known_modules.end()) {
    const std::string name = path.empty() ? "backward" : "backward/" + path;
    it = known_modules.emplace(path, Modules{.path = path, .node_name = name}).first;
  }
  std::vector<SequenceLog::Span>& spans = logs[at::RecordFunction::currentThreadId()].spans;
  const Modules* modules = &it->second;
  // No node lies between two changes at the same number.
  if (!spans.empty() && spans.back().first_number == first_number) spans.pop_back();
  if (!spans.empty() && spans.back().modules == modules) return;
  if (spans.size() == SequenceLog::kMaxSpans) {
    spans.erase(spans.begin(), spans.begin() + SequenceLog::kMaxSpans / 2);
  }
  spans.push_back({.first_number = first_number, .modules = modules});
}

std::unique_ptr<at::ObserverContext> on_node(const at::RecordFunction& function) {
  // Nodes without a number (AccumulateGrad) come right behind the one that made their gradient.
  if (function.seqNr() >= 0) {
    const std::lock_guard lock(mutex);
    const auto log = logs.find(function.forwardThreadId());
    const Modules* modules = log == logs.end() ? nullptr : log->second.modules_of(function.seqNr());
    if (modules != nullptr) node_modules = modules;
  }
  if (is_node_open) {
    nvtxRangePop();
  } else {
    torch::autograd::Engine::get_default_engine().queue_callback(close_node);
  }
  nvtxRangePushA(node_modules == nullptr ? "backward" : node_modules->node_name.c_str());
  is_node_open = true;
  ++node_version;
  return nullptr;
}

// The engine's own wrapper around a node: what the node calls are the operators.
bool is_engine_call(const at::RecordFunction& function) {
  return std::string_view(function.name()).starts_with("autograd::");
}

void open_operator(const char* name) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(operator_domain(), &attributes);
}

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
  if (is_engine_call(function) || operator_depth++ > 0) return nullptr;
  open_operator(function.name());
  return nullptr;
}

void on_operator_end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (is_engine_call(function)) return;
  if (--operator_depth == 0) nvtxDomainRangePop(operator_domain());
}

}  // namespace

OpenNode open_node() {
  return {.is_open = is_node_open,
          .modules = node_modules == nullptr ? std::string_view() : node_modules->path,
          .version = node_version};
}

void begin_collective_range(const char* name) {
  if (!has_operators) return;
  is_collective_open = true;
  open_operator(("mpi::" + std::string(name)).c_str());
}

void end_collective_range() {
  if (std::exchange(is_collective_open, false)) nvtxDomainRangePop(operator_domain());
}

AutogradRanges::AutogradRanges(bool with_operators) {
  observe_ranges(&on_ranges);
  node_handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&on_node).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  has_operators = with_operators;
  if (with_operators) {
    operator_handle_ =
        at::addGlobalCallback(at::RecordFunctionCallback(&on_operator, &on_operator_end)
                                  .scopes({at::RecordScope::FUNCTION}));
  }
}

AutogradRanges::~AutogradRanges() {
  observe_ranges(nullptr);
  has_operators = false;
  at::removeCallback(node_handle_);
  if (operator_handle_ != 0) at::removeCallback(operator_handle_);
}

}  // namespace steplens
