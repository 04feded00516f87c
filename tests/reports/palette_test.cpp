#include "reports/palette.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "reports/html/html_style.h"
#include "reports/memory/memory_account.h"

namespace steplens {
namespace {

TEST(Palette, NamesCategoriesAsResultsDo) {
  for (std::size_t i = 0; i < kNumKernelCategories; ++i) {
    const auto category = static_cast<KernelCategory>(i);
    EXPECT_EQ(swatch_of(category).label, name_of(category));
  }
}

TEST(Palette, NamesIdleClassesAndOwnersAsTheReportDoes) {
  for (std::size_t i = 0; i < kNumIdleClasses; ++i) {
    const auto idle = static_cast<IdleClass>(i);
    EXPECT_EQ(swatch_of(idle).label, "idle: " + std::string(label_of(idle)));
  }
  for (std::size_t i = 0; i < kNumMemoryOwners; ++i) {
    const auto owner = static_cast<MemoryOwner>(i);
    EXPECT_EQ(swatch_of(owner).label, label_of(owner));
  }
}

TEST(Palette, HasNoColourTwiceWithinATable) {
  std::set<std::string_view> colours;
  for (std::size_t i = 0; i < kNumKernelCategories; ++i) {
    colours.insert(swatch_of(static_cast<KernelCategory>(i)).colour);
  }
  for (std::size_t i = 0; i < kNumIdleClasses; ++i) {
    colours.insert(swatch_of(static_cast<IdleClass>(i)).colour);
  }
  EXPECT_EQ(colours.size(), kNumKernelCategories + kNumIdleClasses);
}

double channel_luminance(std::uint8_t value) {
  const double share = value / 255.0;
  return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
}

// Contrast ratio of WCAG 2.
double contrast(std::string_view left, std::string_view right) {
  const auto luminance = [](std::string_view colour) {
    const Rgb rgb = rgb_of(colour);
    return 0.2126 * channel_luminance(rgb.red) + 0.7152 * channel_luminance(rgb.green) +
           0.0722 * channel_luminance(rgb.blue);
  };
  const double a = luminance(left);
  const double b = luminance(right);
  return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
}

// Labels lie on bars. WCAG 2 asks for 4.5 of text; on the lighter colours of a dark page white
// words become black (reports/html/html_style.cpp).
void expect_readable(const Swatch& swatch) {
  const bool is_white = swatch.text_colour == "#ffffff";
  EXPECT_GE(contrast(swatch.text_colour, swatch.colour), 4.5) << swatch.label;
  EXPECT_GE(contrast(is_white ? "#000000" : swatch.text_colour, swatch.on_dark), 4.5)
      << swatch.label;
}

TEST(Palette, LabelsOnBarsAreReadable) {
  for (std::size_t i = 0; i < kNumKernelCategories; ++i) {
    expect_readable(swatch_of(static_cast<KernelCategory>(i)));
  }
  for (std::size_t i = 0; i < kNumIdleClasses; ++i) {
    expect_readable(swatch_of(static_cast<IdleClass>(i)));
  }
  for (std::size_t i = 0; i < kNumMemoryOwners; ++i) {
    expect_readable(swatch_of(static_cast<MemoryOwner>(i)));
  }
  for (const Phase phase : {Phase::kNone, Phase::kData, Phase::kForward, Phase::kBackward,
                            Phase::kClip, Phase::kOptimizer, Phase::kOther}) {
    expect_readable(swatch_of(phase));
  }
  for (const Verdict verdict :
       {Verdict::kFaster, Verdict::kSlower, Verdict::kEquivalent, Verdict::kInconclusive}) {
    expect_readable(swatch_of(verdict));
  }
  EXPECT_NE(report_style().find("svg text[fill=\"#ffffff\"] { fill: #000000; }"),
            std::string::npos);
}

TEST(Palette, MarksAreVisibleOnTheViewersGround) {
  for (std::size_t i = 0; i < kNumKernelCategories; ++i) {
    const Swatch& swatch = swatch_of(static_cast<KernelCategory>(i));
    EXPECT_GE(contrast(swatch.on_dark, "#1a1e25"), 3) << swatch.label;
  }
}

TEST(RgbOf, ReadsHexadecimalDigits) {
  EXPECT_EQ(rgb_of("#0072B2"), (Rgb{0x00, 0x72, 0xB2}));
  EXPECT_EQ(rgb_of("#ffeedd"), (Rgb{0xff, 0xee, 0xdd}));
}

}  // namespace
}  // namespace steplens
