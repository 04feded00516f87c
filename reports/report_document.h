#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/document.h"
#include "reports/section.h"

namespace steplens {

/// A report with all its words and numbers, before anybody decides how it looks: report.md and
/// report.html are both printed from this.
struct ReportDocument {
  struct Chapter {
    std::string_view key;
    std::string_view title;
    std::vector<Part> parts;
  };
  std::string title;
  std::string headline;           // The answer in one sentence, without its full stop.
  std::string baseline;           // What everything is compared with, a sentence.
  std::string doubts;             // How much there is to doubt, a sentence.
  std::vector<Chapter> chapters;  // The sections that have something to say.
};

/// Holds no path and no host name of this machine.
ReportDocument make_document(const ReportInput& input);

}  // namespace steplens
