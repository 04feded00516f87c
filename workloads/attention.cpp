#include "workloads/attention.h"

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "workloads/autocast.h"

namespace steplens {
namespace {

at::SDPBackend backend_of(Attention attention) {
  switch (attention) {
    case Attention::kMath: return at::SDPBackend::math;
    case Attention::kMemEfficient: return at::SDPBackend::efficient_attention;
    case Attention::kFlash: return at::SDPBackend::flash_attention;
    case Attention::kCudnn: return at::SDPBackend::cudnn_attention;
  }
  return at::SDPBackend::error;
}

// Collects the library's warnings, which hold the reasons, instead of printing them.
class WarningCollector : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (!text.empty()) text += "; ";
    text += warning.msg();
  }
  std::string text;
};

}  // namespace

void force_attention(Attention attention) {
  at::Context& context = at::globalContext();
  context.setSDPUseFlash(attention == Attention::kFlash);
  context.setSDPUseMemEfficient(attention == Attention::kMemEfficient);
  context.setSDPUseCuDNN(attention == Attention::kCudnn);
  context.setSDPUseMath(attention == Attention::kMath);
}

std::string why_attention_cannot_run(const RunConfig& config) {
  const ModelShape& shape = config.shape;
  const AutocastMode mode = autocast_mode(config);
  // Autocast casts inside the real operator, not inside the question: so cast by hand.
  const at::TensorOptions options =
      at::TensorOptions(mode.device).dtype(mode.is_enabled ? mode.type : at::kFloat);
  const auto make = [&](std::int64_t num_heads) {
    return at::empty({1, config.sequence_length, num_heads, shape.head_dim}, options)
        .set_requires_grad(true)
        .transpose(1, 2);
  };
  const at::Tensor q = make(shape.num_heads);
  const at::Tensor k = make(shape.num_kv_heads);
  const at::Tensor v = make(shape.num_kv_heads);
  const bool is_grouped = shape.num_heads != shape.num_kv_heads;

  WarningCollector collector;
  const c10::WarningUtils::WarningHandlerGuard guard(&collector);
  std::int64_t chosen = static_cast<std::int64_t>(at::SDPBackend::error);
  try {
    chosen = at::_fused_sdp_choice(q, k, v, {}, 0.0, /*is_causal=*/true, std::nullopt, is_grouped);
  } catch (const c10::Error& error) {
    collector.text += error.what_without_backtrace();
  }
  if (chosen == static_cast<std::int64_t>(backend_of(config.attention))) return "";
  std::string reason = collector.text.empty() ? "no reason given by the library" : collector.text;
  if (reason.size() > 600) reason = reason.substr(0, 597) + "...";
  return fmt::format("attention={} cannot run with these shapes and types: {}",
                     name_of(config.attention), reason);
}

}  // namespace steplens
