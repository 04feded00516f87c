#include "harness/models.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr ModelShape kGpt2Small = {.num_layers = 12,
                                   .d_model = 768,
                                   .num_heads = 12,
                                   .num_kv_heads = 12,
                                   .head_dim = 64,
                                   .ffn_width = 2048,
                                   .vocab_size = 50304};

// Touvron et al., "Llama 2", section 2.2. Models of this width need them: once a loss is chaotic,
// equal maths cannot be told from other.
constexpr std::int64_t kLlamaNumLrWarmupSteps = 2000;
constexpr std::int64_t kLlamaNumLrTotalSteps = 500'000;

constexpr ModelPreset kModels[] = {
    // A step of 512 positions takes under 100 ms on one core in fp32; 320 rows of vocabulary hold
    // 256 bytes, the document end, and stay a multiple of 64.
    {.name = "nano",
     .summary = "2.2 M parameters on byte tokens: the matrix in minutes on a laptop's CPU",
     .shape = {.num_layers = 4,
               .d_model = 192,
               .num_heads = 6,
               .num_kv_heads = 3,
               .head_dim = 32,
               .ffn_width = 512,
               .vocab_size = 320},
     .sequence_length = 128,
     .global_batch_size = 4,
     .tokenizer = "bytes"},
    {.name = "gpt2-124m",
     .summary = "GPT-2 small's width and depth with SwiGLU, RoPE and RMSNorm; METHOD's model A",
     .shape = kGpt2Small,
     .sequence_length = 1024,
     .global_batch_size = 32,
     .tokenizer = "bpe"},
    {.name = "gpt2-124m-dropout",
     .summary = "gpt2-124m with GPT-2's dropout of 0.1 on what each block adds to the stream",
     .shape = kGpt2Small,
     .sequence_length = 1024,
     .global_batch_size = 32,
     .tokenizer = "bpe",
     .dropout = 0.1},
    {.name = "llama-1b",
     .summary = "1.36 B parameters, Llama shapes at T 4096; METHOD's model B",
     .shape = {.num_layers = 24,
               .d_model = 2048,
               .num_heads = 16,
               .num_kv_heads = 16,
               .head_dim = 128,
               .ffn_width = 5632,
               .vocab_size = 32000},
     .sequence_length = 4096,
     .global_batch_size = 4,
     .tokenizer = "bpe",
     .num_lr_warmup_steps = kLlamaNumLrWarmupSteps,
     .num_lr_total_steps = kLlamaNumLrTotalSteps},
    {.name = "llama-8b",
     .summary = "Llama-3 8B shapes, for FLOPs and planning: fp32 training state is 128 GB",
     .shape = {.num_layers = 32,
               .d_model = 4096,
               .num_heads = 32,
               .num_kv_heads = 8,
               .head_dim = 128,
               .ffn_width = 14336,
               .vocab_size = 128256},
     .sequence_length = 4096,
     .global_batch_size = 1,
     .tokenizer = "bpe",
     .num_lr_warmup_steps = kLlamaNumLrWarmupSteps,
     .num_lr_total_steps = kLlamaNumLrTotalSteps},
};

}  // namespace

std::span<const ModelPreset> all_models() { return kModels; }

void apply_model(RunConfig& config, std::string_view name) {
  const auto it = std::ranges::find(kModels, name, &ModelPreset::name);
  if (it == std::end(kModels)) {
    std::vector<std::string_view> names;
    for (const ModelPreset& model : kModels) names.push_back(model.name);
    const std::string near = nearest_name(name, names);
    throw ConfigError(fmt::format("model={}: unknown model{}; takes {}", name,
                                  near.empty() ? "" : fmt::format(", did you mean {}?", near),
                                  fmt::join(names, " | ")));
  }
  config.model = it->name;
  config.shape = it->shape;
  config.sequence_length = it->sequence_length;
  config.global_batch_size = it->global_batch_size;
  config.dropout = it->dropout;
  config.num_lr_warmup_steps = it->num_lr_warmup_steps;
  config.num_lr_total_steps = it->num_lr_total_steps;
}

RunConfig baseline_config(Device device, std::string_view model) {
  RunConfig config;
  config.device = device;
  config.precision = device == Device::kCuda ? Precision::kBf16 : Precision::kFp32;
  config.data = device == Device::kCuda ? DataPath::kPinned : DataPath::kPrefetch;
  apply_model(config, model);
  return config;
}

}  // namespace steplens
