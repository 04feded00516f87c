#include "reports/markdown.h"

#include <fmt/format.h>

namespace steplens {

std::string report_markdown(const ReportDocument& document) {
  std::string text = fmt::format("# {}\n\n**{}.**\n\n{}\n\n", document.title, document.headline,
                                 document.baseline);
  for (const ReportDocument::Chapter& chapter : document.chapters) {
    text += fmt::format("## {}\n\n", chapter.title);
    for (const Part& part : chapter.parts) text += to_markdown(part);
  }
  text.erase(text.find_last_not_of('\n') + 1);
  return text + "\n";
}

}  // namespace steplens
