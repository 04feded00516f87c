#!/usr/bin/env python3
"""Holds the breakdown of a torch.profiler trace against Holistic Trace Analysis (PyPI: HolisticTraceAnalysis).

  scripts/compare_hta.py trace.json.gz     the trace needs kernels; scripts/profiler_trace.py writes one on a GPU

HTA goes into a virtual environment of its own, ${XDG_CACHE_HOME:-~/.cache}/steplens/hta, which is made if it is
missing. Prints both breakdowns of the device's time (from the first kernel to the end of the last) and the CPU time of
both processes; of HTA also what went into loading the trace and breaking it down, without the start of Python and its
imports. Operations whose launch is not in the trace, which HTA leaves out without a word, are counted and left out for
both. Exit code 1 where a part differs by more than 1 % of the whole, or HTA's process took less than 20 times as
long.
"""

import argparse
import contextlib
import gzip
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# pandas 3 and HTA 0.5 do not go together.
PACKAGES = ("HolisticTraceAnalysis==0.5.0", "pandas==2.2.3", "numpy==2.2.6")
MAX_DIFFERENCE = 0.01
MIN_SPEEDUP = 20

RUN_HTA = """
import json, logging, sys, time, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
begin = time.process_time()
# Otherwise it leaves out the last step.
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="", include_last_profiler_step=True)
row, = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
seconds = time.process_time() - begin
print(json.dumps({"seconds": seconds, "idle_us": float(row["idle_time(us)"]),
                  "compute_us": float(row["compute_time(us)"]), "other_us": float(row["non_compute_time(us)"])}))
"""


def hta_python():
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "steplens" / "hta"
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.exists() or stamp.read_text() != repr(PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES], check=True)
        stamp.write_text(repr(PACKAGES))
    return python


@contextlib.contextmanager
def launched_only(trace):
    """Path of the trace without operations whose launch it does not hold: of itself if there are none."""
    with (gzip.open if trace.endswith(".gz") else open)(trace, "rt", encoding="utf-8") as file:
        document = json.load(file)
    events = document["traceEvents"]

    def correlation(event):
        return event.get("args", {}).get("correlation")

    launches = {correlation(event) for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")}
    on_device = ("kernel", "gpu_memcpy", "gpu_memset")
    alone = [event for event in events if event.get("cat") in on_device and correlation(event) not in launches]
    if not alone:
        yield trace
        return
    print(f"Left out: {len(alone)} operations, {sum(event['dur'] for event in alone) / 1000:.3f} ms, whose launch is not in "
          "the trace (HTA drops them).")
    left_out = {id(event) for event in alone}
    document["traceEvents"] = [event for event in events if id(event) not in left_out]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "launched.json.gz"
        with gzip.open(path, "wt", compresslevel=1, encoding="utf-8") as file:
            json.dump(document, file)
        yield str(path)


def children_cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_hta(python, trace, repetitions):
    runs = []
    for _ in range(repetitions):
        # Otherwise it shortens every kernel to whole microseconds, on average by one.
        environment = {**os.environ, "HTA_DISABLE_NS_ROUNDING": "1"}
        begin = children_cpu_seconds()
        result = subprocess.run([python, "-c", RUN_HTA, trace], capture_output=True, text=True, env=environment)
        if result.returncode != 0:
            sys.exit(f"compare_hta.py: HTA cannot read {trace}:\n{result.stderr[-2000:]}")
        runs.append({**json.loads(result.stdout.splitlines()[-1]), "process": children_cpu_seconds() - begin})
    parts = {"compute": runs[0]["compute_us"], "other work": runs[0]["other_us"], "idle": runs[0]["idle_us"]}
    seconds = [statistics.median(run[key] for run in runs) for key in ("seconds", "process")]
    return {name: 1000 * value for name, value in parts.items()}, seconds


def run_steplens(program, trace, repetitions):
    seconds = []
    for _ in range(repetitions):
        begin = children_cpu_seconds()
        result = subprocess.run([program, "report", trace, "--json"], capture_output=True, text=True, check=True)
        seconds.append(children_cpu_seconds() - begin)
    breakdown = json.loads(result.stdout)
    total = {"compute": 0, "other work": 0, "idle": 0}
    for step in breakdown["steps"]:  # All of them, also the last one, which nothing closes.
        total["compute"] += step["compute_ns"]
        total["other work"] += step["communication_exposed_ns"] + step["copy_exposed_ns"]
        total["idle"] += step["idle_ns"]
    return total, statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--steplens", default=os.environ.get("STEPLENS_CLI_PATH") or shutil.which("steplens") or
                        str(ROOT / "build" / "release" / "bin" / "steplens"))
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    trace = str(pathlib.Path(arguments.trace).resolve(strict=True))

    with launched_only(trace) as path:
        theirs, (inner_seconds, their_seconds) = run_hta(hta_python(), path, arguments.repetitions)
        ours, our_seconds = run_steplens(arguments.steplens, path, arguments.repetitions)
    whole = sum(theirs.values())
    print(f"{'':12}{'steplens':>12}{'HTA':>12}{'difference':>14}")
    worst = 0
    for name in theirs:
        difference = (ours[name] - theirs[name]) / whole
        worst = max(worst, abs(difference))
        print(f"{name:12}{ours[name] / 1e6:9.3f} ms{theirs[name] / 1e6:9.3f} ms{100 * difference:12.3f} %")
    speedup = their_seconds / our_seconds
    print(f"{'CPU time':12}{our_seconds:10.3f} s{their_seconds:10.3f} s{speedup:10.1f} times")
    print(f"{'of it HTA without start-up':36}{inner_seconds:10.3f} s{inner_seconds / our_seconds:10.1f} times")
    if worst > MAX_DIFFERENCE or speedup < MIN_SPEEDUP:
        print(f"NOT as promised: at most {MAX_DIFFERENCE:.0%} apart, and at least {MIN_SPEEDUP} times as fast")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
