#include "viewer/draw/memory_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/format.h"
#include "viewer/draw/text.h"

namespace steplens {
namespace {

constexpr float kColumnPx = 3;
constexpr float kPhaseUnits = 6;

// From the bottom up: what stays for the whole run first, so that what comes and goes is on top.
constexpr std::array kOrder = {MemoryOwner::kParameters, MemoryOwner::kOptimizerState,
                               MemoryOwner::kGradients,  MemoryOwner::kData,
                               MemoryOwner::kGraphPool,  MemoryOwner::kWorkspace,
                               MemoryOwner::kUnknown,    MemoryOwner::kActivations};
static_assert(kOrder.size() == kNumMemoryOwners);

// A power of two of bytes that makes up to six lines.
double tick_bytes(double max_bytes) {
  double step = 1;
  while (max_bytes / step > 6) step *= 2;
  return step;
}

void draw_grid(ImDrawList& list, const Theme& theme, const MemoryChart& chart, const TimeAxis& axis,
               float top, float bottom) {
  list.AddRectFilled({axis.left, top}, {axis.right(), bottom}, theme.surface);
  const double step = tick_bytes(chart.max_bytes);
  for (double bytes = 0; bytes <= chart.max_bytes; bytes += step) {
    const float y =
        std::round(bottom - (bottom - top) * static_cast<float>(bytes / chart.max_bytes));
    list.AddLine({axis.left, y}, {axis.right(), y}, theme.grid);
    draw_text(list, axis.left - theme.px(8), y - ImGui::GetTextLineHeight() / 2, theme.muted,
              bytes == 0 ? std::string("0") : format_bytes(bytes), HorizontalAlign::kRight);
  }
}

struct Column {
  float left = 0;
  float right = 0;
  std::size_t point = 0;
};

// Columns in which the same moment is the largest are one.
std::vector<Column> columns_of(const MemoryChart& chart, const TimeAxis& axis) {
  std::vector<Column> columns;
  for (float x = axis.left; x < axis.right(); x += kColumnPx) {
    const auto at = [&](float position) {
      return chart.origin_ns + static_cast<std::int64_t>(std::floor(axis.ns_of(position)));
    };
    const auto point = chart.series->largest_within(at(x), std::max(at(x) + 1, at(x + kColumnPx)));
    // The last one does not hold for ever.
    if (!point || at(x) > chart.series->points.back().time_ns) continue;
    const float right = std::min(x + kColumnPx, axis.right());
    if (!columns.empty() && columns.back().point == *point && columns.back().right == x) {
      columns.back().right = right;
    } else {
      columns.push_back({x, right, *point});
    }
  }
  return columns;
}

void draw_peak(ImDrawList& list, const Theme& theme, const MemoryChart& chart, const TimeAxis& axis,
               float top, float bottom) {
  const MemoryAccount& peak = chart.series->use.peak;
  const float x = std::round(axis.x_of(static_cast<double>(peak.time_ns - chart.origin_ns)));
  if (x < axis.left || x > axis.right()) return;
  const auto bytes = static_cast<double>(peak.allocated_bytes());
  const float y = bottom - (bottom - top) * static_cast<float>(bytes / chart.max_bytes);
  for (float dash = top; dash < bottom; dash += theme.px(6)) {
    list.AddLine({x, dash}, {x, std::min(dash + theme.px(3), bottom)}, theme.text);
  }
  list.AddCircleFilled({x, y}, theme.px(3.5F), theme.text);
  const std::string label = fmt::format("peak {}", format_bytes(bytes));
  const float width = text_width(label) + theme.px(10);
  const bool is_right = x + width + theme.px(6) < axis.right();
  const float left = is_right ? x + theme.px(6) : x - theme.px(6) - width;
  const float label_top = std::max(top, y - ImGui::GetTextLineHeight() - theme.px(6));
  list.AddRectFilled({left, label_top}, {left + width, label_top + ImGui::GetTextLineHeight() + 2},
                     theme.raised, theme.px(3));
  draw_text(list, left + theme.px(5), label_top + 1, theme.text, label);
}

}  // namespace

void draw_memory_chart(ImDrawList& list, const Theme& theme, const MemoryChart& chart,
                       const TimeAxis& axis, float top, float bottom) {
  const float phases_top = bottom - theme.px(kPhaseUnits);
  const float floor = phases_top - theme.px(2);
  draw_grid(list, theme, chart, axis, top, floor);
  list.PushClipRect({axis.left, top}, {axis.right(), bottom}, true);
  for (const Column& column : columns_of(chart, axis)) {
    const MemoryPoint& point = chart.series->points[column.point];
    std::int64_t below_bytes = 0;
    float y = floor;
    for (const MemoryOwner owner : kOrder) {
      below_bytes += bytes_of(point.by_owner, owner);
      const float next =
          std::round(floor - (floor - top) * static_cast<float>(static_cast<double>(below_bytes) /
                                                                chart.max_bytes));
      if (next >= y) continue;
      list.AddRectFilled({column.left, next}, {column.right, y}, theme.colour_of(owner));
      y = next;
    }
    if (point.phase != Phase::kNone) {
      list.AddRectFilled({column.left, phases_top}, {column.right, bottom},
                         theme.colour_of(point.phase));
    }
  }
  if (chart.reserved != nullptr && !chart.reserved->points().empty()) {
    std::vector<ImVec2> line;
    for (float x = axis.left; x < axis.right(); x += kColumnPx) {
      const auto value =
          chart.reserved->value_at(chart.origin_ns + static_cast<std::int64_t>(axis.ns_of(x)));
      if (!value) continue;
      const float y = floor - (floor - top) * static_cast<float>(*value / chart.max_bytes);
      if (line.size() > 1 && line.back().y == y && line[line.size() - 2].y == y) line.pop_back();
      line.push_back({x, y});
    }
    list.AddPolyline(line.data(), static_cast<int>(line.size()), theme.text, 0, theme.px(1.5F));
  }
  draw_peak(list, theme, chart, axis, top, floor);
  list.PopClipRect();
}

void draw_owners(const Theme& theme, const OwnerBytes& bytes, double total_bytes, float width) {
  std::vector<std::size_t> order(kNumMemoryOwners);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return bytes[i]; });
  ImDrawList& list = *ImGui::GetWindowDrawList();
  for (const std::size_t i : order) {
    if (bytes[i] == 0) continue;
    const auto owner = static_cast<MemoryOwner>(i);
    const ImVec2 low = ImGui::GetCursorScreenPos();
    const float line = ImGui::GetTextLineHeight();
    const float bar_left = low.x + theme.px(118);
    const float bar_room = width - theme.px(118) - theme.px(84);
    draw_text(list, low.x, low.y, theme.text, label_of(owner));
    const auto share =
        static_cast<float>(static_cast<double>(bytes[i]) / std::max(1.0, total_bytes));
    list.AddRectFilled({bar_left, low.y + line * 0.2F},
                       {bar_left + std::max(1.0F, bar_room * share), low.y + line * 0.85F},
                       theme.colour_of(owner), theme.px(1));
    draw_text(list, low.x + width, low.y, theme.text, format_bytes(static_cast<double>(bytes[i])),
              HorizontalAlign::kRight);
    ImGui::Dummy({width, line});
  }
}

}  // namespace steplens
