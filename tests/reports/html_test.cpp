#include <set>

#include "tests/reports/bundle_builder.h"
#include "tests/reports/markup_checker.h"
#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/html/html_page.h"
#include "reports/html/html_parts.h"
#include "reports/html/html_style.h"
#include "reports/markdown.h"
#include "reports/metrics.h"
#include "reports/svg.h"

namespace steplens {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr std::int64_t kUs = 1000;
constexpr const char* kScript = "<script>alert(1)</script>";

Trace trace(std::string_view kernel, std::int64_t kernel_us) {
  TraceBuilder builder;
  std::int64_t t = 0;
  for (const std::int32_t step : {0, 1}) {
    builder.kernel(kernel, t, t + kernel_us * kUs, step, "step/micro-step/forward/block 0/mlp");
    builder.launched(t - 10 * kUs, t - 5 * kUs);
    t += (kernel_us + 100) * kUs;
  }
  return builder.trace();
}

// Baseline, optimizer=fused and checkpoint=full, with traces of the first two.
struct World {
  explicit World(std::string_view kernel = "nvjet_sm90_tst") : World(eight_rounds(), kernel) {}
  World(const BundleBuilder& builder, std::string_view kernel)
      : bundle(builder.bundle()),
        results(compute_results(bundle)) {
    arms.push_back({.arm = "baseline",
                    .breakdown = compute_breakdown(trace(kernel, 900)),
                    .throughput_step_ns = 990e3});
    arms.push_back({.arm = bundle.manifest.arms[1].name,
                    .reference = "baseline",
                    .breakdown = compute_breakdown(trace(kernel, 650)),
                    .throughput_step_ns = 980e3});
  }
  ReportDocument document() const {
    return make_document({.bundle = bundle, .results = results, .traced_arms = arms});
  }

  Bundle bundle;
  Results results;
  std::vector<TracedArm> arms;
};

TEST(ReportHtml, IsWellFormed) {
  const MarkupChecker checker(report_html(World().document()));
  EXPECT_EQ(checker.fault(), "");
  EXPECT_THAT(checker.named("h1"), SizeIs(1));
  EXPECT_THAT(checker.named("html"), SizeIs(1));
}

TEST(ReportHtml, IsWellFormedForAnEmptyBundle) {
  const Bundle bundle = {.folder = "x"};
  const Results results = compute_results(bundle);
  const MarkupChecker checker(report_html(make_document({.bundle = bundle, .results = results})));
  EXPECT_EQ(checker.fault(), "");
}

// A kernel, an arm, a reason and the title are whatever a block program wrote.
TEST(ReportHtml, EscapesEveryString) {
  BundleBuilder builder = eight_rounds();
  builder.manifest().title = std::string("\"'&") + kScript;
  builder.manifest().notes = {kScript};
  builder.manifest().gpu_name = kScript;
  builder.manifest().environment = {{kScript, kScript}};
  builder.manifest().arms.push_back(builder.manifest().arms[1]);
  builder.manifest().arms.back().name = kScript;
  builder.manifest().arms.back().not_applicable_reason = kScript;
  builder.add_failure("checkpoint=full", 8, BlockStatus::kCrash, kScript)
      .evidence["last_output_lines"] = {kScript, "\x1b[31mred\xff"};
  const World world(builder, kScript);
  const std::string html = report_html(world.document());
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("<h1 id=\"top\">&quot;'&amp;&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">&lt;script&gt;alert(1)&lt;/script&gt;</th>"));
  EXPECT_THAT(html, HasSubstr("[31mred\xEF\xBF\xBD"));
  const MarkupChecker checker(html);
  EXPECT_EQ(checker.fault(), "");
  EXPECT_THAT(checker.named("script"), IsEmpty());
}

TEST(ReportHtml, LoadsNothingAndForbidsScripts) {
  const std::string html = report_html(World().document());
  EXPECT_THAT(html, HasSubstr("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
  for (const char* loader : {" src=", "@import", "url(", "<link", "<img", "<iframe", "<object"}) {
    EXPECT_THAT(html, Not(HasSubstr(loader))) << loader;
  }
}

TEST(ReportHtml, HasTheChaptersOfMarkdownInTheirOrder) {
  const ReportDocument document = World().document();
  const MarkupChecker checker(report_html(document));
  std::string markdown;
  for (const MarkupElement* heading : checker.named("h2")) {
    markdown += "## " + heading->text + "\n";
  }
  std::string expected;
  const std::string report = report_markdown(document);
  for (std::size_t at = report.find("\n## "); at != std::string::npos;
       at = report.find("\n## ", at + 1)) {
    expected += report.substr(at + 1, report.find('\n', at + 1) - at);
  }
  EXPECT_EQ(markdown, expected + "## What each number is\n");
}

TEST(ReportHtml, IsTheGoldenOutline) {
  const MarkupChecker checker(report_html(World().document()));
  ASSERT_EQ(checker.fault(), "");
  std::string outline;
  for (const MarkupElement& element : checker.elements()) {
    if (element.name == "h1" || element.name == "h2") {
      outline += element.name + " " + element.text + "\n";
    } else if (element.name == "svg" || element.name == "table" || element.name == "details") {
      outline += "  " + element.name + "\n";
    }
  }
  EXPECT_EQ("\n" + outline, R"(
h1 nano on the CPU: throughput matrix
h2 In a sentence each
h2 Effects
  svg
h2 Matrix
  table
h2 Where a step's time goes
  table
  svg
  table
  table
  table
h2 What makes the difference
  details
  svg
  table
  table
  table
h2 Steps
  svg
  table
h2 The run in the order it ran
  svg
h2 Modules and kernels
  table
  table
h2 Model FLOP/s utilisation
h2 Same work, same maths?
  table
  svg
h2 Did each switch take effect?
h2 How it was measured
  table
h2 How to check and repeat it
h2 What could be wrong with this
h2 What this run could have seen
  table
h2 What each number is
  details
)");
}

TEST(ReportHtml, IsAccessible) {
  const MarkupChecker checker(report_html(World().document()));
  for (const MarkupElement* header : checker.named("th")) {
    EXPECT_THAT(header->attributes, HasSubstr("scope=\"")) << header->text;
  }
  const std::size_t num_pictures = checker.named("svg").size();
  EXPECT_THAT(checker.named("desc"), SizeIs(num_pictures));
  for (const MarkupElement* picture : checker.named("svg")) {
    EXPECT_THAT(picture->attributes, HasSubstr("role=\"img\""));
  }
  for (const MarkupElement* summary : checker.named("summary")) EXPECT_FALSE(summary->depth == 0);
}

TEST(ReportHtml, LinksOnlyToWhatIsThere) {
  const MarkupChecker checker(report_html(World().document()));
  std::set<std::string> ids;
  std::set<std::string> targets;
  for (const MarkupElement& element : checker.elements()) {
    for (const auto& [key, is_id] : {std::pair(" id=\"", true), std::pair(" href=\"#", false)}) {
      const std::size_t at = element.attributes.find(key);
      if (at == std::string::npos) continue;
      const std::size_t begin = at + std::string_view(key).size();
      const std::string value =
          element.attributes.substr(begin, element.attributes.find('"', begin) - begin);
      if (is_id) {
        EXPECT_TRUE(ids.insert(value).second) << "twice: " << value;
      } else {
        targets.insert(value);
      }
    }
  }
  EXPECT_GT(targets.size(), 20U);
  EXPECT_THAT(ids, IsSupersetOf(targets));
}

TEST(ReportHtml, OpensTheLargestWaterfallOnly) {
  const std::vector<Part> parts = {Fold{.subject = "a", .text = " small"}, Paragraph{"inside"},
                                   Fold{.subject = "b", .text = " big", .is_open = true}, FoldEnd{},
                                   Paragraph{"behind"}};
  EXPECT_EQ(to_html(parts, "x"),
            "<details>\n<summary><strong>a</strong> small</summary>\n<p>inside</p>\n</details>\n"
            "<details open=\"open\">\n<summary><strong>b</strong> big</summary>\n</details>\n"
            "<p>behind</p>\n");
}

TEST(ReportHtml, FoldsLongTablesAway) {
  Table table{.columns = {{"arm"}}};
  for (std::size_t i = 0; i < kMaxOpenRows; ++i) table.rows.push_back({"x"});
  EXPECT_THAT(to_html(Part(table), "Proof"), StartsWith("<div class=\"scroll\""));
  table.rows.push_back({"x"});
  EXPECT_THAT(to_html(Part(table), "Proof"),
              StartsWith("<details>\n<summary>31 rows: arm</summary>\n"));
}

TEST(ReportHtml, SaysInTheTitleOfAColumnWhatItHolds) {
  const Table table{.columns = {{"arm"}, metric_column("step_wall_ns")}, .rows = {{"a", "1 ms"}}};
  EXPECT_THAT(to_html(Part(table), "Matrix"),
              HasSubstr("<th scope=\"col\" class=\"n\"><a href=\"#metric-step_wall_ns\" "
                        "title=\"One optimizer step on the host's clock.\">step</a></th>"));
}

TEST(ReportStyle, CanStandInXml) {
  EXPECT_EQ(report_style().find_first_of("<&"), std::string::npos);
}

TEST(SvgEscaped, ReplacesWhatIsNoText) {
  EXPECT_EQ(svg_escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;'");
  EXPECT_EQ(svg_escaped(std::string_view("\0\x1b\x7f\t\n", 5)), "\t\n");
  EXPECT_EQ(svg_escaped("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  // Cut off, overlong "/", a surrogate, beyond U+10FFFF, U+FFFF: one U+FFFD a byte.
  EXPECT_EQ(svg_escaped("\xC3"), "\xEF\xBF\xBD");
  EXPECT_EQ(svg_escaped("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  for (const char* bytes : {"\xED\xA0\x80", "\xEF\xBF\xBF"}) {
    EXPECT_EQ(svg_escaped(bytes), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  }
  EXPECT_THAT(svg_escaped("\xF4\x90\x80\x80"), Not(HasSubstr("\xF4")));
}

TEST(AllMetrics, DefineEveryNumberOfAnArm) {
  Results results;
  results.arms.emplace_back();
  const nlohmann::json arm = to_json(results).at("arms").at(0);
  std::set<std::string_view> keys;
  for (const Metric& metric : all_metrics()) {
    EXPECT_TRUE(keys.insert(metric.key).second) << "twice: " << metric.key;
    for (const std::string_view text :
         {metric.title, metric.unit, metric.meaning, metric.formula, metric.source}) {
      EXPECT_FALSE(text.empty()) << metric.key;
    }
    EXPECT_TRUE(metric.meaning.ends_with(".")) << metric.key;
    EXPECT_TRUE(metric.record != kArmRecord || arm.contains(metric.key)) << metric.key;
  }
  // What is not a measured number is a name, a verdict, a list or its reason.
  const std::set<std::string> others = {"name",
                                        "toggle",
                                        "level",
                                        "is_baseline",
                                        "is_external",
                                        "reference",
                                        "verdict",
                                        "differing_keys",
                                        "contract",
                                        "is_applicable",
                                        "proof",
                                        "proof_reason",
                                        "proof_checks",
                                        "labels",
                                        "reason",
                                        "peak_source",
                                        "mfu_reason",
                                        "guard_failures",
                                        "step_outliers",
                                        "block_outliers",
                                        "is_within_one_percent",
                                        "is_single_variable",
                                        "has_unequal_noise"};
  for (const auto& [key, value] : arm.items()) {
    EXPECT_NE(keys.contains(key), others.contains(key)) << key;
  }
}

TEST(AllMetrics, HaveTheUnitOfTheirKey) {
  const std::pair<std::string_view, std::string_view> units[] = {
      {"_ns", "ns"},   {"_bytes", "bytes"}, {"_ratio", "1"},  {"_watts", "W"},
      {"_mhz", "MHz"}, {"_celsius", "C"},   {"_token_j", "J"}};
  for (const Metric& metric : all_metrics()) {
    for (const auto& [suffix, unit] : units) {
      EXPECT_TRUE(!metric.key.ends_with(suffix) || metric.unit == unit) << metric.key;
    }
    EXPECT_TRUE(!metric.key.ends_with("_per_s") || metric.unit.ends_with("/s")) << metric.key;
  }
}

}  // namespace
}  // namespace steplens
