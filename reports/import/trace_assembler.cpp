#include "reports/import/trace_assembler.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <numeric>
#include <tuple>

#include "reports/breakdown/modules.h"

namespace steplens {
namespace {

constexpr std::int64_t kStepWithoutNumber = -1;
constexpr std::int64_t kNoStep = -2;
constexpr std::int64_t kMaxStepNumber = 1'000'000'000'000'000;  // More is no count of steps.

std::string lower(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lowered;
}

bool is_micro_step(std::string_view name) { return name == "micro-step" || name == "micro_step"; }

// Names of ours, of PyTorch's autograd and optimizers.
Phase phase_named(std::string_view name) {
  constexpr std::array kPhases = {
      std::pair<std::string_view, Phase>{"data", Phase::kData},
      std::pair<std::string_view, Phase>{"forward", Phase::kForward},
      std::pair<std::string_view, Phase>{"backward", Phase::kBackward},
      std::pair<std::string_view, Phase>{"clip", Phase::kClip},
      std::pair<std::string_view, Phase>{"optimizer", Phase::kOptimizer}};
  for (const auto& [word, phase] : kPhases) {
    if (name == word) return phase;
  }
  if (name.starts_with("autograd::engine::evaluate_function")) return Phase::kBackward;
  if (name.starts_with("Optimizer.step#") || name.starts_with("Optimizer.zero_grad#")) {
    return Phase::kOptimizer;
  }
  return Phase::kNone;
}

}  // namespace

std::int64_t step_number_of(std::string_view name) {
  const std::string text = lower(name);
  for (const std::string_view word : {"profilerstep", "iteration", "step", "iter"}) {
    if (!text.starts_with(word)) continue;
    std::string_view rest = std::string_view(text).substr(word.size());
    if (rest.empty()) return word == kStepRangeName ? kStepWithoutNumber : kNoStep;
    if (std::string_view(" #_:").find(rest.front()) == std::string_view::npos) return kNoStep;
    while (!rest.empty() && std::string_view(" #_:").find(rest.front()) != std::string_view::npos) {
      rest.remove_prefix(1);
    }
    std::int64_t number = 0;
    for (const char c : rest) {
      if (c < '0' || c > '9' || number > kMaxStepNumber) return kNoStep;
      number = number * 10 + (c - '0');
    }
    return rest.empty() ? kNoStep : number;
  }
  return kNoStep;
}

StringId TraceAssembler::text(std::string_view string) {
  if (string.empty()) return 0;
  const auto found = ids_.find(string);
  if (found != ids_.end()) return found->second;
  const auto id = static_cast<StringId>(trace_.strings.size());
  trace_.strings.emplace_back(string);
  ids_.emplace(string, id);
  return id;
}

std::uint32_t TraceAssembler::thread(std::string_view key, std::uint64_t tid) {
  const auto found = threads_.find(key);
  if (found != threads_.end()) return found->second;
  const auto row = static_cast<std::uint32_t>(trace_.threads.size());
  trace_.threads.push_back({.tid = tid});
  threads_.emplace(key, row);
  return row;
}

std::optional<std::uint32_t> TraceAssembler::find_thread(std::string_view key) const {
  const auto found = threads_.find(key);
  return found == threads_.end() ? std::nullopt : std::optional(found->second);
}

void TraceAssembler::add_range(std::uint32_t thread, std::int64_t start_ns, std::int64_t end_ns,
                               std::string_view name, std::string_view domain,
                               std::string_view path) {
  open_ranges_.push_back({.start_ns = start_ns,
                          .end_ns = end_ns,
                          .thread = thread,
                          .name = text(name),
                          .domain = text(domain),
                          .range = path.empty() ? kNoRow : range(path, domain)});
}

std::uint32_t TraceAssembler::child(std::uint32_t parent, StringId name, StringId domain) {
  std::vector<std::uint32_t>& rows = children_[{parent, name}];
  for (const std::uint32_t row : rows) {
    if (trace_.ranges[row].domain == domain) return row;
  }
  trace_.ranges.push_back({.name = name, .domain = domain, .parent = parent});
  rows.push_back(static_cast<std::uint32_t>(trace_.ranges.size() - 1));
  return rows.back();
}

std::uint32_t TraceAssembler::range(std::string_view path, std::string_view domain) {
  const auto [it, is_new] = paths_.try_emplace({std::string(path), std::string(domain)}, kNoRow);
  if (!is_new) return it->second;
  std::uint32_t row = kNoRow;
  while (true) {
    const std::size_t slash = path.find('/');
    const StringId name = text(path.substr(0, slash));
    if (slash == std::string_view::npos) {
      row = child(row, name, text(domain));
      break;
    }
    const std::vector<std::uint32_t>& known = children_[{row, name}];
    row = known.empty() ? child(row, name, 0) : known.front();
    path.remove_prefix(slash + 1);
  }
  it->second = row;
  return row;
}

std::uint32_t TraceAssembler::launch_shape(const LaunchShape& shape) {
  const auto [it, is_new] = shapes_.try_emplace(
      {shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x, shape.block_y, shape.block_z,
       shape.registers_per_thread, shape.static_shared_bytes, shape.dynamic_shared_bytes},
      static_cast<std::uint32_t>(trace_.launch_shapes.size()));
  if (is_new) trace_.launch_shapes.push_back(shape);
  return it->second;
}

void TraceAssembler::add_quality(std::string_view name, std::int64_t count) {
  trace_.quality[std::string(name)] += count;
}

template <class Self, class Visit>
void TraceAssembler::for_each_time(Self& self, Visit visit) {
  const auto visit_all = [&](auto& rows) {
    for (auto& row : rows) {
      visit(row.start_ns);
      visit(row.end_ns);
    }
  };
  visit_all(self.trace_.gpu_ops);
  visit_all(self.trace_.apis);
  visit_all(self.trace_.syncs);
  visit_all(self.trace_.steps);
  visit_all(self.open_ranges_);
  for (auto& sample : self.trace_.counter_samples) visit(sample.time_ns);
  for (auto& alloc : self.trace_.allocs) visit(alloc.time_ns);
}

std::int64_t TraceAssembler::first_ns() const {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for_each_time(*this, [&](std::int64_t time_ns) { first = std::min(first, time_ns); });
  return first == std::numeric_limits<std::int64_t>::max() ? 0 : first;
}

void TraceAssembler::shift(std::int64_t by_ns) {
  for_each_time(*this, [&](std::int64_t& time_ns) { time_ns += by_ns; });
}

Trace TraceAssembler::finish(const FinishOptions& options) {
  counts_quality_ = !options.has_quality;
  build_ranges();
  place(trace_.apis);
  sort_stably(trace_.counter_samples, [](const CounterSample& left, const CounterSample& right) {
    return std::tie(left.track, left.time_ns) < std::tie(right.track, right.time_ns);
  });
  if (!options.has_steps) find_steps();
  sort_stably(trace_.steps,
              [](const Step& left, const Step& right) { return left.start_ns < right.start_ns; });
  if (!options.has_attributions) {
    number_micro_steps();
    find_phases();
    attribute_ops();
    place_operators();
  }
  return std::move(trace_);
}

// Ranges of one domain nest; those of another one may cross them.
void TraceAssembler::build_ranges() {
  sort_stably(open_ranges_, [](const OpenRange& left, const OpenRange& right) {
    return std::tie(left.thread, left.start_ns, right.end_ns) <
           std::tie(right.thread, right.start_ns, left.end_ns);
  });
  trace_.range_instances.reserve(open_ranges_.size());
  std::vector<std::uint32_t> open;  // Rows of range_instances.
  std::uint32_t thread = kNoRow;
  for (const OpenRange& range : open_ranges_) {
    if (range.thread != thread) open.clear();
    thread = range.thread;
    while (!open.empty() && trace_.range_instances[open.back()].end_ns <= range.start_ns) {
      open.pop_back();
    }
    std::uint32_t parent = kNoRow;
    for (auto it = open.rbegin(); it != open.rend() && parent == kNoRow; ++it) {
      const RangeInstance& outer = trace_.range_instances[*it];
      const bool is_around = outer.end_ns > range.start_ns && outer.end_ns >= range.end_ns;
      if (is_around && trace_.ranges[outer.range].domain == range.domain) parent = *it;
    }
    const std::uint32_t above = parent == kNoRow ? kNoRow : trace_.range_instances[parent].range;
    open.push_back(static_cast<std::uint32_t>(trace_.range_instances.size()));
    trace_.range_instances.push_back(
        {.start_ns = range.start_ns,
         .end_ns = range.end_ns,
         .range = range.range != kNoRow ? range.range : child(above, range.name, range.domain),
         .thread = thread,
         .parent = parent});
  }
  open_ranges_ = {};
}

// The innermost of `open` at that time, of the default domain if there is one.
std::uint32_t TraceAssembler::innermost(const std::vector<std::uint32_t>& open,
                                        std::int64_t time_ns) const {
  std::uint32_t other = kNoRow;
  for (auto it = open.rbegin(); it != open.rend(); ++it) {
    const RangeInstance& instance = trace_.range_instances[*it];
    if (instance.end_ns <= time_ns) continue;
    if (trace_.ranges[instance.range].domain == 0) return *it;
    if (other == kNoRow) other = *it;
  }
  return other;
}

// Sets `range_instance` of each row to what was innermost at its start on its thread.
template <class Row>
void TraceAssembler::place(std::vector<Row>& rows) const {
  std::vector<std::uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t row) {
    return std::tuple(rows[row].thread, rows[row].start_ns, row);
  });
  const std::vector<RangeInstance>& instances = trace_.range_instances;
  std::vector<std::uint32_t> open;
  std::uint32_t next = 0;
  std::uint32_t thread = kNoRow;
  for (const std::uint32_t index : order) {
    Row& row = rows[index];
    if (row.thread != thread) open.clear();
    thread = row.thread;
    while (next < instances.size() && instances[next].thread < thread) ++next;
    for (; next < instances.size() && instances[next].thread == thread &&
           instances[next].start_ns <= row.start_ns;
         ++next) {
      while (!open.empty() && instances[open.back()].end_ns <= instances[next].start_ns) {
        open.pop_back();
      }
      open.push_back(next);
    }
    while (!open.empty() && instances[open.back()].end_ns <= row.start_ns) open.pop_back();
    row.range_instance = innermost(open, row.start_ns);
  }
}

void TraceAssembler::place_operators() {
  struct Placed {
    std::int64_t start_ns;
    std::uint32_t thread;
    std::uint32_t range_instance;
    std::size_t op;
  };
  std::vector<Placed> operators;
  for (std::size_t i = 0; i < trace_.gpu_ops.size(); ++i) {
    const GpuOp& op = trace_.gpu_ops[i];
    if (op.kind != GpuOpKind::kOperator) continue;
    operators.push_back({op.start_ns, op.stream_id, kNoRow, i});
  }
  place(operators);
  for (const Placed& placed : operators)
    set_range(trace_.gpu_ops[placed.op], placed.range_instance);
}

void TraceAssembler::set_range(GpuOp& op, std::uint32_t instance) {
  if (instance == kNoRow) {
    if (counts_quality_) add_quality(quality::kUnattributed);
    return;
  }
  op.range = trace_.range_instances[instance].range;
  op.attribution = Attribution::kRange;
  op.phase = phases_[op.range];
  op.micro_step_index = micro_steps_[instance];
}

void TraceAssembler::find_steps() {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> numbers;  // By start and end.
  for (const RangeInstance& instance : trace_.range_instances) {
    const std::int64_t number = step_number_of(trace_.text(trace_.ranges[instance.range].name));
    if (number != kNoStep) numbers.try_emplace({instance.start_ns, instance.end_ns}, number);
  }
  for (const auto& [interval, number] : numbers) {
    const auto [start_ns, end_ns] = interval;
    // Steps follow each other: one that begins within another is a part of it, or its double on
    // another thread.
    if (!trace_.steps.empty() && start_ns < trace_.steps.back().end_ns) continue;
    const auto index = static_cast<std::int64_t>(trace_.steps.size());
    trace_.steps.push_back({.start_ns = start_ns,
                            .end_ns = end_ns,
                            .first_step_number = number == kStepWithoutNumber ? index : number});
  }
}

std::int32_t TraceAssembler::step_at(std::int64_t time_ns) const {
  const auto after = std::ranges::upper_bound(trace_.steps, time_ns, {}, &Step::start_ns);
  if (after == trace_.steps.begin() || (after - 1)->end_ns <= time_ns) return -1;
  return static_cast<std::int32_t>(after - trace_.steps.begin() - 1);
}

void TraceAssembler::number_micro_steps() {
  micro_steps_.assign(trace_.range_instances.size(), -1);
  std::map<std::int32_t, std::int32_t> num_of_step;
  for (std::size_t row = 0; row < trace_.range_instances.size(); ++row) {
    const RangeInstance& instance = trace_.range_instances[row];
    if (instance.parent != kNoRow) micro_steps_[row] = micro_steps_[instance.parent];
    if (is_micro_step(trace_.text(trace_.ranges[instance.range].name))) {
      micro_steps_[row] = num_of_step[step_at(instance.start_ns)]++;
    }
  }
}

void TraceAssembler::find_phases() {
  phases_.assign(trace_.ranges.size(), Phase::kNone);
  for (std::size_t row = 0; row < trace_.ranges.size(); ++row) {
    const Range& range = trace_.ranges[row];
    phases_[row] = phase_named(trace_.text(range.name));
    if (phases_[row] == Phase::kNone && range.parent != kNoRow) {
      phases_[row] = phases_[range.parent];
    }
  }
}

void TraceAssembler::attribute_ops() {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> launches;  // Correlation id, row of apis.
  for (std::uint32_t row = 0; row < trace_.apis.size(); ++row) {
    const std::uint32_t id = trace_.apis[row].correlation_id;
    if (id != 0) launches.emplace_back(id, row);
  }
  std::ranges::sort(launches);
  for (GpuOp& op : trace_.gpu_ops) {
    const auto found = std::ranges::lower_bound(launches, op.correlation_id, {},
                                                &std::pair<std::uint32_t, std::uint32_t>::first);
    const bool has_launch =
        op.correlation_id != 0 && found != launches.end() && found->first == op.correlation_id;
    op.step_index = step_at(has_launch ? trace_.apis[found->second].start_ns : op.start_ns);
    if (op.kind == GpuOpKind::kOperator) continue;
    if (!has_launch && counts_quality_) add_quality(quality::kWithoutLaunch);
    set_range(op, has_launch ? trace_.apis[found->second].range_instance : kNoRow);
  }
}

}  // namespace steplens
