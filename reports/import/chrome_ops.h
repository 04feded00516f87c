#pragma once

#include <cstdint>
#include <optional>

#include "harness/trace/trace.h"
#include "reports/import/chrome_event.h"

namespace steplens {

/// A number of an event as an id; 0 for a negative one.
std::uint32_t id_32(std::int64_t value);

/// What a copy or set moved from where to where. `is_ours`: as `write_chrome_json` wrote it; others
/// have it in the name, "Memcpy HtoD (Pinned -> Device)", "Memset (Device)".
void read_transfer(const ChromeEvent& event, bool is_ours, GpuOp& op);

/// Grid, block and resources of a kernel's event, where it has them.
std::optional<LaunchShape> launch_shape_in(const ChromeEvent& event);

}  // namespace steplens
