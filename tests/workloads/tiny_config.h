#pragma once

#include "harness/run_config.h"

namespace steplens {

/// A model small enough for reference code in plain loops: L 2, C 16, H 4, K 2, D 4, F 24, V 37.
inline RunConfig tiny_config() {
  RunConfig config;
  config.model = "tiny";
  config.shape = {.num_layers = 2,
                  .d_model = 16,
                  .num_heads = 4,
                  .num_kv_heads = 2,
                  .head_dim = 4,
                  .ffn_width = 24,
                  .vocab_size = 37};
  config.sequence_length = 8;
  config.global_batch_size = 4;
  config.learning_rate = 1e-2;
  config.num_lr_warmup_steps = 4;
  config.num_lr_total_steps = 40;
  return config;
}

}  // namespace steplens
