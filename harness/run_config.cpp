#include "harness/run_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"

namespace steplens {
namespace {

using nlohmann::json;

// Words of the enums, in the order of their enumerators: CLI words and JSON values alike.
template <typename E>
struct EnumWords;
template <>
struct EnumWords<Device> {
  static constexpr std::array kWords = {std::string_view("cpu"), std::string_view("cuda")};
};
template <>
struct EnumWords<Precision> {
  static constexpr std::array kWords = {std::string_view("fp32"), std::string_view("tf32"),
                                        std::string_view("bf16"), std::string_view("fp16")};
};
template <>
struct EnumWords<Attention> {
  static constexpr std::array kWords = {std::string_view("math"), std::string_view("mem_efficient"),
                                        std::string_view("flash"), std::string_view("cudnn")};
};
template <>
struct EnumWords<Optimizer> {
  static constexpr std::array kWords = {std::string_view("loop"), std::string_view("foreach"),
                                        std::string_view("fused"),
                                        std::string_view("multi_tensor")};
};
template <>
struct EnumWords<Weights> {
  static constexpr std::array kWords = {std::string_view("fp32"), std::string_view("bf16_master")};
};
template <>
struct EnumWords<Operators> {
  static constexpr std::array kWords = {std::string_view("aten"), std::string_view("fused")};
};
template <>
struct EnumWords<Gemm> {
  static constexpr std::array kWords = {std::string_view("heuristic"), std::string_view("tuned")};
};
template <>
struct EnumWords<Checkpoint> {
  static constexpr std::array kWords = {std::string_view("off"), std::string_view("full")};
};
template <>
struct EnumWords<Compile> {
  static constexpr std::array kWords = {std::string_view("off"), std::string_view("aoti")};
};
template <>
struct EnumWords<DataPath> {
  static constexpr std::array kWords = {std::string_view("sync"), std::string_view("prefetch"),
                                        std::string_view("pinned")};
};
template <>
struct EnumWords<Batching> {
  static constexpr std::array kWords = {std::string_view("packed"), std::string_view("padded"),
                                        std::string_view("bucketed")};
};
template <>
struct EnumWords<Frozen> {
  static constexpr std::array kWords = {std::string_view("none"), std::string_view("embeddings")};
};
template <>
struct EnumWords<CommDtype> {
  static constexpr std::array kWords = {std::string_view("fp32"), std::string_view("bf16"),
                                        std::string_view("fp16")};
};
template <>
struct EnumWords<ReducerUse> {
  static constexpr std::array kWords = {std::string_view("several_ranks"),
                                        std::string_view("always")};
};
template <>
struct EnumWords<Allocator> {
  static constexpr std::array kWords = {std::string_view("default"),
                                        std::string_view("expandable_segments")};
};
template <>
struct EnumWords<AccumulationHolds> {
  static constexpr std::array kWords = {std::string_view("global_batch"),
                                        std::string_view("micro_batch")};
};
template <>
struct EnumWords<Instrumentation> {
  static constexpr std::array kWords = {std::string_view("full"), std::string_view("minimal")};
};
template <>
struct EnumWords<Tracing> {
  static constexpr std::array kWords = {std::string_view("off"), std::string_view("null"),
                                        std::string_view("full")};
};

template <typename E>
std::string_view word_of(E value) {
  return EnumWords<E>::kWords.at(static_cast<std::size_t>(value));
}

// Text of a JSON value as the user wrote it: `--set` hands over strings, files hand over anything.
std::string shown(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

[[noreturn]] void refuse(std::string_view key, const json& value, std::string_view allowed,
                         std::string_view hint = "") {
  throw ConfigError(fmt::format("{}={}: not allowed; {} takes {}{}", key, shown(value), key,
                                allowed, hint.empty() ? "" : fmt::format(" ({})", hint)));
}

template <typename E>
E parse_enum(std::string_view key, const json& value, std::string_view allowed) {
  const auto& words = EnumWords<E>::kWords;
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    const auto it = std::ranges::find(words, text);
    if (it != words.end()) return static_cast<E>(it - words.begin());
    const std::string near = nearest_name(text, words);
    refuse(key, value, allowed, near.empty() ? "" : fmt::format("did you mean {}?", near));
  }
  refuse(key, value, allowed);
}

bool parse_switch(std::string_view key, const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    if (text == "on" || text == "true") return true;
    if (text == "off" || text == "false") return false;
  }
  refuse(key, value, "off | on");
}

template <typename T>
T parse_integer(std::string_view key, const json& value, T minimum, std::string_view allowed) {
  T number{};
  if (value.is_number_unsigned() || value.is_number_integer()) {
    if (value.is_number_integer() && !value.is_number_unsigned() && value.get<std::int64_t>() < 0) {
      refuse(key, value, allowed);
    }
    number = value.get<T>();
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) refuse(key, value, allowed);
  } else {
    refuse(key, value, allowed);
  }
  if (number < minimum) refuse(key, value, allowed);
  return number;
}

double parse_real(std::string_view key, const json& value, double minimum, double maximum,
                  std::string_view allowed) {
  double number = 0;
  if (value.is_number()) {
    number = value.get<double>();
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) refuse(key, value, allowed);
  } else {
    refuse(key, value, allowed);
  }
  if (!std::isfinite(number) || number < minimum || number > maximum) refuse(key, value, allowed);
  return number;
}

constexpr std::string_view kPositive = "an integer >= 1";
constexpr std::string_view kNotNegative = "an integer >= 0";
constexpr std::string_view kRowsOrAll = "an integer >= 1 | all";
constexpr std::string_view kSwitch = "off | on";
constexpr std::string_view kOperators = "aten | fused";
constexpr std::string_view kRatio = "a number from 0 to 1";
constexpr std::string_view kReal = "a number >= 0";

// The rows below differ only in key, member and parser; the macros keep one row on one line or two.
#define SL_ENUM(KEY, MEMBER, TYPE, SUMMARY, ALLOWED)                                  \
  {KEY, SUMMARY, ALLOWED, [](const RunConfig& c) { return json(word_of(c.MEMBER)); }, \
   [](RunConfig& c, const json& v) { c.MEMBER = parse_enum<TYPE>(KEY, v, ALLOWED); }}
#define SL_SWITCH(KEY, MEMBER, SUMMARY)                                                     \
  {KEY, SUMMARY, kSwitch, [](const RunConfig& c) { return json(c.MEMBER ? "on" : "off"); }, \
   [](RunConfig& c, const json& v) { c.MEMBER = parse_switch(KEY, v); }}
#define SL_INTEGER(KEY, MEMBER, MINIMUM, ALLOWED, SUMMARY)                   \
  {KEY, SUMMARY, ALLOWED, [](const RunConfig& c) { return json(c.MEMBER); }, \
   [](RunConfig& c, const json& v) {                                         \
     c.MEMBER = parse_integer<decltype(c.MEMBER)>(KEY, v, MINIMUM, ALLOWED); \
   }}
#define SL_REAL(KEY, MEMBER, MAXIMUM, ALLOWED, SUMMARY)                      \
  {KEY, SUMMARY, ALLOWED, [](const RunConfig& c) { return json(c.MEMBER); }, \
   [](RunConfig& c, const json& v) { c.MEMBER = parse_real(KEY, v, 0.0, MAXIMUM, ALLOWED); }}
#define SL_WORD(KEY, MEMBER, ALLOWED, SUMMARY)                                    \
  {KEY, SUMMARY, ALLOWED, [](const RunConfig& c) { return json(c.MEMBER); },      \
   [](RunConfig& c, const json& v) {                                              \
     if (!v.is_string() || v.get<std::string>().empty()) refuse(KEY, v, ALLOWED); \
     c.MEMBER = v.get<std::string>();                                             \
   }}

constexpr ConfigField kFields[] = {
    SL_ENUM("device", device, Device, "where the training step runs", "cpu | cuda"),
    SL_WORD("model", model, "a name of `steplens list models`", "preset the shape came from"),
    SL_INTEGER("num_layers", shape.num_layers, 1, kPositive, "L: Transformer blocks"),
    SL_INTEGER("d_model", shape.d_model, 1, kPositive, "d: width of the residual stream"),
    SL_INTEGER("num_heads", shape.num_heads, 1, kPositive, "H: query heads"),
    SL_INTEGER("num_kv_heads", shape.num_kv_heads, 1, kPositive, "Hkv: key and value heads"),
    SL_INTEGER("head_dim", shape.head_dim, 1, kPositive, "hd: width of one head"),
    SL_INTEGER("ffn_width", shape.ffn_width, 1, kPositive, "f: width of the SwiGLU MLP"),
    SL_INTEGER("vocab_size", shape.vocab_size, 1, kPositive, "V: rows of embedding and LM head"),
    SL_WORD("dataset", dataset, "a corpus name", "corpus of the token file"),
    SL_INTEGER("sequence_length", sequence_length, 1, kPositive, "T: positions a row"),
    SL_INTEGER("global_batch", global_batch_size, 1, kPositive,
               "rows per optimizer step over all ranks"),
    SL_INTEGER("accumulation", num_accumulation, 1, kPositive,
               "micro-steps per optimizer step; the micro-batch follows"),
    SL_ENUM("accumulation_holds", accumulation_holds, AccumulationHolds,
            "what stays the same when accumulation changes", "global_batch | micro_batch"),
    SL_INTEGER("world_size", world_size, 1, kPositive, "ranks; --ranks sets it"),
    SL_SWITCH("no_sync", no_sync,
              "gradients are reduced over the ranks once a step, not in every micro-step"),
    SL_INTEGER("bucket_mb", bucket_mb, 1, kPositive,
               "gradients that one all-reduce carries, at most, in MiB"),
    SL_ENUM("comm_dtype", comm_dtype, CommDtype, "type in which gradients travel between ranks",
            "fp32 | bf16 | fp16"),
    SL_SWITCH("overlap", overlap, "gradients travel during the backward pass, not after it"),
    SL_ENUM("reducer", reducer, ReducerUse, "whether one rank's gradients pass the Reducer too",
            "several_ranks | always"),
    SL_ENUM("precision", precision, Precision, "arithmetic of the matrix products",
            "fp32 | tf32 | bf16 | fp16"),
    SL_ENUM("attention", attention, Attention, "scaled_dot_product_attention backend",
            "math | mem_efficient | flash | cudnn"),
    SL_ENUM("weights", weights, Weights,
            "fp32 under autocast, or bf16 matrices with fp32 masters in the optimizer",
            "fp32 | bf16_master"),
    SL_ENUM("optimizer", optimizer, Optimizer, "how AdamW is launched",
            "loop | foreach | fused | multi_tensor"),
    SL_ENUM("norm", norm, Operators, "RMSNorm and the residual add before it", kOperators),
    SL_ENUM("rope", rope, Operators, "rotary embedding and the split of q, k and v", kOperators),
    SL_ENUM("mlp", mlp, Operators, "SwiGLU between the MLP's matrix products", kOperators),
    SL_ENUM("loss", loss, Operators, "LM head and cross-entropy", kOperators),
    {"loss_rows", "rows whose logits loss=fused has in memory at a time, at most", kRowsOrAll,
     [](const RunConfig& c) { return c.num_loss_rows == 0 ? json("all") : json(c.num_loss_rows); },
     [](RunConfig& c, const json& v) {
       const bool is_all = v.is_string() && v.get<std::string>() == "all";
       c.num_loss_rows = is_all ? 0 : parse_integer<std::int64_t>("loss_rows", v, 1, kRowsOrAll);
     }},
    SL_ENUM("embedding", embedding, Operators, "backward pass of the embedding", kOperators),
    SL_ENUM("residual", residual, Operators,
            "residual add: an operator of its own or the norm's, or in the product before it",
            kOperators),
    SL_ENUM("gemm", gemm, Gemm, "who chooses the algorithm of each matrix product",
            "heuristic | tuned"),
    SL_SWITCH("graph", graph, "whole step captured in one CUDA graph"),
    SL_ENUM("compile", compile, Compile,
            "forward and backward compiled ahead of time by AOTInductor", "off | aoti"),
    SL_ENUM("checkpoint", checkpoint, Checkpoint, "activation checkpointing", "off | full"),
    SL_ENUM("data", data, DataPath, "how batches reach the device", "sync | prefetch | pinned"),
    SL_ENUM("batching", batching, Batching, "how documents become rows",
            "packed | padded | bucketed"),
    SL_SWITCH("sync_every_micro_step", sync_every_micro_step,
              "device synchronisation and loss read after every micro-step"),
    SL_ENUM("frozen", frozen, Frozen, "parameters that do not train", "none | embeddings"),
    SL_ENUM("allocator", allocator, Allocator, "setting of the caching allocator",
            "default | expandable_segments"),
    SL_ENUM("instrumentation", instrumentation, Instrumentation,
            "events, NVTX ranges and sampler in throughput blocks", "full | minimal"),
    SL_ENUM("tracing", tracing, Tracing,
            "what is recorded in throughput blocks too, to measure what that costs",
            "off | null | full"),
    SL_INTEGER("injected_spin_ns", injected_spin_ns, 0, kNotNegative,
               "busy wait added to every step, in nanoseconds: a known slowdown to detect"),
    SL_INTEGER("num_threads", num_threads, 1, kPositive, "compute threads on the CPU"),
    SL_INTEGER("seed", seed, 0, kNotNegative, "initial weights and choice of data"),
    SL_REAL("learning_rate", learning_rate, 1e3, kReal, "peak learning rate"),
    SL_REAL("min_learning_rate_ratio", min_learning_rate_ratio, 1.0, kRatio,
            "floor of the cosine, relative to the peak"),
    SL_INTEGER("num_lr_warmup_steps", num_lr_warmup_steps, 0, kNotNegative,
               "linear warm-up, in optimizer steps"),
    SL_INTEGER("num_lr_total_steps", num_lr_total_steps, 1, kPositive,
               "end of the cosine, in optimizer steps"),
    SL_REAL("weight_decay", weight_decay, 1e3, kReal, "AdamW weight decay, on matrices only"),
    SL_REAL("beta1", beta1, 1.0, kRatio, "AdamW beta1"),
    SL_REAL("beta2", beta2, 1.0, kRatio, "AdamW beta2"),
    SL_REAL("epsilon", epsilon, 1.0, kRatio, "AdamW epsilon"),
    SL_REAL("max_grad_norm", max_grad_norm, 1e9, kReal, "clip of the whole gradient's L2 norm"),
    SL_REAL("norm_epsilon", norm_epsilon, 1.0, kRatio, "RMSNorm epsilon"),
    SL_REAL("rope_base", rope_base, 1e12, kReal, "base of the rotary embedding"),
    SL_REAL("dropout", dropout, 0.99, "a number from 0 to 0.99",
            "probability that an element is dropped of what attention or MLP adds to the stream"),
};

#undef SL_ENUM
#undef SL_SWITCH
#undef SL_INTEGER
#undef SL_REAL
#undef SL_WORD

std::vector<std::string_view> field_names() {
  std::vector<std::string_view> names;
  for (const ConfigField& field : kFields) names.push_back(field.name);
  return names;
}

const ConfigField& field_or_throw(std::string_view name) {
  const ConfigField* field = find_config_field(name);
  if (field != nullptr) return *field;
  const std::string near = nearest_name(name, field_names());
  throw ConfigError(fmt::format("{}: unknown key{}; `steplens list keys` shows all", name,
                                near.empty() ? "" : fmt::format(", did you mean {}?", near)));
}

}  // namespace

std::span<const ConfigField> config_fields() { return kFields; }

const ConfigField* find_config_field(std::string_view name) {
  const auto it = std::ranges::find(kFields, name, &ConfigField::name);
  return it == std::end(kFields) ? nullptr : it;
}

void set_config_field(RunConfig& config, std::string_view name, std::string_view text) {
  field_or_throw(name).set(config, json(std::string(text)));
}

json to_json(const RunConfig& config) {
  json result = json::object();
  for (const ConfigField& field : kFields) result[std::string(field.name)] = field.get(config);
  return result;
}

RunConfig run_config_from_json(const json& source) {
  if (!source.is_object()) throw ConfigError("config: not a JSON object");
  RunConfig config;
  for (const auto& [key, value] : source.items()) field_or_throw(key).set(config, value);
  return config;
}

std::vector<std::string> differing_fields(const RunConfig& a, const RunConfig& b) {
  std::vector<std::string> names;
  for (const ConfigField& field : kFields) {
    if (field.get(a) != field.get(b)) names.emplace_back(field.name);
  }
  return names;
}

std::int64_t effective_global_batch_size(const RunConfig& config) {
  return config.accumulation_holds == AccumulationHolds::kMicroBatch
             ? config.global_batch_size * config.num_accumulation
             : config.global_batch_size;
}

std::int64_t micro_batch_size(const RunConfig& config) {
  return effective_global_batch_size(config) / (config.num_accumulation * config.world_size);
}

std::int64_t positions_per_step(const RunConfig& config) {
  return effective_global_batch_size(config) * config.sequence_length;
}

bool uses_reducer(const RunConfig& config) {
  return config.world_size > 1 || config.reducer == ReducerUse::kAlways;
}

void validate(const RunConfig& config) {
  const ModelShape& shape = config.shape;
  const auto require_positive = [](std::string_view name, std::int64_t value) {
    if (value < 1) throw ConfigError(fmt::format("{}={}: must be an integer >= 1", name, value));
  };
  require_positive("num_layers", shape.num_layers);
  require_positive("d_model", shape.d_model);
  require_positive("num_heads", shape.num_heads);
  require_positive("num_kv_heads", shape.num_kv_heads);
  require_positive("head_dim", shape.head_dim);
  require_positive("ffn_width", shape.ffn_width);
  require_positive("vocab_size", shape.vocab_size);
  require_positive("sequence_length", config.sequence_length);
  require_positive("global_batch", config.global_batch_size);
  require_positive("accumulation", config.num_accumulation);
  require_positive("world_size", config.world_size);
  if (shape.head_dim % 2 != 0) {
    throw ConfigError(fmt::format(
        "head_dim={}: must be even, the rotary embedding turns pairs of channels", shape.head_dim));
  }
  if (shape.num_heads % shape.num_kv_heads != 0) {
    throw ConfigError(fmt::format("num_kv_heads={}: must divide num_heads={}", shape.num_kv_heads,
                                  shape.num_heads));
  }
  if (shape.d_model != shape.num_heads * shape.head_dim) {
    throw ConfigError(fmt::format(
        "head_dim={}: num_heads x head_dim must equal d_model, but {} x {} is {} and d_model={}",
        shape.head_dim, shape.num_heads, shape.head_dim, shape.num_heads * shape.head_dim,
        shape.d_model));
  }
  const std::int64_t global = effective_global_batch_size(config);
  const std::int64_t parts = config.num_accumulation * config.world_size;
  if (global % parts != 0) {
    throw ConfigError(
        fmt::format("global_batch={}: must be a multiple of accumulation x world = {} x {} = {}",
                    global, config.num_accumulation, config.world_size, parts));
  }
}

std::string batch_arithmetic(const RunConfig& config) {
  return fmt::format("global {} = micro {} x accumulation {} x world {}",
                     effective_global_batch_size(config), micro_batch_size(config),
                     config.num_accumulation, config.world_size);
}

std::string nearest_name(std::string_view name, std::span<const std::string_view> names) {
  std::string best;
  std::size_t best_distance = name.size() / 2 + 1;  // Farther than half of the letters is a guess.
  for (const std::string_view candidate : names) {
    // Levenshtein distance, one row at a time.
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t substituted = diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

std::string_view name_of(Device value) { return word_of(value); }
std::string_view name_of(Precision value) { return word_of(value); }
std::string_view name_of(Attention value) { return word_of(value); }
std::string_view name_of(Optimizer value) { return word_of(value); }
std::string_view name_of(Weights value) { return word_of(value); }
std::string_view name_of(Gemm value) { return word_of(value); }
std::string_view name_of(Operators value) { return word_of(value); }
std::string_view name_of(Checkpoint value) { return word_of(value); }
std::string_view name_of(DataPath value) { return word_of(value); }
std::string_view name_of(Batching value) { return word_of(value); }
std::string_view name_of(Frozen value) { return word_of(value); }
std::string_view name_of(CommDtype value) { return word_of(value); }
std::string_view name_of(Allocator value) { return word_of(value); }

}  // namespace steplens
