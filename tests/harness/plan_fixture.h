#pragma once

#include <string>
#include <string_view>

#include "harness/plan.h"

namespace steplens::testing_support {

inline std::string_view no_graph(const RunConfig& config) {
  return config.device == Device::kCuda ? "" : "CUDA graphs need a CUDA device";
}

// A small catalog of the tests' own, so that they hold whatever the product's catalog lists.
inline constexpr Level kAttention[] = {
    {.name = "math", .apply = [](RunConfig& c) { c.attention = Attention::kMath; }},
    {.name = "flash", .apply = [](RunConfig& c) { c.attention = Attention::kFlash; }},
    {.name = "cudnn",
     .apply = [](RunConfig& c) { c.attention = Attention::kCudnn; },
     .why_not = [](const RunConfig& c) -> std::string_view {
       return c.device == Device::kCuda ? "" : "needs a CUDA device";
     }},
};
inline constexpr Level kOptimizer[] = {
    {.name = "loop", .apply = [](RunConfig& c) { c.optimizer = Optimizer::kLoop; }},
    {.name = "foreach", .apply = [](RunConfig& c) { c.optimizer = Optimizer::kForeach; }},
    {.name = "fused", .apply = [](RunConfig& c) { c.optimizer = Optimizer::kFused; }},
};
inline constexpr Level kGraph[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.graph = false; }},
    {.name = "on", .apply = [](RunConfig& c) { c.graph = true; }, .why_not = no_graph},
};
inline constexpr Level kCompile[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.compile = Compile::kOff; }},
    {.name = "aoti", .apply = [](RunConfig& c) { c.compile = Compile::kAoti; }},
};
inline constexpr Level kAccumulation[] = {
    {.name = "1", .apply = [](RunConfig& c) { c.num_accumulation = 1; }},
    {.name = "2", .apply = [](RunConfig& c) { c.num_accumulation = 2; }},
    {.name = "3", .apply = [](RunConfig& c) { c.num_accumulation = 3; }},
    {.name = "4", .apply = [](RunConfig& c) { c.num_accumulation = 4; }},
};
inline constexpr EvidenceRule kAttentionEvidence[] = {
    {"math", Device::kCpu, "sdpa_math", Claim::kPresent},
    {"math", Device::kCuda, "sdpa_math_cuda", Claim::kPresent},
    {"flash", Device::kCpu, "sdpa_flash", Claim::kPresent},
};
inline constexpr Toggle kToggles[] = {
    {.name = "attention",
     .summary = "attention kernel",
     .key = "attention",
     .levels = kAttention,
     .evidence = kAttentionEvidence,
     .is_in_default_matrix = true},
    {.name = "optimizer", .summary = "AdamW", .key = "optimizer", .levels = kOptimizer},
    {.name = "graph",
     .summary = "CUDA graph",
     .key = "graph",
     .levels = kGraph,
     .is_in_default_matrix = true},
    {.name = "compile", .summary = "compiled step", .key = "compile", .levels = kCompile},
    {.name = "accumulation",
     .summary = "micro-steps",
     .key = "accumulation",
     .levels = kAccumulation,
     .contract_for =
         [](const RunConfig& c) {
           return c.accumulation_holds == AccumulationHolds::kMicroBatch ? Contract::kSameTokens
                                                                         : Contract::kSameMaths;
         }},
};

// A loop optimizer cannot run with accumulation 4: a reason that no single level has.
inline std::string_view why_not(const RunConfig& config) {
  return config.optimizer == Optimizer::kLoop && config.num_accumulation == 4
             ? "loop and accumulation 4 exclude each other"
             : "";
}

inline PlanVocabulary vocabulary() {
  return {.toggles = kToggles,
          .why_not = why_not,
          .external_arms = {{.name = "shell", .summary = "a shell", .script = "sh"}},
          .scripts_folder = "/bin"};
}

inline RunConfig cpu_baseline() {
  RunConfig config;
  config.shape = {.num_layers = 2,
                  .d_model = 64,
                  .num_heads = 2,
                  .num_kv_heads = 2,
                  .head_dim = 32,
                  .ffn_width = 128,
                  .vocab_size = 320};
  config.global_batch_size = 8;
  config.sequence_length = 16;
  return config;
}

}  // namespace steplens::testing_support
