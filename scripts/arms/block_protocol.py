"""The block protocol for Python arms, with the standard library alone.

A block is one process: it reads the JSON file named by STEPLENS_BLOCK_CONFIG and writes block.json
into the output folder that stands there. harness/block.h is the reference for every field.
"""

import importlib
import json
import math
import os
import pathlib
import re
import statistics
import sys
import tempfile

SCHEMA_VERSION = 1


class UsageError(Exception):
    """The block config cannot be used. Exit code 2."""


# Modules that a script needs only in its step: it imports them while it waits for its block.
LOADED_AHEAD = []


def wait_for_block():
    """Started before its block, a script gets here with its imports done: it makes the file that
    STEPLENS_START_AHEAD names, and reads the path of its config from standard input. Nothing has
    touched the GPU by then. Ends the process if nobody wants it any more."""
    loaded_file = os.environ.pop("STEPLENS_START_AHEAD", "")
    if not loaded_file:
        return
    for name in LOADED_AHEAD:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # Where it is needed, its absence gets its own sentence.
    pathlib.Path(loaded_file).touch()
    path = sys.stdin.readline().rstrip("\n")
    if not path:
        sys.exit(0)
    os.environ["STEPLENS_BLOCK_CONFIG"] = path


def read_block_config():
    wait_for_block()
    path = os.environ.get("STEPLENS_BLOCK_CONFIG", "")
    if not path:
        raise UsageError("STEPLENS_BLOCK_CONFIG is not set: this program runs one block for "
                         "`steplens matrix`, which names the block's JSON file there")
    try:
        block = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    if not 1 <= block.get("schema_version", 0) <= SCHEMA_VERSION:
        raise UsageError(f"{path}: schema_version={block.get('schema_version')}: this program "
                         f"reads {SCHEMA_VERSION}")
    return block


class StepArrays:
    """Per-step numbers of one phase: lists of equal length, one entry an optimizer step."""

    NAMES = ("step_wall_ns", "step_gpu_ns", "num_positions", "num_valid_tokens", "num_loss_tokens",
             "loss", "grad_norm", "lr", "data_wait_ns")

    def __init__(self):
        for name in self.NAMES:
            setattr(self, name, [])

    def __len__(self):
        return len(self.step_wall_ns)

    def split(self, index):
        """The entries before `index`, and those from it on."""
        parts = StepArrays(), StepArrays()
        for name in self.NAMES:
            values = getattr(self, name)
            setattr(parts[0], name, values[:index])
            setattr(parts[1], name, values[index:])
        return parts

    def to_json(self):
        arrays = {name: getattr(self, name) for name in self.NAMES}
        if not self.step_gpu_ns:
            arrays["step_gpu_ns"] = None  # No GPU.
        return arrays


def new_record(block):
    """A record that says nothing yet but what was asked for."""
    return {
        "schema_version": SCHEMA_VERSION,
        "status": "ok",
        "reason": "",
        "kind": block["kind"],
        "arm": block.get("arm", ""),
        "round_index": block.get("round_index", -1),
        "rank": block.get("rank", 0),
        "world_size": block.get("world_size", 1),
        "config": block["config"],
        "data_hash": "",
        "data_set_hash": "",
        "weights_hash": "",
        "final_weights_hash": "",
        "warmup": StepArrays().to_json(),
        "steps": StepArrays().to_json(),
        "memory": {},
        "samples": {},
        "compile_ns": None,
        "measured_wall_ns": 0,
        "evidence": {},
        "environment": {},
    }


def end_as(record, status, reason):
    """Arrays of a block that failed are no result: they are emptied."""
    record.update(status=status, reason=reason, warmup=StepArrays().to_json(),
                  steps=StepArrays().to_json())
    return record


# An absolute path: a slash after a letter, a dot or another slash stands inside of something else.
ABSOLUTE_PATH = re.compile(r"""(?<![A-Za-z0-9._/-])(?!(?<=:)//)/[^ \t\n"'`()<>\[\]{},;:|]*""")


def without_folders(text):
    """Every absolute path is cut to its last part, as harness/machine_names.h does with the output
    of programs: messages of libraries name folders of this machine."""
    return ABSOLUTE_PATH.sub(
        lambda path: path[0].rstrip("/").rpartition("/")[2] or path[0], text)


def fit_for_bundle(value):
    """What a bundle may hold: null for NaN and infinity, which JSON lacks and which read back as
    NaN, and texts without the folders of this machine."""
    if isinstance(value, dict):
        return {key: fit_for_bundle(item) for key, item in value.items()}
    if isinstance(value, list):
        return [fit_for_bundle(item) for item in value]
    if isinstance(value, str):
        return without_folders(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(value, indent=0):
    """As harness/json_text.h: an indent of 1, a list of numbers, words or nulls on one line."""
    def lines(items, brackets):
        inner = " " * (indent + 1)
        return (f"{brackets[0]}\n" + ",\n".join(inner + item for item in items) +
                f"\n{' ' * indent}{brackets[1]}")

    if isinstance(value, dict) and value:
        return lines((f"{json.dumps(key, ensure_ascii=False)}: {json_text(item, indent + 1)}"
                      for key, item in sorted(value.items())), "{}")
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return lines((json_text(item, indent + 1) for item in value), "[]")
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def write_record(block, record):
    """Writes block.json under a temporary name, syncs, renames: it appears whole or not at all."""
    folder = pathlib.Path(block["output_folder"])
    rank = record["rank"]
    name = "block.json" if rank == 0 else f"block.rank{rank}.json"
    text = json_text(fit_for_bundle(record)) + "\n"
    handle, temporary = tempfile.mkstemp(prefix=name + ".tmp-", dir=folder)
    try:
        os.fchmod(handle, 0o644)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / name)
    except BaseException:
        pathlib.Path(temporary).unlink(missing_ok=True)
        raise
    folder_handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder_handle)
    finally:
        os.close(folder_handle)


def learning_rate_at(config, step_index):
    """Of optimizer step `step_index`, counted from 0, as workloads/catalog/lr_schedule.h has it."""
    peak = config["learning_rate"]
    num_warmup = config["num_lr_warmup_steps"]
    if step_index < num_warmup:
        return peak * (step_index + 1) / num_warmup
    span = max(1, config["num_lr_total_steps"] - num_warmup)
    progress = min(1.0, (step_index - num_warmup) / span)
    floor = peak * config["min_learning_rate_ratio"]
    return floor + 0.5 * (peak - floor) * (1.0 + math.cos(math.pi * progress))


class WarmupDetector:
    """When a run has become steady: WarmupDetector of harness/statistics.h."""

    NUM_QUIET_STEPS = 10  # Without an event: an allocation from the driver, a load, a capture.
    NUM_SLOPE_STEPS = 20
    MAX_SLOPE_RATIO = 0.001  # Of the mean step time, per step.
    # Beyond 3.5 standard deviations, estimated by 1.4826 times the median absolute deviation.
    MAX_DEVIATIONS = 3.5 * 1.482602218505602

    def __init__(self):
        self.step_ns = []
        self.first_quiet_step_index = 0
        self.num_warmup_steps = None  # Until settled.

    def feed(self, step_ns, had_event):
        """Takes the next step; True once settled."""
        if self.num_warmup_steps is not None:
            return True
        self.step_ns.append(step_ns)
        num_steps = len(self.step_ns)
        if had_event:
            self.first_quiet_step_index = num_steps
        if num_steps < self.NUM_SLOPE_STEPS:
            return False
        if num_steps - self.first_quiet_step_index < self.NUM_QUIET_STEPS:
            return False
        window = self.step_ns[-self.NUM_SLOPE_STEPS:]
        if not self._is_level(window):
            return False
        center = statistics.median(window)
        spread = statistics.median(abs(value - center) for value in window)
        slowest = center + max(self.MAX_DEVIATIONS * spread,
                               self.MAX_SLOPE_RATIO * self.NUM_SLOPE_STEPS * center)
        first_clean = max(num_steps - self.NUM_SLOPE_STEPS, self.first_quiet_step_index)
        while self.step_ns[first_clean] > slowest:
            first_clean += 1
        self.num_warmup_steps = first_clean
        return True

    def _is_level(self, window):
        n = len(window)
        mean = sum(window) / n
        indices = [i - (n - 1) / 2 for i in range(n)]
        squares = sum(index * index for index in indices)
        slope = sum(index * (value - mean) for index, value in zip(indices, window)) / squares
        if abs(slope) < self.MAX_SLOPE_RATIO * mean:
            return True
        residuals = sum((value - mean - slope * index)**2
                        for index, value in zip(indices, window))
        return abs(slope) <= 2 * math.sqrt(residuals / (n - 2) / squares)
