#include <algorithm>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/roofline/roofline_parts.h"
#include "reports/section.h"

namespace steplens {
namespace {

// Of the other arms: what matters is in their first rows.
constexpr std::size_t kNumRowsOfOthers = 8;

constexpr std::string_view kHow =
    "Durations are measured in the trace. FLOPs and bytes are derived from the model's config, not "
    "counted on the device: of the n-th matrix product of a module, what the model's n-th product "
    "there needs; of fused attention the lower triangle, without the product that its backward "
    "pass computes again; bytes with each operand read once and each result written once. So a "
    "rate says how well the model's work was done, not how busy the hardware was: that is in the "
    "section on hardware counters, where a bundle has them.";

const RatedWork* find_part(const Roofline& roofline, std::string_view name) {
  const auto it = std::ranges::find(roofline.parts, name, &RatedWork::name);
  return it == roofline.parts.end() ? nullptr : &*it;
}

// One row an arm: TFLOP/s of what computes, GB/s of what only moves.
Table rates_by_arm(const std::vector<const TracedArm*>& arms) {
  Table table{.columns = {{"arm"},
                          {"matrix products, TFLOP/s", Align::kRight},
                          {"attention, TFLOP/s", Align::kRight}}};
  std::vector<std::string> parts;
  for (const TracedArm* arm : arms) {
    for (const RatedWork& part : arm->roofline.parts) {
      if (std::ranges::find(parts, part.name) == parts.end()) parts.push_back(part.name);
    }
  }
  for (const std::string& part : parts) {
    table.columns.push_back({part + ", GB/s", Align::kRight});
  }
  const auto scaled = [](double scale) {
    return [scale](double per_s) { return format_significant(per_s * scale, 3); };
  };
  for (const TracedArm* arm : arms) {
    const Roofline& roofline = arm->roofline;
    std::vector<std::string> row = {
        arm->arm, format_or_absent(roofline.flops_per_s(KernelCategory::kGemm), scaled(1e-12)),
        format_or_absent(roofline.flops_per_s(KernelCategory::kAttention), scaled(1e-12))};
    for (const std::string& name : parts) {
      const RatedWork* part = find_part(roofline, name);
      row.push_back(part == nullptr ? std::string(kNoNumber)
                                    : format_or_absent(part->bytes_per_s(), scaled(1e-9)));
    }
    table.rows.push_back(std::move(row));
  }
  drop_absent_columns(table);
  return table;
}

void add_notes(const std::vector<std::string>& notes, std::vector<Part>& parts) {
  if (!notes.empty()) parts.emplace_back(BulletList{notes});
}

void add_first(const TracedArm& arm, std::vector<Part>& parts) {
  std::string svg = roofline_svg(arm.roofline, arm.arm);
  if (!svg.empty()) {
    parts.emplace_back(
        Image{.file_name = std::string(kRooflinePlot),
              .description = fmt::format("Rates that kernels of {} reach, as shares of the peak "
                                         "FLOP rate or of the bandwidth.",
                                         arm.arm),
              .svg = std::move(svg)});
  }
  if (Table kernels = rated_kernel_table(arm.roofline); !kernels.rows.empty()) {
    parts.emplace_back(std::move(kernels));
  }
  if (Table rest = rated_part_table(arm.roofline); !rest.rows.empty()) {
    parts.emplace_back(std::move(rest));
  }
  add_notes(roofline_notes(arm.roofline), parts);
}

// What the first arm did not say already.
std::vector<std::string> new_notes(const Roofline& roofline, const Roofline& first) {
  std::vector<std::string> notes = roofline_notes(roofline);
  const std::vector<std::string> known = roofline_notes(first);
  std::erase_if(notes, [&](const std::string& note) {
    return std::ranges::find(known, note) != known.end();
  });
  return notes;
}

}  // namespace

std::vector<Part> roofline_parts(const ReportInput& input) {
  std::vector<const TracedArm*> arms;
  for (const TracedArm& arm : input.traced_arms) {
    if (!arm.roofline.is_empty()) arms.push_back(&arm);
  }
  if (arms.empty()) return {};
  std::vector<Part> parts = {Paragraph{std::string(kHow)}};
  add_first(*arms.front(), parts);
  if (arms.size() == 1) return parts;
  parts.emplace_back(rates_by_arm(arms));
  for (const TracedArm* arm : arms) {
    if (arm == arms.front()) continue;
    Table kernels = rated_kernel_table(arm->roofline, kNumRowsOfOthers);
    if (kernels.rows.empty()) continue;
    parts.emplace_back(Fold{.subject = arm->arm, .text = ": rates of its kernels."});
    parts.emplace_back(std::move(kernels));
    add_notes(new_notes(arm->roofline, arms.front()->roofline), parts);
  }
  return parts;
}

}  // namespace steplens
