#include "workloads/step_executor.h"

#include <chrono>

#include <ATen/autocast_mode.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "harness/error.h"
#include "harness/step_counts.h"
#include "kernels/graph/memset_nodes.h"
#include "workloads/evidence.h"
#include "workloads/fused/gemm.h"
#include "workloads/ranges.h"

namespace steplens {
namespace {

class EagerExecutor final : public StepExecutor {
 public:
  explicit EagerExecutor(TrainStep& train_step) : train_step_(train_step) {}
  void run(const DeviceStep& step) override { train_step_.run(step); }
  std::int64_t compile_ns() const override { return 0; }
  std::int64_t hidden_bytes() const override { return 0; }

 private:
  TrainStep& train_step_;
};

class GraphExecutor final : public StepExecutor {
 public:
  GraphExecutor(const RunConfig& config, TrainStep& train_step)
      : num_eager_steps_(num_steps_before_capture(config)),
        train_step_(train_step) {}

  void run(const DeviceStep& step) override {
    if (num_steps_++ < num_eager_steps_) {
      train_step_.run(step);
      return;
    }
    if (!graph_) capture(step);
    {
      const ScopedRange data("data");
      for (std::size_t i = 0; i < inputs_.micro_batches.size(); ++i) {
        inputs_.micro_batches[i].tokens_BT.copy_(step.micro_batches[i].tokens_BT, true);
        inputs_.micro_batches[i].targets_BT.copy_(step.micro_batches[i].targets_BT, true);
      }
    }
    SL_CHECK(step.num_loss_tokens == inputs_.num_loss_tokens);  // Baked into the graph.
    graph_->replay();
    count_event("graph_replays");
    train_step_.count_replayed_step();
  }

  std::int64_t compile_ns() const override { return compile_ns_; }

  std::int64_t hidden_bytes() const override {
    if (!graph_) return 0;
    // After the capture the allocator counts only what the pool still holds as live tensors; a
    // replay writes to all of its segments.
    std::int64_t hidden = 0;
    const c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot =
        c10::cuda::CUDACachingAllocator::snapshot({0, 0}, /*include_traces=*/false);
    for (const auto& segment : snapshot.segments) {
      if (segment.owner_private_pool_id == graph_->pool()) {
        hidden += static_cast<std::int64_t>(segment.total_size) -
                  static_cast<std::int64_t>(segment.allocated_size);
      }
    }
    return hidden;
  }

 private:
  void capture(const DeviceStep& step) {
    const auto start = std::chrono::steady_clock::now();
    inputs_.num_loss_tokens = step.num_loss_tokens;
    {
      const ScopedRange data("data");
      for (const DeviceMicroBatch& micro : step.micro_batches) {
        // A copy now: the capture itself runs nothing, and the buffers must hold valid tokens.
        inputs_.micro_batches.push_back(
            {.tokens_BT = micro.tokens_BT.clone(), .targets_BT = micro.targets_BT.clone()});
      }
    }
    train_step_.reset_gradients();
    at::autocast::clear_cache();
    c10::cuda::device_synchronize();
    // As torch.cuda.graph does: the graph's pool takes memory of its own, and what the eager steps
    // had cached would lie beside it for good.
    c10::cuda::CUDACachingAllocator::emptyCache();
    graph_ = std::make_unique<at::cuda::CUDAGraph>(/*keep_graph=*/true);
    // Thread-local: the loader thread and NVML polling may make CUDA calls meanwhile.
    graph_->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    train_step_.run(inputs_);
    graph_->capture_end();
    count_event("graph_memsets_gathered", gather_counters(graph_->raw_cuda_graph()));
    count_event("graph_memsets_replaced", replace_memset_nodes(graph_->raw_cuda_graph()));
    graph_->instantiate();
    train_step_.count_replayed_step(-1);  // Captured, not run.
    compile_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::steady_clock::now() - start)
                      .count();
  }

  std::int64_t num_eager_steps_;
  TrainStep& train_step_;
  std::int64_t num_steps_ = 0;
  DeviceStep inputs_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  std::int64_t compile_ns_ = 0;
};

}  // namespace

std::unique_ptr<StepExecutor> make_step_executor(const RunConfig& config, TrainStep& train_step) {
  if (config.graph) return std::make_unique<GraphExecutor>(config, train_step);
  return std::make_unique<EagerExecutor>(train_step);
}

}  // namespace steplens
