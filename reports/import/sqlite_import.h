#pragma once

#include <filesystem>

#include "harness/trace/trace.h"
#include "reports/export/progress.h"

namespace steplens {

/// Reads SQLite as `nsys export --type sqlite` and `write_sqlite` write it. Tables and columns that
/// a version of Nsight Systems lacks are passed over; one without a table of the device or of
/// ranges is a ConfigError, like a file that is no database.
///
/// Kernels, copies, sets, graph launches, runtime and driver calls, waits, push/pop and start/end
/// ranges with their domains, memory of the driver, counters and device names come over. Ranges
/// that are called like steps ("step 12", "ProfilerStep#12", "iteration 12") give the steps. Of
/// several processes the correlation ids are kept apart.
///
/// What `write_sqlite` wrote comes back equal, but for: blocks of the caching allocator, names of
/// waits that Nsight does not know, and what follows from ranges: they are a tree by nesting on
/// their thread, and operations get range, step and phase from their launch.
///
/// `progress` is told the rows read, of an unknown number (0); what it throws ends the import.
Trace import_sqlite(const std::filesystem::path& path, const RowProgress& progress = {});

}  // namespace steplens
