#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "harness/trace/trace.h"
#include "reports/export/progress.h"

namespace steplens {

/// Reads Chrome trace JSON, plain or gzip: Kineto's (torch.profiler) and that of
/// `write_chrome_json`. Never holds the document: memory is that of the Trace.
///
/// Kernels, copies, sets, runtime and driver calls, waits, operators and annotations (both as
/// ranges; in a file without a device the outermost operators are the operations), counters and
/// "[memory]" events come over; "ProfilerStep#N" gives the steps. Times count from the first event;
/// info["start_unix_ns"] is that one's time. Damage that profilers are known for is mended and
/// counted in info["num_mended"]; events that cannot be used are counted in the quality; a file
/// that ends in the middle gives what it has, with quality "truncated". ConfigError if it is no
/// such file, or damaged in another way: it names file and place.
///
/// What `write_chrome_json` wrote comes back equal, but for: allocations (they come back as
/// counters), the order of rows and of strings, and parents of ranges on other threads.
///
/// `progress` is told the bytes read of those of the file; of an unknown number (0) if it is
/// compressed. What it throws ends the import.
Trace import_chrome_json(const std::filesystem::path& path, const RowProgress& progress = {});

/// The same of a document in memory. `name`: what errors and info["source_file"] call it.
Trace import_chrome_text(std::string_view text, const std::string& name);

}  // namespace steplens
