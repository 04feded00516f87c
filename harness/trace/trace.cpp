#include "harness/trace/trace.h"

#include <algorithm>
#include <array>

namespace steplens {
namespace {

constexpr std::array<std::string_view, 5> kGpuOpKinds = {"kernel", "copy", "set", "graph",
                                                         "operator"};
constexpr std::array<std::string_view, 7> kCopyKinds = {"",    "h2d", "d2h",  "d2d",
                                                        "p2p", "h2h", "other"};
constexpr std::array<std::string_view, 6> kMemoryKinds = {"unknown", "pageable", "pinned",
                                                          "device",  "managed",  "array"};
constexpr std::array<std::string_view, 7> kPhases = {"",     "data",      "forward", "backward",
                                                     "clip", "optimizer", "other"};
constexpr std::array<std::string_view, 4> kAttributions = {"none", "range", "sequence",
                                                           "graph_node"};
constexpr std::array<std::string_view, 8> kMemoryOwners = {
    "unknown",     "parameters", "gradients",  "optimizer_state",
    "activations", "workspace",  "graph_pool", "data"};
constexpr std::array<std::string_view, 7> kAllocActions = {
    "alloc",       "free",          "segment_alloc", "segment_free",
    "segment_map", "segment_unmap", "out_of_memory"};

constexpr std::array kLosses = {
    quality::kDropped,          quality::kNullRequests, quality::kUnknownKind,  quality::kTruncated,
    quality::kCounterOverflows, quality::kCounterGaps,  quality::kDamagedChunks};

}  // namespace

std::string_view name_of(GpuOpKind kind) { return kGpuOpKinds.at(static_cast<std::size_t>(kind)); }
std::string_view name_of(CopyKind kind) { return kCopyKinds.at(static_cast<std::size_t>(kind)); }
std::string_view name_of(MemoryKind kind) {
  return kMemoryKinds.at(static_cast<std::size_t>(kind));
}
std::string_view name_of(Phase phase) { return kPhases.at(static_cast<std::size_t>(phase)); }
std::string_view name_of(Attribution attribution) {
  return kAttributions.at(static_cast<std::size_t>(attribution));
}
std::string_view name_of(MemoryOwner owner) {
  return kMemoryOwners.at(static_cast<std::size_t>(owner));
}
std::string_view name_of(AllocAction action) {
  return kAllocActions.at(static_cast<std::size_t>(action));
}

bool has_lost_data(const std::map<std::string, std::int64_t>& quality) {
  return std::any_of(kLosses.begin(), kLosses.end(), [&](std::string_view loss) {
    const auto found = quality.find(std::string(loss));
    return found != quality.end() && found->second > 0;
  });
}

}  // namespace steplens
