#include "reports/roofline/roofline_parts.h"

#include <algorithm>

#include <fmt/format.h>

#include "reports/breakdown/kernel_names.h"
#include "reports/format.h"
#include "reports/metrics.h"

namespace steplens {
namespace {

std::string tera(double per_s) { return format_significant(per_s * 1e-12, 3); }
std::string giga(double per_s) { return format_significant(per_s * 1e-9, 3); }

}  // namespace

Table rated_kernel_table(const Roofline& roofline, std::size_t max_rows) {
  Table table{.columns = {{"kernel"},
                          {"category"},
                          {"time a step", Align::kRight},
                          {"count", Align::kRight},
                          metric_column("achieved_flops_per_s"),
                          metric_column("achieved_bytes_per_s"),
                          metric_column("intensity_ratio"),
                          metric_column("roof_share_ratio"),
                          {"limit"}}};
  for (const RatedWork& kernel : roofline.kernels) {
    if (table.rows.size() == max_rows) break;
    const std::optional<double> share = roofline.roof_share_ratio(kernel);
    table.rows.push_back(
        {shortened_name(kernel.display), std::string(name_of(kernel.category)),
         format_duration_ns(kernel.duration_ns), format_mean_count(kernel.num_operations),
         format_or_absent(kernel.flops_per_s(), tera), format_or_absent(kernel.bytes_per_s(), giga),
         format_or_absent(kernel.intensity_ratio(),
                          [](double ratio) { return format_significant(ratio, 3); }),
         format_or_absent(share, format_percent),
         !share                                ? std::string(kNoNumber)
         : roofline.is_bound_by_memory(kernel) ? "bandwidth"
                                               : "FLOP/s"});
  }
  drop_absent_columns(table);
  return table;
}

Table rated_part_table(const Roofline& roofline) {
  Table table{.columns = {{"part of the step"},
                          {"time a step", Align::kRight},
                          {"operations", Align::kRight},
                          metric_column("least_bytes"),
                          metric_column("achieved_bytes_per_s"),
                          metric_column("roof_share_ratio", "of bandwidth"),
                          {"what is counted"}}};
  for (const RatedWork& part : roofline.parts) {
    table.rows.push_back(
        {part.display, format_duration_ns(part.duration_ns), format_mean_count(part.num_operations),
         format_bytes(part.work.bytes), format_or_absent(part.bytes_per_s(), giga),
         format_or_absent(roofline.roof_share_ratio(part), format_percent), part.formula});
  }
  drop_absent_columns(table);
  return table;
}

std::vector<std::string> roofline_notes(const Roofline& roofline) {
  std::vector<std::string> notes = roofline.notes;
  if (roofline.is_empty()) return notes;
  if (roofline.operation_ns > 0) {
    notes.insert(
        notes.begin(),
        fmt::format("Of the operations' {} a step, {} have derived work; the others (casts, "
                    "copies, element by element, rotary embedding) are not rated.",
                    format_duration_ns(roofline.operation_ns),
                    format_percent(roofline.rated_ns / roofline.operation_ns)));
  }
  if (roofline.peak_flops) {
    notes.push_back(fmt::format("Peak of {} matrix products: {} TFLOP/s ({}).", roofline.precision,
                                tera(roofline.peak_flops->per_s), roofline.peak_flops->source));
  } else {
    notes.push_back(fmt::format("No peak of {} matrix products is known here, so no share of one.",
                                roofline.precision));
  }
  if (roofline.peak_bytes) {
    notes.push_back(fmt::format("Peak bandwidth: {} GB/s ({}).", giga(roofline.peak_bytes->per_s),
                                roofline.peak_bytes->source));
  }
  const auto is_fp32 = [](const RatedWork& kernel) { return kernel.work.is_fp32; };
  if (std::ranges::any_of(roofline.kernels, is_fp32)) {
    notes.emplace_back(
        "The products of the whole square of scores run in fp32 (attention=math), so the peak of "
        "the other products is not theirs.");
  }
  for (const RatedWork& work : roofline.kernels) {
    if (roofline.roof_share_ratio(work).value_or(0) > 1) {
      notes.push_back(
          fmt::format("{} is above its roof, which cannot be: what was derived for it "
                      "is not what it did, or the cache held its operands.",
                      work.display));
    }
  }
  return notes;
}

}  // namespace steplens
