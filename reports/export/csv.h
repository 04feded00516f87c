#pragma once

#include <filesystem>

#include "harness/trace/trace.h"
#include "reports/export/progress.h"

namespace steplens {

/// Writes the operations of a trace as CSV (RFC 4180, with a header): one row each, in the trace's
/// order. What an operation does not have is empty. A path that ends in .gz is compressed.
/// ConfigError names path and cause; then `path` is what it was.
void write_csv(const std::filesystem::path& path, const Trace& trace,
               const RowProgress& progress = {});

}  // namespace steplens
