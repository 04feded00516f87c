#pragma once

#include <span>
#include <string_view>

#include "harness/run_config.h"

namespace steplens {

/// A model with the work that is usual for it.
struct ModelPreset {
  std::string_view name;
  std::string_view summary;
  ModelShape shape;
  std::int64_t sequence_length;    // T.
  std::int64_t global_batch_size;  // Rows per optimizer step.
  std::string_view tokenizer;      // "bytes", or "bpe" with the vocabulary of the model's size.
  double dropout = 0;
  std::int64_t num_lr_warmup_steps = 100;
  std::int64_t num_lr_total_steps = 600;
};

/// All presets, smallest first: nano, gpt2-124m, gpt2-124m-dropout, llama-1b, llama-8b.
std::span<const ModelPreset> all_models();

/// Puts a preset's shape, sequence length, batch, dropout and learning-rate schedule into `config`.
/// ConfigError for an unknown name names the nearest one.
void apply_model(RunConfig& config, std::string_view name);

/// The baseline of DESIGN section 5 for that device and model.
RunConfig baseline_config(Device device, std::string_view model);

}  // namespace steplens
