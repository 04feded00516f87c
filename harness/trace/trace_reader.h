#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "harness/trace/trace.h"

namespace steplens {

namespace quality {
/// Bytes behind the last whole chunk of a truncated file.
inline constexpr std::string_view kIgnoredBytes = "ignored_bytes";
/// References of a truncated file to rows or strings that it lacks; they now refer to none.
inline constexpr std::string_view kLostReferences = "lost_references";
}  // namespace quality

/// Reads a whole trace.slt. Every row index and StringId of the result exists or is kNoRow (device
/// 0 need not be described); parents are earlier rows.
///
/// A file whose writer was killed gives its whole chunks, with quality "truncated" = 1,
/// "ignored_bytes" and "lost_references". A damaged file, or one of a newer version, is a
/// ConfigError that names file, chunk and cause.
Trace read_trace(const std::filesystem::path& path);

/// The same of a file in memory; `name` stands for it in messages.
Trace read_trace(std::span<const std::byte> file, std::string_view name);

}  // namespace steplens
