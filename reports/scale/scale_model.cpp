#include "reports/scale/scale_model.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr std::int64_t kFirstBucketBytes = std::int64_t{1} << 20;

// Gradients of one parameter, in the order in which the backward pass makes them.
struct Gradient {
  std::int64_t num_elements = 0;
  double ready_ns = 0;  // Since the backward pass began.
};

std::vector<Gradient> gradients_in_order(const RunConfig& config, const BackwardParts& parts) {
  const ModelShape& shape = config.shape;
  std::vector<Gradient> gradients;
  double now_ns = parts.head_ns;
  gradients.push_back({shape.vocab_size * shape.d_model, now_ns});  // Head.
  gradients.push_back({shape.d_model, now_ns});                     // Last norm.
  const std::int64_t q_width = shape.num_heads * shape.head_dim;
  const std::int64_t kv_width = shape.num_kv_heads * shape.head_dim;
  for (auto block_ns = parts.block_ns.rbegin(); block_ns != parts.block_ns.rend(); ++block_ns) {
    now_ns += *block_ns;
    for (const std::int64_t num_elements :
         {shape.d_model * shape.ffn_width, 2 * shape.ffn_width * shape.d_model, shape.d_model,
          shape.d_model * q_width, (q_width + 2 * kv_width) * shape.d_model, shape.d_model}) {
      gradients.push_back({num_elements, now_ns});
    }
  }
  now_ns += parts.embedding_ns;
  if (config.frozen == Frozen::kNone) {
    gradients.push_back({shape.vocab_size * shape.d_model, now_ns});
  }
  return gradients;
}

double total_ns(const BackwardParts& parts) {
  double sum_ns = parts.head_ns + parts.embedding_ns;
  for (const double block_ns : parts.block_ns) sum_ns += block_ns;
  return sum_ns;
}

const UsageGroup* find_group(const std::vector<UsageGroup>& groups, std::string_view key) {
  const auto it = std::ranges::find(groups, key, &UsageGroup::key);
  return it == groups.end() ? nullptr : &*it;
}

double phase_ns(const Breakdown& breakdown, Phase phase) {
  const UsageGroup* group = find_group(breakdown.phases, name_of(phase));
  return group == nullptr ? 0 : breakdown.per_step(group->total.exclusive_ns);
}

// Backward time of the parts of the model, as the trace's ranges tell.
BackwardParts backward_parts(const RunConfig& config, const Breakdown& breakdown) {
  BackwardParts parts;
  parts.block_ns.assign(static_cast<std::size_t>(config.shape.num_layers), 0);
  for (const UsageGroup& group : breakdown.modules) {
    const std::string_view key = group.key;
    const auto ns = static_cast<double>(
        group.exclusive_by_phase_ns[static_cast<std::size_t>(Phase::kBackward)]);
    if (key.starts_with("block ")) {
      std::size_t block = parts.block_ns.size();
      std::from_chars(key.data() + 6, key.data() + key.size(), block);
      if (block < parts.block_ns.size()) parts.block_ns[block] += ns;
    } else if (key.starts_with("embedding")) {
      parts.embedding_ns += ns;
    } else {
      parts.head_ns += ns;
    }
  }
  return parts;
}

}  // namespace

std::vector<BucketPlan> plan_buckets(const RunConfig& config, const BackwardParts& parts) {
  const std::int64_t cap = config.bucket_mb << 20;
  const double backward_ns = total_ns(parts);
  // Buckets are of the gradients' own type; what travels may be half of it.
  const std::int64_t wire_bytes = config.comm_dtype == CommDtype::kFp32 ? 4 : 2;
  std::vector<BucketPlan> buckets;
  std::int64_t num_elements = 0;
  double ready_ns = 0;
  const auto close = [&] {
    if (num_elements == 0) return;
    buckets.push_back({.bytes = num_elements * wire_bytes,
                       .ready_ratio = backward_ns > 0 ? ready_ns / backward_ns : 1});
    num_elements = 0;
  };
  for (const Gradient& gradient : gradients_in_order(config, parts)) {
    num_elements += gradient.num_elements;
    ready_ns = gradient.ready_ns;
    const std::int64_t limit = buckets.empty() ? std::min(kFirstBucketBytes, cap) : cap;
    if (4 * num_elements >= limit) close();
  }
  close();
  if (!config.overlap) {
    for (BucketPlan& bucket : buckets) bucket.ready_ratio = 1;
  }
  return buckets;
}

StepModel step_model_of(const RunConfig& config, const TracedArm& arm) {
  if (config.world_size > 1) {
    throw ConfigError(fmt::format("arm={}: was measured on {} ranks; the model starts from one",
                                  arm.arm, config.world_size));
  }
  const Breakdown& breakdown = arm.breakdown;
  const double forward_ns = phase_ns(breakdown, Phase::kForward);
  const double backward_ns = phase_ns(breakdown, Phase::kBackward);
  if (breakdown.num_counted_steps == 0 || forward_ns <= 0 || backward_ns <= 0) {
    throw ConfigError(
        fmt::format("arm={}: its trace has no step with a forward and a backward pass", arm.arm));
  }
  const double traced_ns = breakdown.mean_step_ns();
  const double step_ns = arm.throughput_step_ns.value_or(traced_ns);
  // Idle time belongs to the passes as far as they fill the step; the rest is what phases besides
  // them have.
  double other_ns = 0;
  for (const UsageGroup& group : breakdown.phases) {
    if (group.key == name_of(Phase::kForward) || group.key == name_of(Phase::kBackward)) continue;
    other_ns += breakdown.per_step(group.total.exclusive_ns);
  }
  const double busy_ns = forward_ns + backward_ns + other_ns;
  const auto num_micro_steps = static_cast<double>(config.num_accumulation);
  const double stretch = step_ns / busy_ns;
  return {.forward_ns = forward_ns * stretch / num_micro_steps,
          .backward_ns = backward_ns * stretch / num_micro_steps,
          .other_ns = other_ns * stretch,
          .num_accumulation = config.num_accumulation,
          .tokens_per_step = positions_per_step(config),
          .buckets = plan_buckets(config, backward_parts(config, breakdown))};
}

ScalePoint predict(const StepModel& model, const Links& links, std::int64_t num_gpus,
                   bool no_sync) {
  SL_CHECK(num_gpus > 0);
  double arrived_ns = 0;  // Since the backward pass began.
  double sent_ns = 0;
  double bytes = 0;
  for (const BucketPlan& bucket : model.buckets) {
    const double duration_ns = all_reduce_ns(links, static_cast<double>(bucket.bytes), num_gpus);
    arrived_ns = std::max(arrived_ns, bucket.ready_ratio * model.backward_ns) + duration_ns;
    sent_ns += duration_ns;
    bytes += static_cast<double>(bucket.bytes);
  }
  ScalePoint point{.num_gpus = num_gpus};
  const auto num_syncs = no_sync ? 1.0 : static_cast<double>(model.num_accumulation);
  const double exposed_ns =
      num_gpus == 1 ? 0 : std::min(sent_ns, std::max(0.0, arrived_ns - model.backward_ns));
  const double divided_ns = num_gpus == 1 ? 0 : 2 * bytes / links.memory_bytes_per_s * 1e9;
  const double slowed_ns = links.compute_slowdown_ratio * (sent_ns - exposed_ns);
  point.communication_ns = num_syncs * sent_ns;
  point.exposed_ns = num_syncs * exposed_ns;
  point.step_ns = model.step_ns() + num_syncs * (exposed_ns + slowed_ns + divided_ns);
  const auto count = static_cast<double>(num_gpus);
  point.tokens_per_s = count * static_cast<double>(model.tokens_per_step) / point.step_ns * 1e9;
  point.efficiency_ratio = model.step_ns() / point.step_ns;
  return point;
}

std::vector<std::int64_t> gpu_counts(std::int64_t max_gpus) {
  std::vector<std::int64_t> counts;
  for (std::int64_t count = 1; count <= max_gpus; count *= 2) counts.push_back(count);
  return counts;
}

}  // namespace steplens
