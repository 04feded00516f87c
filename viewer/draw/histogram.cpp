#include "viewer/draw/histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "reports/format.h"
#include "viewer/draw/text.h"

namespace steplens {
namespace {

// So many bins are shown at least, so that one narrow peak is not a block.
constexpr int kMinBins = 24;

double share_of(const HistogramLine& line, int bin) {
  const int index = bin - line.histogram->first_bin;
  if (index < 0 || index >= static_cast<int>(line.histogram->counts.size())) return 0;
  const auto total = std::accumulate(line.histogram->counts.begin(), line.histogram->counts.end(),
                                     std::uint64_t{0});
  return static_cast<double>(line.histogram->counts[static_cast<std::size_t>(index)]) /
         static_cast<double>(total);
}

}  // namespace

void draw_histogram(const Theme& theme, const std::vector<HistogramLine>& lines, ImVec2 size) {
  const ImVec2 low = ImGui::GetCursorScreenPos();
  ImGui::Dummy(size);
  if (lines.empty()) return;
  int first = lines[0].histogram->first_bin;
  int last = first;
  double tallest = 0;
  for (const HistogramLine& line : lines) {
    const int end = line.histogram->first_bin + static_cast<int>(line.histogram->counts.size());
    first = std::min(first, line.histogram->first_bin);
    last = std::max(last, end - 1);
    for (int bin = line.histogram->first_bin; bin < end; ++bin) {
      tallest = std::max(tallest, share_of(line, bin));
    }
  }
  const int missing = std::max(0, kMinBins - (last - first + 1));
  first = std::max(0, first - missing / 2);
  last += missing - missing / 2;

  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float text_height = ImGui::GetTextLineHeight();
  const float top = low.y + text_height + theme.px(4);
  const float bottom = low.y + size.y - text_height - theme.px(4);
  const float bin_width = size.x / static_cast<float>(last - first + 1);
  const auto x_of_bin = [&](int bin) {
    return low.x + bin_width * static_cast<float>(bin - first);
  };
  const auto x_of_ns = [&](double ns) {
    const double first_log = std::log2(DurationHistogram::lower_ns(first));
    const double last_log = std::log2(DurationHistogram::lower_ns(last + 1));
    return low.x +
           size.x * static_cast<float>((std::log2(ns) - first_log) / (last_log - first_log));
  };
  list.AddLine({low.x, bottom}, {low.x + size.x, bottom}, theme.border);
  for (const HistogramLine& line : lines) {
    const bool is_alone = lines.size() == 1;
    for (int bin = first; bin <= last; ++bin) {
      const double share = share_of(line, bin);
      if (share == 0) continue;
      const float height = std::max(1.0F, (bottom - top) * static_cast<float>(share / tallest));
      const float left = x_of_bin(bin);
      const float right = std::max(left + 1, x_of_bin(bin + 1) - 1);
      list.AddRectFilled({left, bottom - height}, {right, bottom},
                         with_alpha(line.colour, is_alone ? 1.0F : 0.5F));
      if (!is_alone) {
        list.AddRectFilled({left, bottom - height}, {right, bottom - height + 2}, line.colour);
      }
    }
  }
  float label_left = low.x;
  for (const HistogramLine& line : lines) {
    const float x = std::round(x_of_ns(std::max(1.0, line.median_ns)));
    list.AddLine({x, top - theme.px(2)}, {x, bottom}, line.colour, theme.px(1));
    const std::string label =
        fmt::format("{}{}median {}", line.label, line.label.empty() ? "" : "  ",
                    format_duration_ns(line.median_ns));
    list.AddRectFilled({label_left, low.y + theme.px(3)},
                       {label_left + theme.px(9), low.y + theme.px(12)}, line.colour, theme.px(2));
    draw_text(list, label_left + theme.px(15), low.y, theme.text, label);
    label_left += theme.px(15) + text_width(label) + theme.px(20);
  }
  // Durations below the axis: as many as fit.
  float last_right = low.x - 1;
  for (int bin = first; bin <= last; ++bin) {
    const std::string label = format_duration_ns(DurationHistogram::lower_ns(bin));
    const float half = text_width(label) / 2;
    const float x = x_of_bin(bin);
    if (x - half < last_right || x + half > low.x + size.x) continue;
    list.AddLine({x, bottom}, {x, bottom + theme.px(3)}, theme.border);
    draw_text(list, x, bottom + theme.px(4), theme.muted, label, HorizontalAlign::kCentre);
    last_right = x + half + theme.px(28);
  }
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (!ImGui::IsItemHovered()) return;
  const int bin = first + static_cast<int>((mouse.x - low.x) / bin_width);
  std::string text = fmt::format("{} to {}", format_duration_ns(DurationHistogram::lower_ns(bin)),
                                 format_duration_ns(DurationHistogram::lower_ns(bin + 1)));
  for (const HistogramLine& line : lines) {
    text += fmt::format("\n{}{}{}", line.label, line.label.empty() ? "" : ": ",
                        format_percent(share_of(line, bin)));
  }
  ImGui::SetTooltip("%s", text.c_str());
}

}  // namespace steplens
