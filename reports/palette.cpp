#include "reports/palette.h"

#include <array>
#include <charconv>

#include "harness/error.h"
#include "reports/memory/memory_account.h"

namespace steplens {
namespace {

constexpr std::string_view kWhite = "#ffffff";
// Darker than the ink of text beside the bars, which turns light on a dark ground.
constexpr std::string_view kInk = "#111111";

// In the order of KernelCategory.
constexpr std::array<Swatch, kNumKernelCategories> kCategories = {{
    {"gemm", "#0072B2", "#2A8FD0", kWhite},
    {"attention", "#D55E00", "#E0701A", kInk},
    {"norm", "#009E73", "#12AB80", kInk},
    {"elementwise", "#56B4E9", "#56B4E9", kInk},
    {"reduction", "#332288", "#8377DB", kWhite},
    {"loss", "#CC79A7", "#CC79A7", kInk},
    {"optimizer", "#E69F00", "#E69F00", kInk},
    {"embedding", "#882255", "#C2558F", kWhite},
    {"communication", "#F0E442", "#F0E442", kInk},
    {"copy", "#999933", "#A8A840", kInk},
    {"other", "#555555", "#8C8C8C", kWhite},
}};

// In the order of IdleClass: Tol's light colours.
constexpr std::array<Swatch, kNumIdleClasses> kIdle = {{
    {"idle: profiler", "#D9C2F0", "#D9C2F0", kInk},
    {"idle: allocator", "#99DDFF", "#99DDFF", kInk},
    {"idle: data wait", "#AEE3CF", "#AEE3CF", kInk},
    {"idle: sync", "#FFAABB", "#FFAABB", kInk},
    {"idle: late launch", "#EEDD88", "#EEDD88", kInk},
    {"idle: dependency", "#BBCCEE", "#BBCCEE", kInk},
    {"idle: unknown", "#DDDDDD", "#DDDDDD", kInk},
}};

// In the order of MemoryOwner.
constexpr std::array<Swatch, kNumMemoryOwners> kOwners = {{
    {"unknown", "#999999", "#999999", kInk},
    {"parameters", "#0072B2", "#2A8FD0", kWhite},
    {"gradients", "#009E73", "#12AB80", kInk},
    {"optimizer state", "#E69F00", "#E69F00", kInk},
    {"activations", "#56B4E9", "#56B4E9", kInk},
    {"workspace", "#D55E00", "#E0701A", kInk},
    {"graph pool", "#CC79A7", "#CC79A7", kInk},
    {"data", "#F0E442", "#F0E442", kInk},
}};

// In the order of Phase.
constexpr std::array<Swatch, 7> kPhases = {{
    {"no phase", "#999999", "#8C8C8C", kInk},
    {"data", "#F0E442", "#F0E442", kInk},
    {"forward", "#56B4E9", "#56B4E9", kInk},
    {"backward", "#0072B2", "#2A8FD0", kWhite},
    {"clip", "#CC79A7", "#CC79A7", kInk},
    {"optimizer", "#E69F00", "#E69F00", kInk},
    {"other", "#555555", "#8C8C8C", kWhite},
}};

std::uint8_t channel_of(std::string_view digits) {
  unsigned value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  SL_CHECK(error == std::errc() && end == digits.data() + digits.size());
  return static_cast<std::uint8_t>(value);
}

}  // namespace

const Swatch& swatch_of(KernelCategory category) {
  return kCategories[static_cast<std::size_t>(category)];
}

const Swatch& swatch_of(IdleClass idle) { return kIdle[static_cast<std::size_t>(idle)]; }

const Swatch& swatch_of(MemoryOwner owner) { return kOwners[static_cast<std::size_t>(owner)]; }

const Swatch& swatch_of(Phase phase) { return kPhases[static_cast<std::size_t>(phase)]; }

const Swatch& swatch_of(std::optional<Verdict> verdict) {
  static constexpr Swatch kFaster = {"faster", "#0072B2", "#4AA8E0", kWhite};
  static constexpr Swatch kSlower = {"slower", "#D55E00", "#EC7F2E", kInk};
  static constexpr Swatch kEquivalent = {"equivalent", "#009E73", "#1FBF92", kInk};
  static constexpr Swatch kNoFinding = {"no finding", "#666666", "#9A9A9A", kWhite};
  if (verdict == Verdict::kFaster) return kFaster;
  if (verdict == Verdict::kSlower) return kSlower;
  return verdict == Verdict::kEquivalent ? kEquivalent : kNoFinding;
}

const Swatch& series_swatch(std::size_t index) {
  // Without the last, which stands for the rest.
  return kCategories[index % (kNumKernelCategories - 1)];
}

Rgb rgb_of(std::string_view colour) {
  SL_CHECK(colour.size() == 7 && colour[0] == '#');
  return {.red = channel_of(colour.substr(1, 2)),
          .green = channel_of(colour.substr(3, 2)),
          .blue = channel_of(colour.substr(5, 2))};
}

}  // namespace steplens
