#include "workloads/autograd_ranges.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/record_function.h>
#include <nvtx3/nvToolsExt.h>
#include <torch/csrc/autograd/engine.h>

#include "harness/trace/range_names.h"
#include "workloads/ranges.h"

namespace steplens {
namespace {

// Modules of the forward operators, by thread and sequence number: numbers are per thread. The
// profiler's callbacks are plain function pointers, so what they share is global.
std::mutex mutex;
std::map<std::pair<std::uint64_t, std::int64_t>, std::string> modules_of_sequence;

// Of a thread that runs the backward pass: a range of the last node is open. It stays open until
// the next node begins, because the engine adds up gradients between nodes.
thread_local bool is_node_open = false;
thread_local std::string node_modules;
thread_local std::uint64_t node_version = 0;
thread_local int operator_depth = 0;

nvtxDomainHandle_t operator_domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA(kOperatorDomainName.data());
  return domain;
}

void close_node() {
  if (!std::exchange(is_node_open, false)) return;
  ++node_version;
  nvtxRangePop();
}

std::unique_ptr<at::ObserverContext> on_forward_operator(const at::RecordFunction& function) {
  if (function.seqNr() < 0) return nullptr;
  std::string modules = open_modules();
  const std::lock_guard lock(mutex);
  // An operator that makes no node shows the number of the next one that does: the last one counts.
  modules_of_sequence[{function.threadId(), function.seqNr()}] = std::move(modules);
  return nullptr;
}

std::unique_ptr<at::ObserverContext> on_node(const at::RecordFunction& function) {
  {
    const std::lock_guard lock(mutex);
    const auto it = modules_of_sequence.find({function.forwardThreadId(), function.seqNr()});
    // Nodes without a number (AccumulateGrad) come right behind the one that made their gradient.
    if (it != modules_of_sequence.end()) node_modules = it->second;
  }
  if (is_node_open) {
    nvtxRangePop();
  } else {
    torch::autograd::Engine::get_default_engine().queue_callback(close_node);
  }
  nvtxRangePushA(node_modules.empty() ? "backward" : ("backward/" + node_modules).c_str());
  is_node_open = true;
  ++node_version;
  return nullptr;
}

// The engine's own wrapper around a node: what the node calls are the operators.
bool is_engine_call(const at::RecordFunction& function) {
  return std::string_view(function.name()).starts_with("autograd::");
}

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
  if (is_engine_call(function) || operator_depth++ > 0) return nullptr;
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = function.name();
  nvtxDomainRangePushEx(operator_domain(), &attributes);
  return nullptr;
}

void on_operator_end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (is_engine_call(function)) return;
  if (--operator_depth == 0) nvtxDomainRangePop(operator_domain());
}

}  // namespace

OpenNode open_node() {
  return {.is_open = is_node_open, .modules = node_modules, .version = node_version};
}

AutogradRanges::AutogradRanges(bool with_operators) {
  sequence_handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&on_forward_operator).scopes({at::RecordScope::FUNCTION}));
  node_handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&on_node).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  if (with_operators) {
    operator_handle_ =
        at::addGlobalCallback(at::RecordFunctionCallback(&on_operator, &on_operator_end)
                                  .scopes({at::RecordScope::FUNCTION}));
  }
}

AutogradRanges::~AutogradRanges() {
  at::removeCallback(sequence_handle_);
  at::removeCallback(node_handle_);
  if (operator_handle_ != 0) at::removeCallback(operator_handle_);
}

}  // namespace steplens
