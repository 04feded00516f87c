#include "viewer/data/banners.h"

#include <fmt/format.h>

#include "harness/trace/trace_reader.h"
#include "reports/format.h"

namespace steplens {

std::vector<std::string> banners_of(const Trace& tables) {
  std::vector<std::string> banners;
  const auto count_of = [&](std::string_view name) {
    const auto it = tables.quality.find(std::string(name));
    return it == tables.quality.end() ? std::int64_t{0} : it->second;
  };
  const auto number = [](std::int64_t count, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", format_count(count), count == 1 ? one : many);
  };
  if (count_of(quality::kTruncated) != 0) {
    const std::int64_t num_bytes = count_of(quality::kIgnoredBytes);
    banners.push_back(
        num_bytes > 0
            ? fmt::format("The trace breaks off: its last {} could not be read. Everything before "
                          "is shown.",
                          format_bytes(static_cast<double>(num_bytes)))
            : "The trace breaks off: its writer did not finish. What it wrote is shown.");
  }
  if (const std::int64_t count = count_of(quality::kDamagedChunks); count > 0) {
    banners.push_back(fmt::format("{} of the trace {} damaged and left out.",
                                  number(count, "part", "parts"), count == 1 ? "is" : "are"));
  }
  if (const std::int64_t count = count_of(quality::kLostReferences); count > 0) {
    banners.push_back(fmt::format("{} to what was lost: names or ranges are missing there.",
                                  number(count, "reference leads", "references lead")));
  }
  if (const std::int64_t count = count_of(quality::kDropped); count > 0) {
    banners.push_back(fmt::format("The recorder dropped {}: what seems idle may have been busy.",
                                  number(count, "record", "records")));
  }
  if (const std::int64_t count = count_of(quality::kNullRequests); count > 0) {
    banners.push_back(fmt::format("The recorder ran out of buffers {}: records may be missing.",
                                  number(count, "time", "times")));
  }
  if (const std::int64_t count = count_of(quality::kUnknownKind); count > 0) {
    banners.push_back(fmt::format("{} of a kind unknown to the recorder {} left out.",
                                  number(count, "record", "records"), count == 1 ? "was" : "were"));
  }
  return banners;
}

}  // namespace steplens
