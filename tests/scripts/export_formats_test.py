#!/usr/bin/env python3
"""What `steplens export` writes, read by the rules of those who read it: MLPerf's log lines, Google Benchmark's JSON
(by its own compare.py where Debian's libbenchmark-tools is installed), CSV, the queries that Nsight Systems documents
for its SQLite, and Chrome JSON by a strict reader (and by a trace_processor binary where STEPLENS_TRACE_PROCESSOR
names one).

Needs the program in STEPLENS_CLI_PATH.
"""

import csv
import importlib.util
import json
import os
import pathlib
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLE = ROOT / "reports" / "published" / "h200-gpt2-124m-toggles"
TRACE = BUNDLE / "blocks" / "0106-trace-baseline" / "trace.slt"
PROGRAM = os.environ.get("STEPLENS_CLI_PATH", "")
COMPARE = pathlib.Path("/usr/share/benchmark/compare.py")
TRACE_PROCESSOR = os.environ.get("STEPLENS_TRACE_PROCESSOR", "")


# compare.py imports SciPy for its U test and for a geometric mean; where there is none, this stands in for the latter.
SCIPY = """
import numpy
def gmean(values):
    return numpy.exp(numpy.log(values).mean(axis=0))
def mannwhitneyu(*_, **__):
    raise NotImplementedError
"""


def has_module(name):
    return importlib.util.find_spec(name) is not None


class ExportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)

    def export(self, source, name, *options):
        path = self.folder / name
        subprocess.run([PROGRAM, "export", source, "--out", path, *options], check=True, stdout=subprocess.DEVNULL)
        return path


class Bundle(ExportTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.results = json.loads((BUNDLE / "results.json").read_text())
        cls.arms = {arm["name"]: arm for arm in cls.results["arms"]}
        manifest = json.loads((BUNDLE / "manifest.json").read_text())
        cls.blocks = {}
        for entry in manifest["blocks"]:
            if entry["kind"] == "throughput" and entry["status"] == "ok" and not entry["is_superseded"]:
                block = json.loads((BUNDLE / "blocks" / entry["folder"] / "block.json").read_text())
                cls.blocks.setdefault(entry["arm"], []).append(block["steps"]["step_wall_ns"])

    def test_mllog_has_what_its_parser_asks_for(self):
        token = ":::MLLOG "
        lines = self.export(BUNDLE, "mllog.txt", "--format", "mllog").read_text().splitlines()
        entries = []
        for line in lines:
            self.assertTrue(line.startswith(token), line)
            entry = json.loads(line[len(token):])
            self.assertEqual(list(entry), ["namespace", "time_ms", "event_type", "key", "value", "metadata"])
            self.assertIsInstance(entry["time_ms"], int)
            self.assertIn(entry["event_type"], ("POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"))
            self.assertIn("lineno", entry["metadata"])
            self.assertIn("file", entry["metadata"])
            entries.append(entry)
        self.assertEqual([entry["time_ms"] for entry in entries], sorted(entry["time_ms"] for entry in entries))
        keys = [entry["key"] for entry in entries]
        self.assertEqual(keys.count("run_start"), 1)
        self.assertEqual(keys.count("block_start"), keys.count("block_stop"))
        values = {entry["key"]: entry["value"] for entry in entries}
        self.assertEqual(values["global_batch_size"], 32)
        self.assertEqual(values["opt_base_learning_rate"], 0.0003)
        rates = [entry["value"]["throughput"] for entry in entries
                 if entry["key"] == "tracked_stats" and entry["metadata"]["arm"] == "baseline"]
        self.assertEqual(len(rates), len(self.blocks["baseline"]))
        self.assertAlmostEqual(statistics.geometric_mean(rates), self.arms["baseline"]["valid_tokens_per_s"], delta=1e-3)
        effects = {entry["metadata"]["arm"]: entry["value"] for entry in entries
                   if entry["key"] == "steplens_effect_ratio"}
        self.assertEqual(effects, {name: arm["effect_ratio"] for name, arm in self.arms.items() if arm["effect_ratio"]})

    def benchmark(self, name="benchmark.json"):
        return self.export(BUNDLE, name, "--format", "benchmark")

    def test_benchmark_json_has_the_blocks_as_repetitions(self):
        document = json.loads(self.benchmark().read_text())
        runs = [row for row in document["benchmarks"] if row["run_type"] == "iteration"]
        of_arm = [row for row in runs if row["run_name"] == "gpt2-124m/attention=cudnn"]
        means = [statistics.fmean(steps) for steps in self.blocks["attention=cudnn"]]
        self.assertEqual(len(of_arm), len(means))
        for row, mean in zip(sorted(of_arm, key=lambda row: row["real_time"]), sorted(means)):
            self.assertAlmostEqual(row["real_time"], mean, delta=1e-6 * mean)
            self.assertEqual(row["time_unit"], "ns")
        aggregates = {row["aggregate_name"]: row for row in document["benchmarks"]
                      if row["run_type"] == "aggregate" and row["run_name"] == "gpt2-124m/attention=cudnn"}
        self.assertAlmostEqual(aggregates["mean"]["real_time"], statistics.fmean(means), delta=1)
        self.assertAlmostEqual(aggregates["stddev"]["real_time"], statistics.stdev(means), delta=1)

    @unittest.skipUnless(COMPARE.exists(), "no compare.py here (Debian: apt-get install libbenchmark-tools)")
    @unittest.skipUnless(has_module("numpy"), "compare.py needs numpy, which this Python lacks")
    def test_google_benchmarks_own_tool_reads_it(self):
        path, differences = self.benchmark(), self.folder / "differences.json"
        environment = dict(os.environ)
        if not has_module("scipy"):
            (self.folder / "scipy").mkdir(exist_ok=True)
            (self.folder / "scipy" / "__init__.py").touch()
            (self.folder / "scipy" / "stats.py").write_text(SCIPY)
            environment["PYTHONPATH"] = str(self.folder)
        # Two arms of one file, as its filters pick them.
        subprocess.run([sys.executable, "-B", COMPARE, "--no-utest", "-d", differences, "filters", path,
                        "gpt2-124m/baseline", "gpt2-124m/attention=math"],
                       check=True, capture_output=True, env=environment)
        rows = {row["name"]: row for row in json.loads(differences.read_text())}
        mean, = (row for name, row in rows.items() if name.endswith("_mean"))
        baseline, contender = (statistics.fmean(statistics.fmean(steps) for steps in self.blocks[arm])
                               for arm in ("baseline", "attention=math"))
        self.assertAlmostEqual(mean["measurements"][0]["time"], contender / baseline - 1, delta=1e-9)

    def test_csv_has_each_value_of_the_arms(self):
        with open(self.export(BUNDLE, "results.csv", "--format", "csv"), newline="") as stream:
            rows = list(csv.DictReader(stream))
        self.assertEqual([row["name"] for row in rows], [arm["name"] for arm in self.results["arms"]])
        for row, arm in zip(rows, self.results["arms"]):
            for key, value in arm.items():
                if isinstance(value, (dict, list)):
                    self.assertNotIn(key, row)
                elif value is None:
                    self.assertEqual(row[key], "", key)
                elif isinstance(value, bool):
                    self.assertEqual(row[key], str(value).lower(), key)
                elif isinstance(value, (int, float)):
                    self.assertEqual(float(row[key]), value, key)
                else:
                    self.assertEqual(row[key], value, key)

    def test_another_format_is_refused_by_name(self):
        result = subprocess.run([PROGRAM, "export", BUNDLE, "--format", "chrome"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, "csv.mllog.benchmark")


class Chrome(ExportTest):
    """A reader that takes nothing on trust."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.folder / "trace.json"
        subprocess.run([PROGRAM, "export", TRACE, "--out", cls.path], check=True, stdout=subprocess.DEVNULL)

        def unique(pairs):
            keys = [key for key, _ in pairs]
            assert len(keys) == len(set(keys)), f"a key twice: {keys}"
            return dict(pairs)

        def refuse(word):
            raise ValueError(f"{word} is no JSON")

        # Numbers stay text: doubles would hide what is lost.
        cls.document = json.loads(cls.path.read_bytes().decode("utf-8", "strict"), object_pairs_hook=unique,
                                  parse_float=str, parse_constant=refuse)
        cls.events = cls.document["traceEvents"]

    @staticmethod
    def ns_of(us):
        whole, _, decimals = str(us).partition(".")
        assert len(decimals) <= 3 and "e" not in str(us).lower(), us
        return int(whole) * 1000 + int(decimals.ljust(3, "0"))

    def test_numbers_are_integers_or_three_decimals(self):
        for event in self.events:
            self.assertIsInstance(event["pid"], int)
            if "tid" in event:
                self.assertIsInstance(event["tid"], int)
            self.assertGreaterEqual(self.ns_of(event["ts"]), 0)
            if event["ph"] == "X":
                self.assertGreaterEqual(self.ns_of(event["dur"]), 0)
                self.assertEqual(self.ns_of(event["dur"]), event["args"]["duration_ns"])

    def test_slices_of_a_track_nest(self):
        tracks = {}
        for event in self.events:
            if event["ph"] == "X":
                start = self.ns_of(event["ts"])
                tracks.setdefault((event["pid"], event["tid"]), []).append((start, start + self.ns_of(event["dur"])))
        self.assertGreater(len(tracks), 3)
        for track, slices in tracks.items():
            open_ends = []
            for start, end in sorted(slices, key=lambda one: (one[0], -one[1])):
                while open_ends and open_ends[-1] <= start:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(end, open_ends[-1], track)
                open_ends.append(end)

    def test_each_track_has_a_name_and_each_arrow_two_ends(self):
        named = {(event["pid"], event.get("tid")) for event in self.events
                 if event["ph"] == "M" and event["name"] == "thread_name"}
        used = {(event["pid"], event["tid"]) for event in self.events if event["ph"] == "X"}
        self.assertLessEqual(used, named)
        arrows = {}
        for event in self.events:
            if event["ph"] in "sf":
                arrows.setdefault(event["id"], []).append(event)
        self.assertGreater(len(arrows), 100)
        for ends in arrows.values():
            self.assertEqual([end["ph"] for end in ends], ["s", "f"])
            self.assertEqual(ends[1]["bp"], "e")

    def summary(self, path):
        """Counts, sums and order of what `steplens export --format csv` has of a trace."""
        with open(self.export(path, "summary.csv"), newline="") as stream:
            rows = list(csv.DictReader(stream))
        order = [(row["start_ns"], row["name"]) for row in rows]
        total = sum(int(row["duration_ns"]) for row in rows)
        by_name = {}
        for row in rows:
            count, sum_ns = by_name.get(row["name"], (0, 0))
            by_name[row["name"]] = (count + 1, sum_ns + int(row["duration_ns"]))
        return len(rows), total, by_name, sorted(order)

    def test_a_round_trip_keeps_counts_sums_and_order(self):
        before = self.summary(TRACE)
        for name in ("trace.json", "trace.sqlite"):
            exported = self.export(TRACE, name)
            back = self.folder / f"{name}.slt"
            subprocess.run([PROGRAM, "import", exported, "--out", back], check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(self.summary(back), before, name)

    @unittest.skipUnless(TRACE_PROCESSOR and os.access(TRACE_PROCESSOR, os.X_OK),
                         "STEPLENS_TRACE_PROCESSOR names no trace_processor binary")
    def test_trace_processor_reads_all_of_it(self):
        query = self.folder / "query.sql"
        query.write_text("SELECT COUNT(*), SUM(dur) FROM slice WHERE category = 'kernel';\n"
                         "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0;\n")
        result = subprocess.run([TRACE_PROCESSOR, "-q", query, self.path], check=True, capture_output=True, text=True)
        kernels = [event for event in self.events if event.get("cat") == "kernel"]
        total = sum(self.ns_of(event["dur"]) for event in kernels)
        self.assertIn(f"{len(kernels)},{total}", result.stdout.replace(" ", ""))
        self.assertEqual(len(result.stdout.strip().splitlines()), 3, result.stdout)


class Nsight(ExportTest):
    """Queries as Nsight Systems documents them for its SQLite schema."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        path = cls.folder / "trace.sqlite"
        subprocess.run([PROGRAM, "export", TRACE, "--out", path], check=True, stdout=subprocess.DEVNULL)
        cls.database = sqlite3.connect(path)
        cls.addClassCleanup(cls.database.close)

    def test_the_database_is_sound(self):
        self.assertEqual(self.database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])

    def test_kernels_join_their_launch_by_correlation_id(self):
        launches = self.database.execute("""
            SELECT r.correlationId, names.value, k.start - r.end FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r
            JOIN CUPTI_ACTIVITY_KIND_KERNEL AS k ON r.correlationId = k.correlationId
            JOIN StringIds AS names ON names.id = r.nameId""").fetchall()
        kernels, = self.database.execute("SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        self.assertGreater(kernels, 5000)
        self.assertEqual(len(launches), kernels)

    def test_process_and_thread_come_out_of_the_global_id(self):
        self.database.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME ADD COLUMN PID INT")
        self.database.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME ADD COLUMN TID INT")
        self.database.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET PID = globalTid / 0x1000000 % 0x1000000, "
                              "TID = globalTid % 0x1000000")
        rows = self.database.execute("SELECT DISTINCT PID, TID FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchall()
        self.assertTrue(all(pid > 0 and tid > 0 for pid, tid in rows), rows)

    def test_ten_longest_calls_that_launched_kernels(self):
        rows = self.database.execute("""
            SELECT (r.end - r.start) AS api_ns, (k.end - k.start) AS gpu_ns, names.value
            FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r
              ON k.correlationId = r.correlationId
            LEFT JOIN StringIds AS names ON k.shortName = names.id
            ORDER BY gpu_ns DESC LIMIT 10""").fetchall()
        self.assertEqual(len(rows), 10)
        self.assertTrue(all(api > 0 and gpu > 0 and name for api, gpu, name in rows))

    def test_ranges_sum_as_in_its_nvtx_statistics(self):
        rows = dict(self.database.execute("""
            WITH ranges AS (SELECT COALESCE(n.text, s.value) AS name, n.end - n.start AS duration
                            FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON n.textId = s.id
                            WHERE n.eventType = 59)
            SELECT name, COUNT(*) FROM ranges GROUP BY name""").fetchall())
        self.assertEqual(rows["step"], 5)
        self.assertEqual(rows["forward"], 5)
        self.assertEqual(rows["mlp"] % (12 * 5), 0)


if __name__ == "__main__":
    if not PROGRAM or not pathlib.Path(PROGRAM).exists():
        print("skipped: STEPLENS_CLI_PATH names no program")
        sys.exit(77)
    unittest.main()
