#include "reports/gemm/gemm_choices.h"
#include "reports/section.h"

namespace steplens {

std::vector<Part> gemm_parts(const ReportInput& input) {
  std::vector<Part> parts;
  const std::vector<GemmChoice> choices = gemm_choices(input.bundle);
  if (choices.empty()) return parts;
  parts.emplace_back(Paragraph{
      "With gemm=tuned each product runs by the fastest of the cuBLASLt algorithms tried for it, "
      "measured on this device in the first step that met it: medians of three timings in turns of "
      "up to 0.1 s, so under the power limit, but back to back: not with a step's caches. The "
      "effect on a step is what the matrix says. tile and stages: numbers of cublasLt.h."});
  parts.emplace_back(gemm_table(choices));
  return parts;
}

}  // namespace steplens
