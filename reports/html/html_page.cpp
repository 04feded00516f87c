#include "reports/html/html_page.h"

#include <fmt/format.h>

#include "reports/html/html_parts.h"
#include "reports/html/html_style.h"
#include "reports/svg.h"

namespace steplens {
namespace {

std::string contents_html(const ReportDocument& document) {
  std::string text =
      "<nav aria-label=\"Contents\">\n<p>Contents</p>\n<ol>\n<li><a "
      "href=\"#top\">Answer</a></li>\n";
  for (const ReportDocument::Chapter& chapter : document.chapters) {
    text +=
        fmt::format("<li><a href=\"#{}\">{}</a></li>\n", chapter.key, svg_escaped(chapter.title));
  }
  return text + "<li><a href=\"#metrics\">What each number is</a></li>\n</ol>\n</nav>\n";
}

std::string chapter_html(std::string_view key, std::string_view title, std::string_view content) {
  return fmt::format("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n{2}</section>\n",
                     key, svg_escaped(title), content);
}

}  // namespace

std::string report_html(const ReportDocument& document) {
  const std::string title = svg_escaped(document.title);
  std::string text = fmt::format(
      "<!DOCTYPE html>\n"
      "<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<a class=\"skip\" href=\"#top\">Skip the contents</a>\n",
      title, report_style());
  text += contents_html(document);
  text += fmt::format(
      "<main>\n<header>\n<h1 id=\"top\">{}</h1>\n<p class=\"answer\">{}.</p>\n<p>{}</p>\n"
      "<p><a href=\"#warnings\">{}</a></p>\n</header>\n",
      title, svg_escaped(document.headline), svg_escaped(document.baseline),
      svg_escaped(document.doubts));
  for (const ReportDocument::Chapter& chapter : document.chapters) {
    text += chapter_html(chapter.key, chapter.title, to_html(chapter.parts, chapter.title));
  }
  text += chapter_html("metrics", "What each number is", metrics_html());
  return text + "</main>\n</body>\n</html>\n";
}

}  // namespace steplens
