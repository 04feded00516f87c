#include "kernels/vector.h"

#include <string>

#include "harness/error.h"

namespace steplens {

void check_argument(bool is_allowed, std::string_view op, std::string_view field,
                    std::int64_t value, std::string_view allowed) {
  if (is_allowed) return;
  throw ConfigError(std::string(op) + ": " + std::string(field) + "=" + std::to_string(value) +
                    ": takes " + std::string(allowed));
}

}  // namespace steplens
