#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/trace/trace.h"

namespace steplens {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
template <typename Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

/// Strings by number, shared by all that record. Thread-safe.
class StringTable {
 public:
  StringId id_of(std::string_view text) {
    if (text.empty()) return 0;
    const std::lock_guard lock(mutex_);
    if (const auto it = ids_.find(text); it != ids_.end()) return it->second;
    const auto id = static_cast<StringId>(texts_.size());
    texts_.emplace_back(text);
    ids_.emplace(std::string(text), id);
    return id;
  }
  std::vector<std::string> texts() const {
    const std::lock_guard lock(mutex_);
    return texts_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_ = {""};
  StringMap<StringId> ids_;
};

}  // namespace steplens
