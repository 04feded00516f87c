#include "workloads/evidence.h"

#include <mutex>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include "harness/error.h"

namespace steplens {
namespace {

// The profiler's callbacks are plain function pointers, so what they write to is global.
std::mutex& mutex() {
  static std::mutex instance;
  return instance;
}
Counters& operators() {
  static Counters instance;
  return instance;
}
std::vector<std::int64_t>& messages() {
  static std::vector<std::int64_t> instance;
  return instance;
}
Counters& events() {
  static Counters instance;
  return instance;
}

std::string_view matmul_type(const at::RecordFunction& function) {
  if (function.inputs().empty() || !function.inputs().front().isTensor()) return "";
  switch (function.inputs().front().toTensor().scalar_type()) {
    case at::kBFloat16: return "matmuls_bf16";
    case at::kHalf: return "matmuls_fp16";
    case at::kFloat: return at::globalContext().allowTF32CuBLAS() ? "matmuls_tf32" : "matmuls_fp32";
    default: return "";
  }
}

// What an all-reduce carries. Its first argument is a list of tensors.
struct Message {
  std::int64_t bytes = 0;
  std::string_view counter;
};
Message message_of(const at::RecordFunction& function) {
  Message message;
  if (function.inputs().empty() || !function.inputs().front().isTensorList()) return message;
  for (const at::Tensor& tensor : function.inputs().front().toTensorVector()) {
    message.bytes += static_cast<std::int64_t>(tensor.nbytes());
    switch (tensor.scalar_type()) {
      case at::kFloat: message.counter = "all_reduces_fp32"; break;
      case at::kBFloat16: message.counter = "all_reduces_bf16"; break;
      case at::kHalf: message.counter = "all_reduces_fp16"; break;
      default: break;
    }
  }
  return message;
}

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  const bool is_matmul = name == "aten::mm" || name == "aten::addmm" || name == "aten::bmm";
  const std::string_view type = is_matmul ? matmul_type(function) : "";
  const Message message = name == "c10d::allreduce_" ? message_of(function) : Message();
  const std::scoped_lock lock(mutex());
  if (message.bytes > 0) {
    operators()["all_reduce_bytes"] += message.bytes;
    messages().push_back(message.bytes);
  }
  if (!message.counter.empty()) ++operators()[std::string(message.counter)];
  ++operators()[std::string(name)];
  ++operators()["operators"];
  if (!type.empty()) ++operators()[std::string(type)];
  return nullptr;
}

}  // namespace

void count_event(std::string_view counter, std::int64_t count) {
  const std::scoped_lock lock(mutex());
  events()[std::string(counter)] += count;
}

Counters event_counts() {
  const std::scoped_lock lock(mutex());
  return events();
}

OperatorCounter::OperatorCounter()
    : handle_(at::addGlobalCallback(at::RecordFunctionCallback(&on_operator)
                                        .needsInputs(true)
                                        .scopes({at::RecordScope::FUNCTION}))) {
  const std::scoped_lock lock(mutex());
  operators().clear();
  messages().clear();
}

OperatorCounter::~OperatorCounter() { at::removeCallback(handle_); }

Counters OperatorCounter::counts() const {
  const std::scoped_lock lock(mutex());
  return operators();
}

std::vector<std::int64_t> OperatorCounter::all_reduce_bytes() const {
  const std::scoped_lock lock(mutex());
  return messages();
}

}  // namespace steplens
