#include "workloads/parallel/gradient_reducer.h"

#include <algorithm>
#include <limits>

#include <c10/core/GradMode.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/default_comm_hooks.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "workloads/parallel/bucket_hook.h"
#include "workloads/parallel/world_state.h"

namespace steplens {
namespace {

// What DistributedDataParallel uses.
constexpr std::size_t kBroadcastBufferBytes = std::size_t{250} << 20;
constexpr std::int64_t kFirstBucketBytes = std::int64_t{1} << 20;

std::unique_ptr<c10d::Reducer> make_reducer(const RunConfig& config,
                                            const std::vector<at::Tensor>& parameters,
                                            const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  const std::int64_t cap = config.bucket_mb << 20;
  const std::int64_t first = std::min(kFirstBucketBytes, cap);
  const std::vector<bool> is_sparse(parameters.size(), false);
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      parameters, {std::numeric_limits<int>::max()}, is_sparse);
  std::ranges::reverse(buckets);
  auto reducer = std::make_unique<c10d::Reducer>(
      parameters, std::move(buckets), group, is_sparse, cap, /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/true, std::unordered_map<std::size_t, std::string>{}, first,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<std::int64_t>{first, cap});
  // It would time every so many steps, by events inside the measured ones.
  reducer->set_ddp_runtime_logging_sample_rate(std::numeric_limits<int>::max());
  return reducer;
}

at::ScalarType wire_type_of(CommDtype type) {
  switch (type) {
    case CommDtype::kFp32: return at::kFloat;
    case CommDtype::kBf16: return at::kBFloat16;
    case CommDtype::kFp16: return at::kHalf;
  }
  return at::kFloat;
}

// Without a hook the Reducer all-reduces by itself, and divides while it fills its buckets.
void register_hook(const RunConfig& config, c10d::Reducer& reducer,
                   const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  if (config.overlap && config.comm_dtype == CommDtype::kFp32) return;
  if (config.overlap && config.comm_dtype == CommDtype::kFp16) {
    reducer.register_builtin_comm_hook(c10d::BuiltinCommHookType::FP16_COMPRESS);
    return;
  }
  reducer.register_comm_hook(
      std::make_unique<BucketHook>(group, wire_type_of(config.comm_dtype), !config.overlap));
}

}  // namespace

struct GradientReducer::State {
  std::unique_ptr<c10d::Reducer> reducer;
};

GradientReducer::GradientReducer(const RunConfig& config, std::vector<at::Tensor> parameters,
                                 World& world)
    : no_sync_(config.no_sync) {
  const c10::intrusive_ptr<c10d::ProcessGroup>& group = world.state().group;
  c10d::verify_params_across_processes(group, parameters, {});
  {
    const c10::AutoGradMode no_grad(false);
    c10d::broadcast_coalesced(group, parameters, kBroadcastBufferBytes, /*rank=*/0);
  }
  state_ = std::make_unique<State>();
  state_->reducer = make_reducer(config, parameters, group);
  register_hook(config, *state_->reducer, group);
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::before_forward(bool is_last) {
  if (is_last || !no_sync_) state_->reducer->prepare_for_forward();
  state_->reducer->rebuild_buckets();
}

void GradientReducer::before_backward(bool is_last) {
  if (is_last || !no_sync_) state_->reducer->prepare_for_backward({});
}

}  // namespace steplens
