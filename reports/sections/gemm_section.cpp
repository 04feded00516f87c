#include "reports/gemm/gemm_choices.h"
#include "reports/section.h"

namespace steplens {

std::vector<Part> gemm_parts(const ReportInput& input) {
  std::vector<Part> parts;
  const std::vector<GemmChoice> choices = gemm_choices(input.bundle);
  if (choices.empty()) return parts;
  parts.emplace_back(Paragraph{
      "With gemm=tuned each product runs by the fastest of the algorithms that cuBLASLt offers for "
      "it, measured on this device in the first step that met it: medians of seven timings in "
      "turns, back to back, so neither with a step's caches nor with its clocks. The effect on a "
      "step is what the matrix says. tile and stages: numbers of cublasLt.h."});
  parts.emplace_back(gemm_table(choices));
  return parts;
}

}  // namespace steplens
