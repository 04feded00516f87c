#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "harness/run_config.h"
#include "workloads/model.h"

namespace steplens {

/// Forward and backward of one micro-batch in one call of a package that AOTInductor compiled: the
/// functional twin of Model::loss_sum and its backward pass.
///
/// The package runs single-threaded, which is what capture in a CUDA graph wants. Its intermediates
/// come from the caching allocator, like those of eager operators.
class CompiledPass {
 public:
  /// The package of `config` on this device. ConfigError with the reason if it is refused.
  explicit CompiledPass(const RunConfig& config);
  ~CompiledPass();
  CompiledPass(const CompiledPass&) = delete;
  CompiledPass& operator=(const CompiledPass&) = delete;

  /// Why the package of `config` cannot run here; empty if it can, or if compile=off.
  static std::string why_not(const RunConfig& config);

  /// Adds the gradients of `scale` x loss sum to those of the model's trained parameters. Returns
  /// the loss sum, unscaled. `scale`: fp32 scalar on the device. `tokens_BT`, `targets_BT`: int64,
  /// of the shape that the package was made for.
  at::Tensor run(const Model& model, const at::Tensor& tokens_BT, const at::Tensor& targets_BT,
                 const at::Tensor& scale);

  /// For `evidence.package` of block.json: name, export_ns, trace_ns, load_ns, package_bytes.
  const nlohmann::json& facts() const { return facts_; }
  /// What it took to get ready: the export, whenever it was, and loading.
  std::int64_t compile_ns() const { return compile_ns_; }

 private:
  struct Loader;
  std::unique_ptr<Loader> loader_;
  nlohmann::json facts_;
  std::vector<std::string> run_counters_;  // Counted once a run beside "package_runs".
  std::int64_t compile_ns_ = 0;
};

}  // namespace steplens
