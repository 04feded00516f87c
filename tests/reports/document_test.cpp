#include "reports/document.h"

#include <gtest/gtest.h>

namespace steplens {
namespace {

TEST(ToText, AlignsColumnsUnderARule) {
  const Table table{.columns = {{"arm"}, {"tokens/s", Align::kRight}, {"verdict"}},
                    .rows = {{"baseline", "100", "-"}, {"optimizer=fused", "1,030", "FASTER"}}};
  EXPECT_EQ(to_text(table),
            "arm              tokens/s  verdict\n"
            "----------------------------------\n"
            "baseline              100  -\n"
            "optimizer=fused     1,030  FASTER\n");
}

TEST(ToText, ContinuesLongNamesInLinesOfTheirOwn) {
  const Table table{.columns = {{"arm"}, {"n", Align::kRight}},
                    .rows = {{"no_sync=on+accumulation=16", "1"}, {"b", "22"}}};
  EXPECT_EQ(to_text(table, 22),
            "arm                  n\n"
            "----------------------\n"
            "no_sync=on+accumul   1\n"
            "  ation=16\n"
            "b                   22\n");
}

TEST(DropAbsentColumns, KeepsTheFirstAndWhatHasANumber) {
  Table table{.columns = {{"arm"}, {"MFU"}, {"p"}}, .rows = {{"-", "-", "-"}, {"-", "", "0.1"}}};
  drop_absent_columns(table);
  ASSERT_EQ(table.columns.size(), 2U);
  EXPECT_EQ(table.columns[1].header, "p");
  EXPECT_EQ(table.rows[1], (std::vector<std::string>{"-", "0.1"}));
}

TEST(ToMarkdown, EscapesWhatWouldEndACell) {
  const Table table{.columns = {{"a"}, {"b", Align::kRight}}, .rows = {{"x|y", "1\n2"}}};
  EXPECT_EQ(to_markdown(table),
            "| a | b |\n"
            "| --- | ---: |\n"
            "| x\\|y | 1<br>2 |\n");
}

TEST(ToMarkdown, WritesEveryKindOfPart) {
  EXPECT_EQ(to_markdown(Part(Paragraph{"text"})), "text\n\n");
  EXPECT_EQ(to_markdown(Part(BulletList{{"a", "b"}})), "- a\n- b\n\n");
  EXPECT_EQ(to_markdown(Part(CodeBlock{"ls"})), "```\nls\n```\n\n");
  EXPECT_EQ(to_markdown(Part(Image{.file_name = "plot.svg", .description = "a plot"})),
            "![a plot](plot.svg)\n\n");
}

TEST(Wrap, BreaksAtSpacesAndIndentsWhatFollows) {
  EXPECT_EQ(wrap("one two three four", 2, 9), "one two\n  three\n  four");
  EXPECT_EQ(wrap("unbreakable", 2, 4), "unbreakable");
}

TEST(WidthOf, CountsCharactersNotBytes) { EXPECT_EQ(width_of("±1 µs"), 5U); }

}  // namespace
}  // namespace steplens
