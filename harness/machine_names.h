#pragma once

#include <string>
#include <string_view>

namespace steplens {

/// `text` fit to be published: every absolute path is cut to its last part, and `host_name` becomes
/// "host". Output of a program that died goes through this before it enters a bundle.
std::string without_machine_names(std::string_view text, std::string_view host_name);

/// The name of this machine in the network; empty if it has none.
std::string host_name();

}  // namespace steplens
