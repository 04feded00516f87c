#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "harness/trace/trace.h"
#include "reports/export/progress.h"

namespace steplens {

/// A field of CSV: in quotes where RFC 4180 asks for them, and valid UTF-8.
std::string csv_field(std::string_view text);

/// Writes the operations of a trace as CSV (RFC 4180, with a header): one row each, in the trace's
/// order. What an operation does not have is empty. A path that ends in .gz is compressed.
/// ConfigError names path and cause; then `path` is what it was.
void write_csv(const std::filesystem::path& path, const Trace& trace,
               const RowProgress& progress = {});

}  // namespace steplens
