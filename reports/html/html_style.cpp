#include "reports/html/html_style.h"

#include <map>
#include <string_view>

#include <fmt/format.h>

#include "reports/memory/memory_account.h"
#include "reports/palette.h"

namespace steplens {
namespace {

// Contrast: text at least 4.5 to 1 on its ground, marks at least 3 to 1, in both schemes.
constexpr std::string_view kStyle = R"css(
:root {
  color-scheme: light dark;
  --ink: #1b1d21; --muted: #555a61; --ground: #ffffff; --panel: #f5f6f8; --rule: #d5d8dd;
  --grid: #e5e5e5; --axis: #333333; --band: #e9e9ec; --link: #0b57a4;
  --good: #005a8c; --bad: #a84300; --same: #00694d; --alarm: #b00020;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e7ea; --muted: #a9aeb6; --ground: #16181c; --panel: #202329; --rule: #3a3e46;
    --grid: #30343b; --axis: #b9bdc4; --band: #2b2f36; --link: #8ab8ee;
    --good: #6db8f0; --bad: #ff9c5a; --same: #4fd1a8; --alarm: #ff8a94;
  }
  /* On the lighter colours that bars have here. */
  svg text[fill="#ffffff"] { fill: #000000; }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  display: grid; grid-template-columns: 15rem minmax(0, 1fr);
}
main { padding: 1.5rem 2rem 4rem; max-width: 76rem; min-width: 0; }
nav { padding: 1.5rem 0 1.5rem 1.5rem; font-size: 0.875rem; position: sticky; top: 0;
  align-self: start; max-height: 100vh; overflow-y: auto; }
nav p { margin: 0 0 0.5rem; font-weight: 600; }
nav ol { margin: 0; padding: 0; list-style: none; }
nav li { margin: 0.35rem 0; line-height: 1.3; }
a { color: var(--link); }
nav a { text-decoration: none; }
nav a:hover, nav a:focus { text-decoration: underline; }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--ground); padding: 0.5rem; z-index: 3; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 0.75rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.75rem; padding-top: 0.75rem;
  border-top: 1px solid var(--rule); }
p, li, dd { max-width: 52rem; overflow-wrap: anywhere; }
.answer { font-size: 1.2rem; font-weight: 600; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.5rem; text-align: left; border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
thead th { background: var(--panel); vertical-align: bottom; white-space: normal; }
thead th a { color: inherit; text-decoration: underline dotted; text-underline-offset: 0.2em; }
tbody th { font-weight: 500; position: sticky; left: 0; background: var(--ground); z-index: 1;
  min-width: 9rem; }
thead th:first-child { position: sticky; left: 0; z-index: 2; }
tbody tr:hover th, tbody tr:hover td { background: var(--panel); }
.n { text-align: right; }
td.good, td.bad, td.same, td.alarm { font-weight: 600; }
td.good { color: var(--good); }
td.bad { color: var(--bad); }
td.same { color: var(--same); }
td.alarm { color: var(--alarm); }
td.unsure { color: var(--muted); }
td:last-child:not(.n) { white-space: normal; }
details { margin: 0.75rem 0; border: 1px solid var(--rule); border-radius: 6px;
  padding: 0.5rem 0.9rem; }
summary { cursor: pointer; }
details[open] > summary { margin-bottom: 0.5rem; }
pre { background: var(--panel); padding: 0.75rem 1rem; border-radius: 6px; overflow-x: auto;
  font-size: 0.8125rem; line-height: 1.45; }
code { font-size: 0.875em; }
dt { font-weight: 600; margin-top: 0.75rem; }
dd { margin: 0 0 0 1.25rem; }
:target { background: var(--band); }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg { max-width: 100%; height: auto; min-width: 40rem; display: block; }
figcaption { color: var(--muted); font-size: 0.875rem; margin-top: 0.35rem; max-width: 52rem; }
svg text.ink { fill: var(--ink); }
svg text.muted { fill: var(--muted); }
svg .ground { fill: var(--ground); }
svg .band { fill: var(--band); }
svg line.grid, svg path.grid { stroke: var(--grid); }
svg line.axis, svg path.axis { stroke: var(--axis); }
svg rect.axis, svg circle.axis { fill: var(--axis); }
@media (max-width: 62rem) {
  body { display: block; }
  nav { position: static; max-height: none; padding: 1rem 1.25rem 0; }
  nav li { display: inline-block; margin-right: 1rem; }
  main { padding: 1rem 1.25rem 3rem; }
  table { font-size: 0.8125rem; }
  th, td { padding: 0.3rem 0.4rem; }
}
@media print {
  :root {
    --ink: #000000; --muted: #444444; --ground: #ffffff; --panel: #f2f2f2; --rule: #bbbbbb;
    --grid: #e5e5e5; --axis: #333333; --band: #ededed; --link: #000000;
    --good: #005a8c; --bad: #a84300; --same: #00694d; --alarm: #b00020;
  }
  @page { size: A4; margin: 14mm; }
  body { display: block; font-size: 10pt; }
  nav, .skip { display: none; }
  main { padding: 0; max-width: none; }
  h2 { break-after: avoid; margin-top: 1.25rem; }
  details { border: 0; padding: 0; }
  details::details-content { content-visibility: visible; display: block; }
  .scroll, pre, figure { overflow: visible; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  table { font-size: 6.5pt; width: 100%; }
  th, td { padding: 0.12rem 0.25rem; white-space: normal; }
  tbody th { position: static; min-width: 0; white-space: nowrap; }
  thead { display: table-header-group; }
  tr, figure, summary { break-inside: avoid; }
  figure svg { min-width: 0; max-height: 245mm; }
  a { text-decoration: none; }
}
)css";

// Every colour of a plot that has another on a dark ground.
std::map<std::string_view, std::string_view> colours_on_dark() {
  std::map<std::string_view, std::string_view> colours;
  const auto add = [&](const Swatch& swatch) {
    if (swatch.colour != swatch.on_dark) colours[swatch.colour] = swatch.on_dark;
  };
  for (std::size_t i = 0; i < kNumKernelCategories; ++i)
    add(swatch_of(static_cast<KernelCategory>(i)));
  for (std::size_t i = 0; i < kNumMemoryOwners; ++i) add(swatch_of(static_cast<MemoryOwner>(i)));
  add(swatch_of(std::optional<Verdict>()));
  return colours;
}

}  // namespace

std::string report_style() {
  std::string style(kStyle);
  style += "@media (prefers-color-scheme: dark) {\n";
  for (const auto& [colour, on_dark] : colours_on_dark()) {
    style += fmt::format(
        "  svg [fill=\"{0}\"] {{ fill: {1}; }}\n  svg [stroke=\"{0}\"] {{ stroke: {1}; }}\n",
        colour, on_dark);
  }
  return style + "}\n";
}

}  // namespace steplens
