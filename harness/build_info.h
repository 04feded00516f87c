#pragma once

#include <string_view>

namespace steplens {

/// Which sources this program was built from, and how. Goes into every manifest and block.
struct BuildInfo {
  std::string_view git_sha;     // HEAD of the checkout, 40 hex digits; "unknown" outside of one.
  bool is_dirty;                // Something differs from git_sha, or git_sha is unknown.
  std::string_view version;     // Of Steplens: "0.1.0".
  std::string_view compiler;    // "GNU 12.2.0".
  std::string_view build_type;  // "RelWithDebInfo", "Debug".
};

/// Compiled in; files below reports/published do not make the sources dirty.
const BuildInfo& build_info();

}  // namespace steplens
