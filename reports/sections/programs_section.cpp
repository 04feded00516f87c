#include "reports/programs/other_programs.h"
#include "reports/section.h"

namespace steplens {

std::vector<Part> programs_parts(const ReportInput& input) {
  const OtherPrograms programs = compare_programs(input.bundle, input.results);
  if (programs.ratios.empty()) return {};
  return {Paragraph{programs_sentence(programs)}, programs_table(programs, input.results),
          Paragraph{"The fastest of this program's own arms beside each other program, from pairs "
                    "in the same round: geometric mean with a t interval for each comparison. It "
                    "was picked by its rate in these rounds, which flatters it a little where "
                    "another arm of ours comes close. All did the same maths (see below)."}};
}

}  // namespace steplens
