#include "workloads/autocast.h"

namespace steplens {

AutocastMode autocast_mode(const RunConfig& config) {
  return {
      .device = config.device == Device::kCuda ? at::kCUDA : at::kCPU,
      .is_enabled = config.precision == Precision::kBf16 || config.precision == Precision::kFp16,
      .type = config.precision == Precision::kFp16 ? at::kHalf : at::kBFloat16};
}

AutocastScope::AutocastScope(const AutocastMode& mode)
    : previous_{.device = mode.device,
                .is_enabled = at::autocast::is_autocast_enabled(mode.device),
                .type = at::autocast::get_autocast_dtype(mode.device)},
      had_cache_(at::autocast::is_autocast_cache_enabled()) {
  at::autocast::set_autocast_enabled(mode.device, mode.is_enabled);
  at::autocast::set_autocast_dtype(mode.device, mode.type);
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(previous_.device, previous_.is_enabled);
  at::autocast::set_autocast_dtype(previous_.device, previous_.type);
  at::autocast::set_autocast_cache_enabled(had_cache_);
}

}  // namespace steplens
