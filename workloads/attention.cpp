#include "workloads/attention.h"

#include <algorithm>

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

std::string name_of_backend(std::int64_t backend) {
  for (const Attention attention :
       {Attention::kMath, Attention::kMemEfficient, Attention::kFlash, Attention::kCudnn}) {
    if (backend == static_cast<std::int64_t>(backend_of(attention))) {
      return std::string(name_of(attention));
    }
  }
  return "none";
}

void allow_all_attention() {
  at::Context& context = at::globalContext();
  context.setSDPUseFlash(true);
  context.setSDPUseMemEfficient(true);
  context.setSDPUseCuDNN(true);
  context.setSDPUseMath(true);
}

// The library's reasons come as sentences with line breaks and the places of its sources.
std::string one_line(std::string text) {
  constexpr std::size_t kMaxBytes = 600;
  std::ranges::replace(text, '\n', ' ');
  return text.size() > kMaxBytes ? text.substr(0, kMaxBytes - 3) + "..." : text;
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

AttentionChoice choose_attention(const RunConfig& config) {
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
  const auto ask = [&] {
    try {
      return at::_fused_sdp_choice(q, k, v, {}, 0.0, /*is_causal=*/true, std::nullopt, is_grouped);
    } catch (const c10::Error& error) {
      if (!collector.text.empty()) collector.text += "; ";
      collector.text += error.what_without_backtrace();
      return static_cast<std::int64_t>(at::SDPBackend::error);
    }
  };
  AttentionChoice choice{.dtype = c10::toString(options.dtype().toScalarType())};
  const std::int64_t chosen = ask();
  choice.chosen = name_of_backend(chosen);
  if (chosen == static_cast<std::int64_t>(backend_of(config.attention))) return choice;
  choice.why_not =
      one_line(collector.text.empty() ? "no reason given by the library" : collector.text);
  allow_all_attention();
  choice.would_choose = name_of_backend(ask());
  force_attention(config.attention);
  return choice;
}

std::string why_attention_cannot_run(const RunConfig& config, const AttentionChoice& choice) {
  if (choice.why_not.empty()) return "";
  const ModelShape& shape = config.shape;
  return fmt::format(
      "attention={} cannot run with {}, head_dim {}, {} heads over {} key-value heads, a causal "
      "mask and sequence_length {}: {}; the library would take {}",
      name_of(config.attention), choice.dtype, shape.head_dim, shape.num_heads, shape.num_kv_heads,
      config.sequence_length, choice.why_not, choice.would_choose);
}

nlohmann::json to_json(const RunConfig& config, const AttentionChoice& choice) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
  };
  return {{"wanted", name_of(config.attention)},
          {"chosen", choice.chosen},
          {"would_choose", or_null(choice.would_choose)},
          {"why_not", or_null(choice.why_not)},
          {"dtype", choice.dtype},
          {"head_dim", config.shape.head_dim},
          {"num_heads", config.shape.num_heads},
          {"num_kv_heads", config.shape.num_kv_heads},
          {"mask", "causal"},
          {"sequence_length", config.sequence_length}};
}

}  // namespace steplens
