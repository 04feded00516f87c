#include "reports/export/nsight_schema.h"

#include <algorithm>
#include <utility>

namespace steplens::nsight {
namespace {

constexpr std::pair<CopyKind, std::int64_t> kCopyIds[] = {
    {CopyKind::kOther, 0},          {CopyKind::kNone, 0},
    {CopyKind::kHostToDevice, 1},   {CopyKind::kDeviceToHost, 2},
    {CopyKind::kHostToDevice, 3},   {CopyKind::kDeviceToHost, 4},
    {CopyKind::kDeviceToDevice, 8}, {CopyKind::kDeviceToDevice, 5},
    {CopyKind::kDeviceToDevice, 6}, {CopyKind::kDeviceToDevice, 7},
    {CopyKind::kHostToHost, 9},     {CopyKind::kPeerToPeer, 10},
    {CopyKind::kHostToDevice, 11},  {CopyKind::kDeviceToHost, 12},
    {CopyKind::kDeviceToDevice, 13}};

// The first row of a kind is what is written for it.
constexpr std::pair<MemoryKind, std::int64_t> kMemoryIds[] = {
    {MemoryKind::kPageable, 0}, {MemoryKind::kPinned, 1},  {MemoryKind::kDevice, 2},
    {MemoryKind::kArray, 3},    {MemoryKind::kManaged, 4}, {MemoryKind::kDevice, 5},
    {MemoryKind::kManaged, 6},  {MemoryKind::kUnknown, 7}};

constexpr std::string_view kSyncNames[] = {"", "event", "stream wait event", "stream", "context"};

template <class Pairs, class Kind>
std::int64_t id_in(const Pairs& pairs, Kind kind, std::int64_t fallback) {
  for (const auto& [known, id] : pairs) {
    if (known == kind) return id;
  }
  return fallback;
}

template <class Pairs, class Kind>
Kind kind_in(const Pairs& pairs, std::int64_t id, Kind fallback) {
  for (const auto& [kind, known] : pairs) {
    if (known == id) return kind;
  }
  return fallback;
}

}  // namespace

std::int64_t id_of(CopyKind kind) { return id_in(kCopyIds, kind, 0); }
std::int64_t id_of(MemoryKind kind) { return id_in(kMemoryIds, kind, 7); }
CopyKind copy_kind_of(std::int64_t id) { return kind_in(kCopyIds, id, CopyKind::kOther); }
MemoryKind memory_kind_of(std::int64_t id) { return kind_in(kMemoryIds, id, MemoryKind::kUnknown); }

std::string_view sync_name_of(std::int64_t id) {
  return id > 0 && id < std::ssize(kSyncNames) ? kSyncNames[id] : "unknown";
}

std::int64_t sync_type_of(std::string_view name) {
  const auto* found = std::ranges::find(kSyncNames, name);
  return found == std::end(kSyncNames) ? 0 : found - std::begin(kSyncNames);
}

}  // namespace steplens::nsight
