// What the kernels do: attention, arithmetic without tensor cores, passes over memory,
// recomputation.

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "reports/advice/rules.h"
#include "reports/format.h"

namespace steplens {
namespace {

constexpr double kMinUnfusedShare = 0.02;
// Kernels of one generation differ by up to a half (flash against cuDNN on an H200: 11.8 and 8.3
// ms a step), so below this share another one cannot give 2 %.
constexpr double kMinAttentionShare = 0.06;
constexpr double kMinSlowGemmShare = 0.03;
constexpr double kMaxIdleTensorUse = 0.05;  // Of the tensor pipes' peak, mean over the steps.
constexpr double kMinGemmShare = 0.2;
constexpr double kMinMemoryBoundShare = 0.4;
// AdamW reads and writes 28 bytes a parameter: 0.8 % of a step of gpt2-124m at 32 rows.
constexpr double kMinOptimizerShare = 0.02;
constexpr std::size_t kNumKernelsShown = 3;

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool has_any(std::string_view name, std::span<const std::string_view> parts) {
  const std::string small = lower(name);
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return small.find(part) != std::string::npos; });
}

// The softmax of an attention that writes its whole matrix of scores.
bool is_unfused_softmax(const UsageGroup& kernel) {
  constexpr std::array<std::string_view, 4> kFused = {"flash", "fmha", "sdpa",
                                                      "scaled_dot_product"};
  constexpr std::array<std::string_view, 1> kSoftmax = {"softmax"};
  return kernel.category == KernelCategory::kAttention && has_any(kernel.key, kSoftmax) &&
         !has_any(kernel.key, kFused);
}

// Products in plain fp32, which the tensor cores do not do. cuBLAS names say "f32f32_f32f32_f32" or
// "sgemm"; a TF32 kernel says "tf32".
bool is_fp32_gemm(const UsageGroup& kernel) {
  constexpr std::array<std::string_view, 3> kPlain = {"f32f32_f32f32", "sgemm", "simt"};
  constexpr std::array<std::string_view, 1> kTensor = {"tf32"};
  return kernel.category == KernelCategory::kGemm && has_any(kernel.key, kPlain) &&
         !has_any(kernel.key, kTensor);
}

template <typename Predicate>
std::vector<const UsageGroup*> kernels_that(const Breakdown& breakdown,
                                            const Predicate& predicate) {
  std::vector<const UsageGroup*> kernels;
  for (const UsageGroup& kernel : breakdown.kernels) {
    if (predicate(kernel)) kernels.push_back(&kernel);
  }
  return kernels;
}

double sum_ns(const ArmFacts& facts, std::span<const UsageGroup* const> kernels) {
  std::int64_t total_ns = 0;
  for (const UsageGroup* kernel : kernels) total_ns += kernel->total.exclusive_ns;
  return facts.per_step(total_ns);
}

void add_largest(const ArmFacts& facts, std::span<const UsageGroup* const> kernels,
                 Finding& finding) {
  for (const UsageGroup* kernel : kernels.first(std::min(kNumKernelsShown, kernels.size()))) {
    finding.evidence.push_back(facts.kernel_evidence(*kernel));
  }
}

// Of modules whose name says attention: what surrounds the softmax belongs to it.
double attention_module_ns(const ArmFacts& facts) {
  std::int64_t total_ns = 0;
  for (const UsageGroup& module : facts.breakdown().module_kinds) {
    if (module.key.ends_with("attention")) total_ns += module.total.exclusive_ns;
  }
  return facts.per_step(total_ns);
}

const CounterUse* find_counter(const ArmFacts& facts, std::string_view name) {
  if (facts.input().counters == nullptr) return nullptr;
  for (const CounterUse& use : facts.input().counters->counters) {
    if (use.name == name && use.mean) return &use;
  }
  return nullptr;
}

// A compiler fuses all at once; where it cannot run, or has run, the part with the most such
// passes.
void choose_fusion(const ArmFacts& facts, Finding& finding) {
  if (facts.input().config == nullptr || facts.is("compile", "aoti")) return;
  const bool can_compile = facts.is("batching", "packed") && facts.is("checkpoint", "off") &&
                           facts.is("world_size", "1");
  if (can_compile) {
    finding.toggle = "compile";
    finding.level = "aoti";
    return;
  }
  if (facts.is("precision", "fp16")) return;
  constexpr std::array<std::pair<KernelCategory, std::string_view>, 3> kParts = {
      {{KernelCategory::kElementwise, "mlp"},
       {KernelCategory::kNorm, "norm"},
       {KernelCategory::kLoss, "loss"}}};
  double most_ns = 0;
  for (const auto& [category, key] : kParts) {
    if (!facts.is(key, "aten") || facts.category_ns(category) <= most_ns) continue;
    most_ns = facts.category_ns(category);
    finding.toggle = key;
    finding.level = "fused";
  }
}

}  // namespace

std::optional<Finding> find_unfused_attention(const ArmFacts& facts) {
  if (!facts.has_trace()) return std::nullopt;
  const auto softmax = kernels_that(facts.breakdown(), is_unfused_softmax);
  const double module_ns = attention_module_ns(facts);
  const double cost_ns = std::max(sum_ns(facts, softmax), softmax.empty() ? 0 : module_ns);
  if (softmax.empty() || facts.share(cost_ns) < kMinUnfusedShare) return std::nullopt;
  Finding finding;
  finding.message =
      "Attention writes and reads its whole matrix of scores instead of keeping tiles of it on the "
      "chip: time and memory that grow with the square of the sequence length.";
  add_largest(facts, softmax, finding);
  if (module_ns > 0) {
    finding.evidence.push_back(
        {.kind = EvidenceKind::kPhase,
         .key = "attention",
         .text = fmt::format("modules named attention: {}", facts.amount_text(module_ns))});
  }
  finding.max_gain_ratio = facts.gain_without(cost_ns);
  finding.bound = module_ns > 0 ? "the step without anything that the attention modules do"
                                : "the step without these kernels";
  finding.toggle = "attention";
  finding.level = "flash";
  if (facts.is("precision", "fp32") || facts.is("precision", "tf32")) {
    finding.message += " On a GPU the flash kernel takes bf16 or fp16 only: precision=bf16 first.";
    if (facts.is_gpu()) finding.level = "mem_efficient";
  }
  return finding;
}

std::optional<Finding> find_attention_share(const ArmFacts& facts) {
  const double cost_ns = facts.category_ns(KernelCategory::kAttention);
  if (!facts.is_gpu() || facts.share(cost_ns) < kMinAttentionShare ||
      facts.is("attention", "math") || facts.is("attention", "cudnn")) {
    return std::nullopt;
  }
  const auto attention = kernels_that(facts.breakdown(), [](const UsageGroup& kernel) {
    return kernel.category == KernelCategory::kAttention;
  });
  constexpr std::array<std::string_view, 1> kCudnn = {"cudnn"};
  if (has_any(attention.front()->key, kCudnn) ||
      std::ranges::any_of(attention,
                          [](const UsageGroup* kernel) { return is_unfused_softmax(*kernel); })) {
    return std::nullopt;
  }
  Finding finding;
  finding.message =
      "The attention kernels take a large share, and not every library's are equally fast on this "
      "GPU: kernels named sm80 or flash_fwd of FlashAttention 2 do not use Hopper's own tensor "
      "instructions, cuDNN's do.";
  finding.evidence = {facts.category_evidence(KernelCategory::kAttention)};
  add_largest(facts, attention, finding);
  finding.max_gain_ratio = facts.gain_without(cost_ns);
  finding.bound = "the step without any attention kernel, so more than a faster one can give";
  finding.toggle = "attention";
  finding.level = "cudnn";
  if (facts.is("precision", "fp32") || facts.is("precision", "tf32")) {
    finding.toggle = "precision";
    finding.level = "bf16";
  }
  return finding;
}

std::optional<Finding> find_idle_tensor_cores(const ArmFacts& facts) {
  if (!facts.is_gpu() || !facts.has_trace()) return std::nullopt;
  const auto plain = kernels_that(facts.breakdown(), is_fp32_gemm);
  const double plain_ns = sum_ns(facts, plain);
  const CounterUse* use = find_counter(facts, "tensor_active");
  const double gemm_ns = facts.category_ns(KernelCategory::kGemm);
  const bool counter_says = use != nullptr && use->mean.value_or(1) < kMaxIdleTensorUse &&
                            facts.share(gemm_ns) >= kMinGemmShare;
  const bool names_say = facts.share(plain_ns) >= kMinSlowGemmShare;
  if (!counter_says && !names_say) return std::nullopt;
  Finding finding;
  finding.message =
      "Matrix products run in fp32 without tensor cores, at a fifteenth of their bf16 rate on an "
      "H200.";
  if (names_say) add_largest(facts, plain, finding);
  if (!names_say) finding.evidence.push_back(facts.category_evidence(KernelCategory::kGemm));
  if (use != nullptr) {
    finding.evidence.push_back(
        {.kind = EvidenceKind::kCounter,
         .key = use->name,
         .text = fmt::format("tensor pipes active: {} of their peak on average",
                             format_percent(use->mean.value_or(0)))});
  }
  finding.max_gain_ratio = facts.gain_without(names_say ? plain_ns : gemm_ns);
  finding.bound = names_say ? "the step without these kernels" : "the step without its products";
  if (facts.is("attention", "math") && !facts.is("precision", "fp32")) {
    finding.message += " It is attention=math that leaves bf16 here.";
    finding.toggle = "attention";
    finding.level = "flash";
  } else if (!facts.is("precision", "bf16")) {
    finding.toggle = "precision";
    finding.level = "bf16";
  }
  return finding;
}

std::optional<Finding> find_memory_bound(const ArmFacts& facts) {
  if (!facts.is_gpu() || !facts.has_trace()) return std::nullopt;
  constexpr std::array kPasses = {KernelCategory::kElementwise, KernelCategory::kCopy,
                                  KernelCategory::kNorm, KernelCategory::kReduction,
                                  KernelCategory::kLoss};
  double passes_ns = 0;
  for (const KernelCategory category : kPasses) passes_ns += facts.category_ns(category);
  if (facts.share(passes_ns) < kMinMemoryBoundShare) return std::nullopt;
  Finding finding;
  finding.message =
      "A large share goes to kernels that only pass over memory: elementwise work, casts and "
      "copies, norms, the loss. Fused, they read and write what their neighbours already hold.";
  for (const KernelCategory category : kPasses) {
    if (facts.share(facts.category_ns(category)) >= 0.01) {
      finding.evidence.push_back(facts.category_evidence(category));
    }
  }
  add_largest(facts,
              kernels_that(facts.breakdown(),
                           [&](const UsageGroup& kernel) {
                             return std::ranges::find(kPasses, kernel.category) != kPasses.end();
                           }),
              finding);
  for (const std::string_view name : {"dram_read", "dram_write"}) {
    if (const CounterUse* use = find_counter(facts, name)) {
      finding.evidence.push_back({.kind = EvidenceKind::kCounter,
                                  .key = use->name,
                                  .text = fmt::format("{}: {} of its peak on average", name,
                                                      format_percent(use->mean.value_or(0)))});
    }
  }
  finding.max_gain_ratio = facts.gain_without(passes_ns);
  finding.bound = "the step without any of these kernels, as if fusion took all of their time";
  choose_fusion(facts, finding);
  return finding;
}

std::optional<Finding> find_unfused_optimizer(const ArmFacts& facts) {
  const double cost_ns = facts.phase_ns(Phase::kOptimizer);
  if (!facts.is_gpu() || facts.share(cost_ns) < kMinOptimizerShare ||
      facts.is("optimizer", "fused") || facts.is("optimizer", "multi_tensor")) {
    return std::nullopt;
  }
  const auto update = kernels_that(facts.breakdown(), [](const UsageGroup& kernel) {
    return kernel.category == KernelCategory::kOptimizer;
  });
  constexpr std::array<std::string_view, 2> kFused = {"fusedadam", "adamw"};
  if (!update.empty() && has_any(update.front()->key, kFused)) return std::nullopt;
  Finding finding;
  finding.message =
      "The optimizer passes over parameters, gradients and moments once for every operation of "
      "AdamW. A fused update reads and writes each of them once.";
  finding.evidence = {facts.phase_evidence(Phase::kOptimizer)};
  add_largest(facts, update, finding);
  finding.max_gain_ratio = facts.gain_without(cost_ns);
  finding.bound = "the step without the optimizer's kernels";
  finding.toggle = "optimizer";
  finding.level = "fused";
  return finding;
}

std::optional<Finding> find_needless_recompute(const ArmFacts& facts) {
  const AdviceInput& input = facts.input();
  if (!facts.is("checkpoint", "full") || !facts.has_trace() || !input.device_memory_bytes ||
      input.row == nullptr || !input.row->peak_reserved_bytes) {
    return std::nullopt;
  }
  const double forward_ns = facts.phase_ns(Phase::kForward);
  const double used_share = static_cast<double>(*input.row->peak_reserved_bytes) /
                            static_cast<double>(*input.device_memory_bytes);
  // Without checkpoints the peak of a block model is at most a few times as high; a third leaves
  // room for it in all shapes measured so far.
  if (used_share > 0.33) return std::nullopt;
  Finding finding;
  finding.message =
      "Activations are computed twice to save memory, and most of the memory is free.";
  finding.evidence = {
      {.kind = EvidenceKind::kMemory,
       .key = "peak_reserved_bytes",
       .text = fmt::format("peak of the allocator's cache: {} of {}",
                           format_bytes(static_cast<double>(*input.row->peak_reserved_bytes)),
                           format_bytes(static_cast<double>(*input.device_memory_bytes)))},
      facts.phase_evidence(Phase::kForward)};
  finding.max_gain_ratio = facts.gain_without(forward_ns);
  finding.bound = "the step without a second forward pass";
  finding.toggle = "checkpoint";
  finding.level = "off";
  return finding;
}

}  // namespace steplens
