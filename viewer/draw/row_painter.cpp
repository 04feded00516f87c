#include "viewer/draw/row_painter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "viewer/draw/text.h"

namespace steplens {
namespace {

constexpr float kMinLabelUnits = 36;
// Glyphs are rectangles too. Once so many are drawn, only labels with much room follow.
constexpr std::size_t kMaxLabelGlyphs = 2500;
constexpr float kRoomyLabelUnits = 110;
// Some 150 ns each with cold caches: 2 ms of a frame.
constexpr std::ptrdiff_t kMaxDenseBuckets = 13'000;
constexpr float kDimmedAlpha = 0.16F;
// Anything busy is to be seen, however short.
constexpr float kLeastAlpha = 0.22F;

ImU32 texel_of(const Bucket& bucket, std::int64_t bucket_ns, const ToneColours& colours,
               bool dims_others) {
  if (bucket.busy_ns == 0 && bucket.count == 0) return 0;
  const double busy_ratio = static_cast<double>(bucket.busy_ns) / static_cast<double>(bucket_ns);
  float alpha = kLeastAlpha + (1 - kLeastAlpha) * static_cast<float>(busy_ratio);
  if (dims_others) alpha = bucket.is_highlighted ? std::max(alpha, 0.85F) : alpha * kDimmedAlpha;
  const auto alpha_255 = static_cast<ImU32>(alpha * 255);
  return (colours[bucket.tone % kMaxTones] & ~IM_COL32_A_MASK) | (alpha_255 << IM_COL32_A_SHIFT);
}

}  // namespace

void RowPainter::begin_frame() {
  strips_.begin_frame();
  num_rectangles_ = 0;
  num_label_glyphs_ = 0;
  // Those that were put off come first.
  budget_ = kMaxDenseBuckets - num_stale_buckets_;
  num_stale_buckets_ = 0;
}

bool RowPainter::end_frame() { return strips_.upload() || num_stale_buckets_ > 0; }

void RowPainter::update(Cached& cached, const SliceRow& row, const TimeWindow& window,
                        const RowStyle& style) {
  if (cached.version != 0 && cached.window == window && cached.max_slices == style.max_slices &&
      cached.highlight_version == style.highlight_version) {
    cached.is_stale = false;
    return;
  }
  const bool may_wait = cached.version != 0 && !cached.is_stale &&
                        cached.highlight_version == style.highlight_version;
  if (may_wait && budget_ <= 0) {
    cached.is_stale = true;
    num_stale_buckets_ += std::ssize(cached.view.buckets);
    return;
  }
  const bool was_put_off = std::exchange(cached.is_stale, false);
  cached.window = window;
  cached.max_slices = style.max_slices;
  cached.highlight_version = style.highlight_version;
  cached.version = next_version_++;
  compute_row_view(row, window, {.max_slices = style.max_slices, .highlighted = style.highlighted},
                   cached.view);
  const bool is_dense = static_cast<double>(cached.view.bucket_ns) > 1.5 * window.ns_per_px();
  if (is_dense && !was_put_off) budget_ -= std::ssize(cached.view.buckets);
  cached.texels.clear();
  const bool has_strip = std::ranges::any_of(
      cached.view.buckets, [](const Bucket& b) { return b.count > 0 || b.busy_ns > 0; });
  if (!has_strip) return;
  cached.texels.reserve(cached.view.buckets.size());
  for (const Bucket& bucket : cached.view.buckets) {
    cached.texels.push_back(
        texel_of(bucket, cached.view.bucket_ns, *style.colours, style.dims_others));
  }
}

void RowPainter::draw(ImDrawList& list, const Theme& theme, const SliceRow& row,
                      const TimeAxis& axis, std::int64_t origin_ns, float top, float bottom,
                      const RowStyle& style,
                      const std::function<std::string_view(const Slice&)>& label_of) {
  const TimeWindow window{
      .start_ns = origin_ns + static_cast<std::int64_t>(std::floor(axis.start_ns)),
      .end_ns = origin_ns + static_cast<std::int64_t>(std::ceil(axis.end_ns())) + 1,
      .width_px = static_cast<double>(axis.width)};
  Cached& cached = cache_[&row];
  update(cached, row, window, style);
  const auto x_of = [&](std::int64_t time_ns) {
    return axis.x_of(static_cast<double>(time_ns - origin_ns));
  };
  list.ChannelsSetCurrent(0);
  strips_.draw(list, cached.texels, cached.version, {x_of(cached.view.start_ns), top},
               {x_of(cached.view.end_ns), bottom});
  num_rectangles_ += cached.texels.empty() ? 0 : 1;

  const float font_size = std::min(ImGui::GetFontSize(), theme.px(13));
  const float text_top = std::round((top + bottom - font_size) / 2) - 1;
  const float min_label = theme.px(kMinLabelUnits);
  for (const std::uint32_t index : cached.view.slices) {
    const Slice& slice = row.slices()[index];
    const float left = std::max(x_of(slice.start_ns), axis.left - 2);
    const float right = std::min(x_of(slice.end_ns), axis.right() + 2);
    if (right <= left) continue;
    ImU32 colour = (*style.colours)[row.tone_of(slice) % kMaxTones];
    const bool is_dimmed =
        style.dims_others && !std::ranges::binary_search(style.highlighted, index);
    if (is_dimmed) colour = with_alpha(colour, kDimmedAlpha);
    if (index == style.hovered_index) colour = mix(colour, theme.text, 0.22F);
    list.ChannelsSetCurrent(1);
    // A dark seam on the right keeps neighbours of one colour apart.
    const float seam = right - left > 5 ? 1 : 0;
    list.AddRectFilled({left, top}, {right - seam, bottom}, colour);
    ++num_rectangles_;
    const bool has_room =
        right - left >=
        (num_label_glyphs_ < kMaxLabelGlyphs ? min_label : theme.px(kRoomyLabelUnits));
    if (!style.has_labels || !has_room) continue;
    const std::string_view label = label_of(slice);
    if (label.empty()) continue;
    num_label_glyphs_ +=
        std::min(label.size(), static_cast<std::size_t>((right - left) / theme.px(6)));
    // Cut by a rectangle on the CPU: measuring text to cut it would cost more than the frame has.
    list.ChannelsSetCurrent(2);
    const ImVec4 clip = {left + theme.px(3), top, right - theme.px(3), bottom};
    const ImU32 text_colour = is_dimmed ? with_alpha(theme.text, 0.35F) : text_on(colour);
    list.AddText(ImGui::GetFont(), font_size, {left + theme.px(4), text_top}, text_colour,
                 label.data(), label.data() + label.size(), 0, &clip);
  }
  list.ChannelsSetCurrent(2);
  if (style.selected_index < row.size()) {
    const Slice& slice = row.slices()[style.selected_index];
    const float left = std::max(x_of(slice.start_ns), axis.left - 4);
    const float right =
        std::min(std::max(x_of(slice.end_ns), x_of(slice.start_ns) + 3), axis.right() + 4);
    if (right > left)
      list.AddRect({left - 1, top - 1}, {right + 1, bottom + 1}, theme.text, 0.0F, 0, 2.0F);
  }
}

}  // namespace steplens
