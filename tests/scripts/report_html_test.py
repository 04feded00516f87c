#!/usr/bin/env python3
"""report.html of a published bundle: read as strict XML, held against results.json, and rendered by Chromium.

Needs the program in STEPLENS_CLI_PATH. The part that renders is skipped, with a reason, without Chromium.
"""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "reports" / "published" / "h200-gpt2-124m-toggles"
PROGRAM = os.environ.get("STEPLENS_CLI_PATH", "")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
HTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"
MAX_BYTES = 1_000_000

# Of each column's title: the key in results.json, and what one of the printed unit is worth.
MATRIX_COLUMNS = {"tokens/s": "valid_tokens_per_s", "step": "step_wall_ns", "adj. p": "p_adjusted",
                  "peak memory": "peak_allocated_bytes", "MFU": "mfu_causal_ratio"}
UNITS = {"": 1, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "%": 0.01}
VERDICTS = {"-": None, "not applicable": None}


def text_of(element):
    return "".join(element.itertext()).strip()


def parse_number(cell):
    """Value and the weight of its last printed digit."""
    number, _, unit = cell.partition(" ")
    digits = number.replace(",", "")
    decimals = len(digits.partition(".")[2])
    last = 10.0**-decimals
    if "," in number or decimals == 0:  # "300,600": four digits are significant.
        last = 10.0 ** max(0, len(digits) - 4)
    return float(digits) * UNITS[unit], last * UNITS[unit]


def numbers_of(arm):
    """What a cell may show of an arm's row: each number as it is, as a share or a change in percent, and what
    follows from two of them."""
    numbers = []

    def add(value):
        if isinstance(value, dict):
            for inner in value.values():
                add(inner)
        elif isinstance(value, list):
            for inner in value:
                add(inner)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers.extend((value, value * 100, (value - 1) * 100))

    add(arm)
    if arm["energy_per_token_j"]:
        numbers.append(1000 * arm["energy_per_token_j"])
    if arm["peak_flops_per_s"]:
        numbers.append(arm["peak_flops_per_s"] / 1e12)
    if arm["effect_low_ratio"]:  # The half-width of the interval.
        numbers.append(50 * (arm["effect_high_ratio"] - arm["effect_low_ratio"]))
    return numbers


def printed_numbers(cell):
    """(value, weight of the last printed digit) of each number with its unit in a cell."""
    scales = {"us": 1e3, "ms": 1e6, "s": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    pattern = r"(?<![\w.=])([+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)(?: (ns|us|ms|s|B|KiB|MiB|GiB|MHz|W|C|%))?(?![\w.])"
    for number, unit in re.findall(pattern, cell):
        mantissa, _, exponent = number.replace(",", "").partition("e")
        last = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
        if "," in number:  # "300,600": four digits are significant, or it is a count.
            last = 10.0 ** max(0, len(mantissa.lstrip("+-")) - 4)
        scale = scales.get(unit, 1)
        yield float(number.replace(",", "")) * scale, last * scale


def decode_png(data):
    """Width, height and rows of (r, g, b) samples; 8-bit RGB or RGBA without interlace, as Chromium writes."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and colour in (2, 6) and interlace == 0
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    size = 4 if colour == 6 else 3
    raw, rows, before = zlib.decompress(packed), [], bytearray(width * size)
    for y in range(height):
        begin = y * (width * size + 1)
        kind, row = raw[begin], bytearray(raw[begin + 1:begin + 1 + width * size])
        for i in range(len(row)):
            left = row[i - size] if i >= size else 0
            corner = before[i - size] if i >= size else 0
            if kind == 1:
                row[i] = (row[i] + left) & 255
            elif kind == 2:
                row[i] = (row[i] + before[i]) & 255
            elif kind == 3:
                row[i] = (row[i] + (left + before[i]) // 2) & 255
            elif kind == 4:
                guess = left + before[i] - corner
                nearest = min((abs(guess - left), 0, left), (abs(guess - before[i]), 1, before[i]),
                              (abs(guess - corner), 2, corner))[2]
                row[i] = (row[i] + nearest) & 255
        rows.append(row)
        before = row
    return width, height, size, rows


class ReportTest(unittest.TestCase):
    """Writes the report of a copy of the published bundle."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name) / "bundle"
        shutil.copytree(PUBLISHED, cls.folder)
        (cls.folder / "report.html").unlink(missing_ok=True)
        subprocess.run([PROGRAM, "report", cls.folder], check=True, stdout=subprocess.DEVNULL)
        cls.path = cls.folder / "report.html"


class ReportHtml(ReportTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tree = ElementTree.fromstring(cls.path.read_bytes())
        cls.results = json.loads((cls.folder / "results.json").read_text())

    def section(self, key):
        return self.tree.find(f".//{HTML}section[@aria-labelledby='{key}']")

    def tables(self, key):
        """Header and rows of each table of a section."""
        return [[[text_of(cell) for cell in row] for row in table.iter(f"{HTML}tr")]
                for table in self.section(key).iter(f"{HTML}table")]

    def test_is_small_enough_to_send(self):
        self.assertLess(self.path.stat().st_size, MAX_BYTES)

    def test_loads_nothing(self):
        for element in self.tree.iter():
            for name, value in element.attrib.items():
                self.assertNotRegex(value, r"^\s*(https?:|//|data:|javascript:)", f"{element.tag} {name}")
                self.assertFalse(name.startswith("on"), f"{element.tag} {name}")
            self.assertNotIn(element.tag, [HTML + tag for tag in ("script", "link", "img", "iframe", "object")])

    def test_each_picture_has_a_title_and_a_description(self):
        pictures = list(self.tree.iter(f"{SVG}svg"))
        self.assertGreater(len(pictures), 15)
        for picture in pictures:
            self.assertTrue(text_of(picture.find(f"{SVG}title")))
            self.assertTrue(text_of(picture.find(f"{SVG}desc")))

    def test_each_header_has_a_scope(self):
        headers = list(self.tree.iter(f"{HTML}th"))
        self.assertGreater(len(headers), 100)
        for header in headers:
            self.assertIn(header.get("scope"), ("row", "col"))

    def test_numbers_of_the_matrix_are_those_of_results_json(self):
        header, *rows = self.tables("matrix")[0]
        arms = {arm["name"]: arm for arm in self.results["arms"]}
        self.assertEqual(sorted(row[0] for row in rows), sorted(arms))
        num_numbers = 0
        for row in rows:
            arm = arms[row[0]]
            for title, cell in zip(header, row):
                if title in MATRIX_COLUMNS:
                    stored = arm[MATRIX_COLUMNS[title]]
                    if cell == "-":
                        self.assertIsNone(stored, f"{row[0]} {title}")
                        continue
                    value, last = parse_number(cell)
                    self.assertAlmostEqual(value, stored, delta=0.501 * last, msg=f"{row[0]} {title}")
                    num_numbers += 1
                elif title.startswith("effect"):
                    found = re.findall(r"[+-]?\d+(?:\.\d+)?", cell)
                    keys = ("effect_ratio", "effect_low_ratio", "effect_high_ratio")
                    if arm["effect_ratio"] is None:
                        self.assertEqual(cell, "-")
                        continue
                    self.assertEqual(len(found), 3, cell)
                    for key, number in zip(keys, found):
                        last = 10.0 ** -len(number.partition(".")[2])
                        self.assertAlmostEqual(float(number), 100 * (arm[key] - 1), delta=0.501 * last,
                                               msg=f"{row[0]} {key}")
                        num_numbers += 1
                elif title == "verdict":
                    verdict = VERDICTS.get(cell, cell.split(",")[0].replace(" ", "_"))
                    self.assertEqual(verdict, arm["verdict"], row[0])
        self.assertGreater(num_numbers, 100)

    def test_tables_are_those_of_markdown(self):
        markdown = (self.folder / "report.md").read_text()
        expected = []
        for line in markdown.splitlines():
            if line.startswith("| ") and not line.startswith("| ---"):
                cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                expected.append(cells)
        found = [row for section in self.tree.iter(f"{HTML}section") for table in section.iter(f"{HTML}table")
                 for row in [[text_of(cell) for cell in line] for line in table.iter(f"{HTML}tr")]]
        self.assertEqual(found, expected)


    def test_every_number_of_an_arm_is_in_results_json(self):
        """In all tables that have a row an arm and speak of the rounds, not of traces."""
        num_numbers = 0
        for key in ("matrix", "steps", "machine", "utilization", "guards", "sensitivity"):
            header, *rows = self.tables(key)[0]
            for row in rows:
                numbers = numbers_of(next(arm for arm in self.results["arms"] if arm["name"] == row[0]))
                for title, cell in zip(header[1:], row[1:]):
                    for value, last in printed_numbers(cell):
                        self.assertTrue(any(abs(value - number) <= 0.501 * last for number in numbers),
                                        f"{key}, {row[0]}, {title}: {cell}: {value} is no number of results.json")
                        num_numbers += 1
        self.assertGreater(num_numbers, 500)


@unittest.skipUnless(BROWSER, "no Chromium here (Debian: apt-get install chromium)")
class Rendered(ReportTest):
    def chromium(self, *options):
        return subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             f"--user-data-dir={self.folder / 'profile'}", "--enable-logging=stderr", *options,
             self.path.as_uri()], check=True, capture_output=True, timeout=120)

    def test_nothing_is_missing(self):
        result = self.chromium("--dump-dom")
        dom = result.stdout.decode()
        source = self.path.read_text()
        for tag in ("svg", "table", "tr", "td", "h2", "details", "section", "li"):
            count = [len(re.findall(f"<{tag}[ >]", text)) for text in (dom, source)]
            self.assertEqual(count[0], count[1], tag)
        self.assertTrue(dom.rstrip().endswith("</html>"))
        self.assertNotIn("CONSOLE", result.stderr.decode())  # No violated policy, no error.

    def ground(self, name, *options):
        path = self.folder / f"{name}.png"
        self.chromium(f"--screenshot={path}", "--window-size=1200,700", *options)
        width, height, size, rows = decode_png(path.read_bytes())
        samples = [tuple(row[x * size:x * size + 3]) for row in rows[::7] for x in range(0, width, 7)]
        self.assertGreater(len(set(samples)), 20, "an empty page")
        return max(set(samples), key=samples.count)

    def test_is_light_and_dark(self):
        self.assertEqual(self.ground("light", "--blink-settings=preferredColorScheme=1"), (255, 255, 255))
        self.assertEqual(self.ground("dark", "--blink-settings=preferredColorScheme=0"), (0x16, 0x18, 0x1c))

    def test_prints(self):
        path = self.folder / "report.pdf"
        self.chromium(f"--print-to-pdf={path}", "--no-pdf-header-footer")
        data = path.read_bytes()
        self.assertTrue(data.startswith(b"%PDF-"))
        num_pages = len(re.findall(rb"/Type\s*/Page\b", data))
        self.assertGreater(num_pages, 5)
        self.assertLess(num_pages, 60)


if __name__ == "__main__":
    if not PROGRAM or not pathlib.Path(PROGRAM).exists():
        print("skipped: STEPLENS_CLI_PATH names no program")
        sys.exit(77)
    unittest.main()
