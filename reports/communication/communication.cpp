#include "reports/communication/communication.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "harness/flops.h"
#include "harness/trace/merge_ranks.h"
#include "reports/breakdown/breakdown.h"
#include "reports/breakdown/intervals.h"
#include "reports/breakdown/kernel_patterns.h"

namespace steplens {
namespace {

// By StringId: does an operation of that name carry data between ranks?
std::vector<bool> collective_names(const Trace& trace) {
  std::vector<bool> names;
  names.reserve(trace.strings.size());
  for (const std::string& name : trace.strings) {
    names.push_back(category_of(name) == KernelCategory::kCommunication &&
                    name.find("c10d::") == std::string::npos);
  }
  return names;
}

bool is_copy(const GpuOp& op) { return op.kind == GpuOpKind::kCopy || op.kind == GpuOpKind::kSet; }

// Operations of one rank within its steps.
struct RankOperations {
  std::vector<const GpuOp*> collectives;  // By start.
  Intervals compute;
};

std::vector<RankOperations> operations_by_rank(const Trace& trace) {
  const std::vector<bool> is_collective = collective_names(trace);
  std::vector<RankOperations> ranks(static_cast<std::size_t>(num_ranks(trace)));
  for (const GpuOp& op : trace.gpu_ops) {
    if (op.step_index < 0 || op.end_ns < op.start_ns || is_copy(op)) continue;
    RankOperations& rank = ranks[static_cast<std::size_t>(rank_of_device(trace, op.device))];
    if (is_collective[op.name]) {
      rank.collectives.push_back(&op);
    } else if (category_of(trace.text(op.name)) != KernelCategory::kCommunication) {
      rank.compute.push_back({.start_ns = op.start_ns, .end_ns = op.end_ns});
    }
  }
  for (RankOperations& rank : ranks) {
    std::ranges::sort(rank.collectives, {},
                      [](const GpuOp* op) { return std::pair(op->start_ns, op->end_ns); });
    rank.compute = normalised(std::move(rank.compute));
  }
  return ranks;
}

std::uint8_t first_device(const Trace& trace, std::size_t rank) {
  const auto ranks = trace.info.find(kRanksKey);
  if (ranks == trace.info.end()) return 0;
  return static_cast<std::uint8_t>(ranks->at(rank).value("first_device", 0));
}

std::int64_t exposed_ns(const GpuOp& collective, const RankOperations& rank) {
  const Interval own{.start_ns = collective.start_ns, .end_ns = collective.end_ns};
  return total_ns(subtract(Intervals{own}, clip(rank.compute, own)));
}

std::vector<Collective> timeline_of(const Breakdown& breakdown, const RankOperations& rank) {
  std::vector<const StepBreakdown*> closed;
  for (const StepBreakdown& step : breakdown.steps) {
    if (step.is_closed || breakdown.steps.size() == 1) closed.push_back(&step);
  }
  std::vector<Collective> timeline;
  if (closed.empty()) return timeline;
  const StepBreakdown& step = *closed[closed.size() / 2];
  for (const GpuOp* op : rank.collectives) {
    if (op->step_index != step.step_index && breakdown.has_steps) continue;
    timeline.push_back({.start_ns = op->start_ns - step.device.start_ns,
                        .duration_ns = op->end_ns - op->start_ns,
                        .exposed_ns = exposed_ns(*op, rank)});
  }
  return timeline;
}

std::optional<double> start_skew(const std::vector<RankOperations>& ranks) {
  const std::size_t count = ranks.front().collectives.size();
  if (ranks.size() < 2 || count == 0) return std::nullopt;
  for (const RankOperations& rank : ranks) {
    if (rank.collectives.size() != count) return std::nullopt;
  }
  double sum_ns = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t first_ns = ranks.front().collectives[i]->start_ns;
    std::int64_t last_ns = first_ns;
    for (const RankOperations& rank : ranks) {
      first_ns = std::min(first_ns, rank.collectives[i]->start_ns);
      last_ns = std::max(last_ns, rank.collectives[i]->start_ns);
    }
    sum_ns += static_cast<double>(last_ns - first_ns);
  }
  return sum_ns / static_cast<double>(count);
}

}  // namespace

CommunicationUse compute_communication(const Trace& trace) {
  CommunicationUse use;
  const std::vector<RankOperations> ranks = operations_by_rank(trace);
  const bool is_silent = std::ranges::all_of(
      ranks, [](const RankOperations& rank) { return rank.collectives.empty(); });
  if (is_silent) return use;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Breakdown breakdown = compute_breakdown(trace, first_device(trace, r));
    RankCommunication rank;
    rank.step_ns = breakdown.mean_step_ns();
    rank.communication_ns = breakdown.per_step(breakdown.total.communication_ns);
    rank.exposed_ns = breakdown.per_step(breakdown.total.communication_exposed_ns);
    const auto num_steps = static_cast<double>(std::max<std::size_t>(1, trace.steps.size()));
    rank.num_collectives = static_cast<double>(ranks[r].collectives.size()) / num_steps;
    const auto num_hidden = std::ranges::count_if(ranks[r].collectives, [&](const GpuOp* op) {
      return 2 * exposed_ns(*op, ranks[r]) <= op->end_ns - op->start_ns;
    });
    rank.num_hidden_collectives = static_cast<double>(num_hidden) / num_steps;
    const auto rows = trace.info.find(kRanksKey);
    if (rows != trace.info.end()) {
      rank.clock_uncertainty_ns = rows->at(r).value(kClockUncertaintyKey, std::int64_t{0});
    }
    use.ranks.push_back(rank);
    if (r == 0) use.timeline = timeline_of(breakdown, ranks[r]);
  }
  use.start_skew_ns = start_skew(ranks);
  return use;
}

std::int64_t gradient_bytes(const RunConfig& config) {
  std::int64_t num_trained = num_parameters(config.shape);
  if (config.frozen == Frozen::kEmbeddings) {
    num_trained -= config.shape.vocab_size * config.shape.d_model;
  }
  if (config.comm_dtype != CommDtype::kFp32) return 2 * num_trained;
  // With bf16 weights over fp32 masters matrices have bf16 gradients, norms keep fp32.
  const std::int64_t num_norms = config.shape.d_model * (2 * config.shape.num_layers + 1);
  const std::int64_t num_halves =
      config.weights == Weights::kBf16Master ? num_trained - num_norms : 0;
  return 4 * num_trained - 2 * num_halves;
}

double ring_bytes(double bytes, std::int64_t world_size) {
  const auto ranks = static_cast<double>(world_size);
  return 2 * (ranks - 1) / ranks * bytes;
}

double ring_bytes_per_step(const RunConfig& config) {
  const std::int64_t times = config.no_sync ? 1 : config.num_accumulation;
  return ring_bytes(static_cast<double>(gradient_bytes(config) * times), config.world_size);
}

nlohmann::json to_json(const CommunicationUse& use) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankCommunication& rank : use.ranks) {
    ranks.push_back({{"step_ns", rank.step_ns},
                     {"communication_ns", rank.communication_ns},
                     {"communication_exposed_ns", rank.exposed_ns},
                     {"num_collectives", rank.num_collectives},
                     {"num_hidden_collectives", rank.num_hidden_collectives},
                     {"clock_uncertainty_ns", rank.clock_uncertainty_ns}});
  }
  nlohmann::json timeline = nlohmann::json::array();
  for (const Collective& collective : use.timeline) {
    timeline.push_back({{"start_ns", collective.start_ns},
                        {"duration_ns", collective.duration_ns},
                        {"exposed_ns", collective.exposed_ns}});
  }
  nlohmann::json result = {{"ranks", ranks}, {"timeline", timeline}};
  result["start_skew_ns"] =
      use.start_skew_ns ? nlohmann::json(*use.start_skew_ns) : nlohmann::json(nullptr);
  return result;
}

}  // namespace steplens
