#pragma once

#include <string>
#include <string_view>

namespace steplens {

/// The name as a C++ compiler's user wrote it; a name that is not mangled comes back unchanged.
std::string demangled(std::string_view name);

/// A kernel's name for people: "vectorized_elementwise_kernel<CUDAFunctor_add>" instead of its 200
/// characters. Demangled, without return type, parameters, namespaces and the template arguments
/// that only say types and sizes; at most two arguments stay. Different kernels may share one.
std::string kernel_display_name(std::string_view name);

/// At most 60 characters of it: longer names push a table's numbers out of sight.
std::string shortened_name(std::string_view name);

}  // namespace steplens
