#pragma once

#include <optional>
#include <string>
#include <utility>

#include "profilers/nvml_abi.h"

namespace steplens {

/// What NVML answered: the value, or the status that says why there is none.
template <typename T>
struct NvmlReading {
  std::optional<T> value;
  NvmlStatus status = NvmlStatus::kSuccess;
};

/// True if the call failed although driver and GPU have it: something to count. False for a value
/// and for what is not available here.
bool is_nvml_error(NvmlStatus status);

/// The status as a clause for a report: "not supported by this GPU".
std::string nvml_reason(NvmlStatus status);

/// Calls `function(arguments..., &raw)` and gives `convert(raw)`.
template <typename Raw, typename Function, typename Convert, typename... Arguments>
auto read_nvml(Function function, const Convert& convert, Arguments... arguments)
    -> NvmlReading<decltype(convert(std::declval<const Raw&>()))> {
  if (function == nullptr) return {.status = NvmlStatus::kFunctionNotFound};
  Raw raw{};
  const NvmlStatus status = function(arguments..., &raw);
  if (status != NvmlStatus::kSuccess) return {.status = status};
  return {.value = convert(raw)};
}

}  // namespace steplens
