#include "reports/section.h"

namespace steplens {

// Each is defined in sections/<name>_section.cpp.
std::vector<Part> summary_parts(const ReportInput& input);
std::vector<Part> advice_parts(const ReportInput& input);
std::vector<Part> effects_parts(const ReportInput& input);
std::vector<Part> matrix_parts(const ReportInput& input);
std::vector<Part> programs_parts(const ReportInput& input);
std::vector<Part> aa_parts(const ReportInput& input);
std::vector<Part> interactions_parts(const ReportInput& input);
std::vector<Part> breakdown_parts(const ReportInput& input);
std::vector<Part> communication_parts(const ReportInput& input);
std::vector<Part> waterfall_parts(const ReportInput& input);
std::vector<Part> counters_parts(const ReportInput& input);
std::vector<Part> tracing_parts(const ReportInput& input);
std::vector<Part> scale_parts(const ReportInput& input);
std::vector<Part> memory_parts(const ReportInput& input);
std::vector<Part> steps_parts(const ReportInput& input);
std::vector<Part> order_parts(const ReportInput& input);
std::vector<Part> machine_parts(const ReportInput& input);
std::vector<Part> ranks_parts(const ReportInput& input);
std::vector<Part> kernels_parts(const ReportInput& input);
std::vector<Part> roofline_parts(const ReportInput& input);
std::vector<Part> gemm_parts(const ReportInput& input);
std::vector<Part> utilization_parts(const ReportInput& input);
std::vector<Part> guards_parts(const ReportInput& input);
std::vector<Part> proof_parts(const ReportInput& input);
std::vector<Part> method_parts(const ReportInput& input);
std::vector<Part> reproduce_parts(const ReportInput& input);
std::vector<Part> warnings_parts(const ReportInput& input);
std::vector<Part> sensitivity_parts(const ReportInput& input);
std::vector<Part> failures_parts(const ReportInput& input);

std::span<const Section> all_sections() {
  static constexpr Section kSections[] = {
      {"summary", "In a sentence each", &summary_parts},
      {"effects", "Effects", &effects_parts},
      {"matrix", "Matrix", &matrix_parts},
      {"programs", "Beside other programs", &programs_parts},
      {"interactions", "Which switches help each other", &interactions_parts},
      {"aa", "A/A: the program against itself", &aa_parts},
      {"advice", "What to do next", &advice_parts},
      {"breakdown", "Where a step's time goes", &breakdown_parts},
      {"communication", "What ranks send", &communication_parts},
      {"waterfall", "What makes the difference", &waterfall_parts},
      {"counters", "How busy the hardware was", &counters_parts},
      {"tracing", "What tracing costs", &tracing_parts},
      {"memory", "Memory", &memory_parts},
      {"scale", "What more GPUs would do", &scale_parts},
      {"steps", "Steps", &steps_parts},
      {"order", "The run in the order it ran", &order_parts},
      {"machine", "State of the machine while measuring", &machine_parts},
      {"ranks", "Ranks", &ranks_parts},
      {"kernels", "Modules and kernels", &kernels_parts},
      {"roofline", "What rates the kernels reach", &roofline_parts},
      {"gemm", "Algorithms of the matrix products", &gemm_parts},
      {"utilization", "Model FLOP/s utilisation", &utilization_parts},
      {"guards", "Same work, same maths?", &guards_parts},
      {"proof", "Did each switch take effect?", &proof_parts},
      {"method", "How it was measured", &method_parts},
      {"reproduce", "How to check and repeat it", &reproduce_parts},
      {"warnings", "What could be wrong with this", &warnings_parts},
      {"sensitivity", "What this run could have seen", &sensitivity_parts},
      {"failures", "Blocks that failed", &failures_parts},
  };
  return kSections;
}

}  // namespace steplens
