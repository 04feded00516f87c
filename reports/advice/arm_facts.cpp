#include "reports/advice/arm_facts.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/breakdown/kernel_names.h"
#include "reports/format.h"

namespace steplens {
namespace {

bool ran_on_gpu(const AdviceInput& input, const Breakdown* breakdown) {
  if (input.config != nullptr) return input.config->device == Device::kCuda;
  if (breakdown == nullptr) return true;
  // Operators carry the library's names.
  return std::ranges::none_of(breakdown->kernels, [](const UsageGroup& kernel) {
    return kernel.key.starts_with("aten::");
  });
}

}  // namespace

ArmFacts::ArmFacts(const AdviceInput& input) : input_(input) {
  if (input.trace != nullptr && input.trace->breakdown.mean_step_ns() > 0) {
    breakdown_ = &input.trace->breakdown;
  }
  is_gpu_ = ran_on_gpu(input, breakdown_);
  if (breakdown_ == nullptr) {
    if (input.row != nullptr) step_ns_ = input.row->step_wall_ns.value_or(0);
    return;
  }
  step_ns_ = breakdown_->mean_step_ns();
  const std::optional<double> untraced_step_ns = input.trace->throughput_step_ns;
  if (!untraced_step_ns || !is_distorted(*input.trace)) return;
  const double idle_ns = per_step(breakdown_->total.idle_ns);
  step_ns_ = *untraced_step_ns;
  const double fitting_ns = std::max(0.0, step_ns_ - per_step(breakdown_->total.busy_ns()));
  if (idle_ns > fitting_ns) idle_scale_ = fitting_ns / idle_ns;
}

double ArmFacts::per_step(std::int64_t total) const {
  return breakdown_ == nullptr ? 0 : breakdown_->per_step(total);
}

double ArmFacts::idle_ns(IdleClass idle) const {
  if (breakdown_ == nullptr) return 0;
  return idle_scale_ * per_step(breakdown_->total.idle_by_class_ns[static_cast<std::size_t>(idle)]);
}

double ArmFacts::category_ns(KernelCategory category) const {
  if (breakdown_ == nullptr) return 0;
  const auto it = std::ranges::find(breakdown_->categories, name_of(category), &UsageGroup::key);
  return it == breakdown_->categories.end() ? 0 : per_step(it->total.exclusive_ns);
}

double ArmFacts::phase_ns(Phase phase) const {
  if (breakdown_ == nullptr) return 0;
  const auto it = std::ranges::find(breakdown_->phases, name_of(phase), &UsageGroup::key);
  return it == breakdown_->phases.end() ? 0 : per_step(it->total.exclusive_ns);
}

std::string ArmFacts::value_of(std::string_view key) const {
  const ConfigField* field = find_config_field(key);
  if (input_.config == nullptr || field == nullptr) return "";
  const nlohmann::json value = field->get(*input_.config);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::optional<double> ArmFacts::gain_without(double removable_ns) const {
  if (step_ns_ <= 0 || removable_ns <= 0 || removable_ns >= step_ns_) return std::nullopt;
  return step_ns_ / (step_ns_ - removable_ns);
}

std::string ArmFacts::amount_text(double ns) const {
  return fmt::format("{} a step, {}", format_duration_ns(ns), format_percent(share(ns)));
}

Evidence ArmFacts::idle_evidence(IdleClass idle) const {
  std::string text = fmt::format("idle, {}: {}", label_of(idle), amount_text(idle_ns(idle)));
  if (idle_scale_ < 1) {
    const double traced_ns =
        per_step(breakdown_->total.idle_by_class_ns[static_cast<std::size_t>(idle)]);
    text += fmt::format(" ({} while traced, more than fits into a step that is not)",
                        format_duration_ns(traced_ns));
  }
  return {.kind = EvidenceKind::kIdle, .key = std::string(name_of(idle)), .text = std::move(text)};
}

Evidence ArmFacts::category_evidence(KernelCategory category) const {
  return {
      .kind = EvidenceKind::kCategory,
      .key = std::string(name_of(category)),
      .text = fmt::format("{} kernels: {}", name_of(category), amount_text(category_ns(category)))};
}

Evidence ArmFacts::phase_evidence(Phase phase) const {
  return {.kind = EvidenceKind::kPhase,
          .key = std::string(name_of(phase)),
          .text = fmt::format("phase {}: {}", name_of(phase), amount_text(phase_ns(phase)))};
}

Evidence ArmFacts::kernel_evidence(const UsageGroup& kernel) const {
  return {.kind = EvidenceKind::kKernel,
          .key = kernel.key,
          .text = fmt::format("{}: {}, {} times", kernel.display,
                              amount_text(per_step(kernel.total.exclusive_ns)),
                              format_mean_count(per_step(kernel.total.num_operations)))};
}

}  // namespace steplens
