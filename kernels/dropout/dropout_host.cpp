#include <cmath>

#include "harness/error.h"
#include "kernels/dropout/dropout.h"

namespace steplens {

void check_dropout(const DropoutMask& mask, std::string_view op) {
  if (mask.probability >= 0 && mask.probability <= 1 - 1.0 / 65536) return;
  throw ConfigError(std::string(op) + ": probability=" + std::to_string(mask.probability) +
                    ": takes 0 to 0.99998");
}

void dropout_on_host(const DropoutArgs& args) {
  check_dropout(args.mask, "dropout");
  check_argument(args.type == ElementType::kFloat32, "dropout", "type", static_cast<int>(args.type),
                 "float32 on a host");
  const DropoutDraw draw = make_draw(args.mask);
  const auto* x = static_cast<const float*>(args.x);
  auto* y = static_cast<float*>(args.y);
  for (std::int64_t first = 0; first < args.count; first += 8) {
    const PhiloxWords words = draw.words(static_cast<std::uint64_t>(first) / 8);
    for (int i = 0; i < 8 && first + i < args.count; ++i) {
      y[first + i] = x[first + i] * draw.factor(words, i);
    }
  }
}

}  // namespace steplens
