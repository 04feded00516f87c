#include "kernels/attention/attention_backward.h"

#include "harness/error.h"
#include "kernels/vector.h"

#ifdef STEPLENS_CUDNN_FRONTEND

#include <cmath>
#include <string>
#include <unordered_map>

#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <fmt/format.h>

namespace cudnn_frontend {
// The frontend finds its functions here. LibTorch has the library open already.
void* cudnn_dlhandle = ::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
}  // namespace cudnn_frontend

namespace steplens {
namespace {

namespace fe = cudnn_frontend;

enum Operand : std::int64_t { kQ = 1, kK, kV, kY, kDy, kLogSumExp, kDq, kDk, kDv };

void check(fe::error_t error, const char* call) {
  if (error.is_good()) return;
  throw DeviceError(fmt::format("attention: cuDNN's {} failed: {}", call, error.get_message()));
}

void check_sizes(const AttentionBackwardArgs& args) {
  const auto at_least_one = [](const char* name, std::int64_t value) {
    check_argument(value >= 1, "attention_backward", name, value, "1 and more");
  };
  at_least_one("B", args.B);
  at_least_one("T", args.T);
  at_least_one("H", args.H);
  check_argument(args.D >= 8 && args.D <= 128 && args.D % 8 == 0, "attention_backward", "D", args.D,
                 "a multiple of 8, from 8 to 128");
}

std::vector<std::int64_t> sizes_of(const AttentionBackwardArgs& args) {
  return {args.B, args.H, args.T, args.D};
}

template <typename Void>
std::vector<std::int64_t> strides_of(const HeadsOf<Void>& view) {
  check_argument(view.channel_stride == 1, "attention_backward", "channel_stride",
                 view.channel_stride, "1");
  return {view.batch_stride, view.head_stride, view.token_stride, view.channel_stride};
}

}  // namespace

struct AttentionBackward::State {
  State() {
    const cudnnStatus_t status = fe::detail::create_handle(&handle);
    if (status != CUDNN_STATUS_SUCCESS) {
      throw DeviceError(
          fmt::format("attention: cudnnCreate returned {}", fe::detail::get_error_string(status)));
    }
  }
  ~State() { fe::detail::destroy_handle(handle); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  cudnnHandle_t handle = nullptr;
  fe::graph::Graph graph;
  std::int64_t workspace_bytes = 0;
};

bool AttentionBackward::is_available() { return fe::cudnn_dlhandle != nullptr; }

AttentionBackward::AttentionBackward(const AttentionBackwardArgs& args) {
  check_sizes(args);
  if (!is_available()) throw DeviceError("attention: libcudnn.so.9 cannot be opened");
  state_ = std::make_unique<State>();
  cudnnHandle_t const handle = state_->handle;
  fe::graph::Graph& graph = state_->graph;
  graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto operand = [&](const char* name, Operand id, const ConstHeadsView& view) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name(name)
                            .set_uid(id)
                            .set_dim(sizes_of(args))
                            .set_stride(strides_of(view)));
  };
  const auto q = operand("q", kQ, args.q);
  const auto k = operand("k", kK, args.k);
  const auto v = operand("v", kV, args.v);
  const auto y = operand("y", kY, args.y);
  const auto dy = operand("dy", kDy, args.dy);
  const auto log_sum_exp = graph.tensor(fe::graph::Tensor_attributes()
                                            .set_name("log_sum_exp")
                                            .set_uid(kLogSumExp)
                                            .set_dim({args.B, args.H, args.T, 1})
                                            .set_stride({args.H * args.T, args.T, 1, 1})
                                            .set_data_type(fe::DataType_t::FLOAT));
  const auto [dq, dk, dv] =
      graph.sdpa_backward(q, k, v, y, dy, log_sum_exp,
                          fe::graph::SDPA_backward_attributes()
                              .set_name("attention_backward")
                              .set_causal_mask(true)
                              .set_attn_scale(1.0f / std::sqrt(static_cast<float>(args.D))));
  const auto result = [&](const auto& tensor, Operand id, const HeadsView& view) {
    tensor->set_output(true).set_uid(id).set_dim(sizes_of(args)).set_stride(strides_of(view));
  };
  result(dq, kDq, args.dq);
  result(dk, kDk, args.dk);
  result(dv, kDv, args.dv);

  check(graph.validate(), "validate");
  check(graph.build_operation_graph(handle), "build_operation_graph");
  check(graph.create_execution_plans({fe::HeurMode_t::A}), "create_execution_plans");
  check(graph.check_support(handle), "check_support");
  check(graph.build_plans(handle), "build_plans");
  check(graph.get_workspace_size(state_->workspace_bytes), "get_workspace_size");
}

AttentionBackward::~AttentionBackward() = default;

std::int64_t AttentionBackward::workspace_bytes() const { return state_->workspace_bytes; }

void AttentionBackward::run(const AttentionBackwardArgs& args, cudaStream_t stream) const {
  const cudnnStatus_t status = fe::detail::set_stream(state_->handle, stream);
  if (status != CUDNN_STATUS_SUCCESS) {
    throw DeviceError(
        fmt::format("attention: cudnnSetStream returned {}", fe::detail::get_error_string(status)));
  }
  const auto address = [](const void* data) { return const_cast<void*>(data); };
  std::unordered_map<std::int64_t, void*> addresses = {
      {kQ, address(args.q.data)},   {kK, address(args.k.data)},
      {kV, address(args.v.data)},   {kY, address(args.y.data)},
      {kDy, address(args.dy.data)}, {kLogSumExp, address(args.log_sum_exp)},
      {kDq, args.dq.data},          {kDk, args.dk.data},
      {kDv, args.dv.data}};
  check(state_->graph.execute(state_->handle, addresses, args.workspace), "execute");
}

}  // namespace steplens

#else

namespace steplens {

struct AttentionBackward::State {};

bool AttentionBackward::is_available() { return false; }

AttentionBackward::AttentionBackward(const AttentionBackwardArgs&) {
  throw DeviceError(
      "attention: this build has no cuDNN frontend; run scripts/setup.sh, then build");
}

AttentionBackward::~AttentionBackward() = default;

std::int64_t AttentionBackward::workspace_bytes() const { return 0; }

void AttentionBackward::run(const AttentionBackwardArgs&, cudaStream_t) const {}

}  // namespace steplens

#endif
