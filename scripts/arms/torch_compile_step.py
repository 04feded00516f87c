#!/usr/bin/env python3
"""External arms torch-compile*: torch_step.py with the loss of a micro-batch under torch.compile.

The rest of the arm's name is the mode: torch-compile, torch-compile-reduce-overhead,
torch-compile-max-autotune. What is compiled is embedding to loss sum and, by autograd, its
backward pass; clip and optimizer stay as torch_step.py has them.

Compilation is done on the first batch before the first step (compile_ns of block.json), with
Inductor's cache in TORCHINDUCTOR_CACHE_DIR or, without it, in ~/.cache/steplens/inductor; what
still compiles in a step is counted (evidence.compile). --help prints this text.
"""

import os
import pathlib
import sys
import time

import block_protocol
import torch_step
import torch_train_step
from libraries import one_line
from torch_step import torch

ARM_PREFIX = "torch-compile-"
MODES = ("default", "reduce-overhead", "max-autotune")
# CUDA-graph trees run a graph once to warm up, record it on the second run, replay from the third.
NUM_PREPARING_PASSES = 3


def cache_folder(config):
    """PyTorch's cache of compiled functions does not look at the attention kernel that is allowed,
    so each has a folder of its own."""
    root = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if not root:
        cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        root = pathlib.Path(cache) / "steplens" / "inductor"
    return str(pathlib.Path(root) / f"{config['device']}-{config['attention']}")


def mode_of(arm):
    mode = arm.removeprefix(ARM_PREFIX)
    return mode if mode in MODES else "default"


def compile_without_workers(block):
    """Inductor's pool of compile workers starts while a block runs and is waited for at its end, for
    about 10 s. A block that finds its programs in the cache, which its pilot filled, needs none;
    where shapes change and steps compile, it keeps them."""
    folder = pathlib.Path(cache_folder(block["config"])) / "fxgraph"
    is_filled = folder.is_dir() and any(folder.iterdir())
    if block["kind"] == "pilot" or block["config"]["batching"] != "packed" or not is_filled:
        return
    try:
        import torch._inductor.config as inductor_config
        inductor_config.compile_threads = 1
    except (ImportError, AttributeError):
        pass  # Another version of PyTorch: it only takes longer.


def why_not_compiled(_config):
    """What torch.compile needs beyond torch itself, in words; empty if it is all there."""
    try:
        import torch._inductor.compile_fx  # noqa: F401
    except ImportError as error:
        return (f"this Python has no package {error.name}, which torch.compile needs "
                "(pip install torch brings it)")
    if torch.cuda.is_available():
        try:
            import triton  # noqa: F401
        except ImportError:
            return "this Python has no package triton, which torch.compile needs on a GPU"
    return ""


class CompiledPass(torch_train_step.EagerPass):
    def __init__(self, config, model, mode, world):
        self.mode = mode
        model.has_separate_products = True
        loss_sum = world.distribute(config, model)
        for tensor in (*model.parameters, model.cos_TD, model.sin_TD):
            # As parameters of a torch.nn.Module are: CUDA graphs then read them where they are.
            torch._dynamo.mark_static_address(tensor)
        # Around DDP, as PyTorch documents it: its DDPOptimizer then cuts the graph at the buckets.
        self.loss_sum = torch.compile(loss_sum, mode=None if mode == "default" else mode)
        self.num_prepared = 0
        self.step_compilations = []  # Compilations before each step, by step.

    def prepare(self, run_pass, num_passes):
        start_ns = time.perf_counter_ns()
        for _ in range(NUM_PREPARING_PASSES):
            run_pass()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        compile_ns = time.perf_counter_ns() - start_ns
        for _ in range(num_passes - NUM_PREPARING_PASSES):
            run_pass()
        self.num_prepared = self.num_compilations()
        self.step_compilations.clear()
        return compile_ns

    def begin_step(self):
        # What the compiled function returned in the last step may be overwritten from here on.
        torch.compiler.cudagraph_mark_step_begin()
        self.step_compilations.append(self.num_compilations())

    def num_compilations(self):
        return len(torch._dynamo.utils.get_compilation_metrics())

    def summarize(self, record, warmup, steps):
        compilations = torch._dynamo.utils.get_compilation_metrics()
        counters = torch._dynamo.utils.counters
        graph_breaks = counters["graph_break"]
        reasons = [metrics.recompile_reason for metrics in compilations if metrics.recompile_reason]
        ends = self.step_compilations[1:] + [len(compilations)]
        num_by_step = [end - begin for begin, end in zip(self.step_compilations, ends)]
        record["evidence"]["compile"] = {
            "mode": self.mode,
            "num_compile_threads": getattr(torch._inductor.config, "compile_threads", None),
            "num_compilations_before_steps": self.num_prepared,
            "num_compilations_in_warmup": sum(num_by_step[:len(warmup)]),
            "num_compilations_in_steps": sum(num_by_step[len(warmup):]),
            "num_recompilations": len(reasons),
            "recompilation_reasons": sorted({one_line(reason) for reason in reasons}),
            # Above its limit of recompilations PyTorch goes on without compiling.
            "failures": sorted({one_line(metrics.fail_reason) for metrics in compilations
                                if metrics.fail_type}),
            "num_graph_breaks": sum(graph_breaks.values()),
            "graph_break_reasons": sorted(one_line(reason) for reason in graph_breaks),
            "num_cache_hits": counters["inductor"]["fxgraph_cache_hit"] +
                              counters["aot_autograd"]["autograd_cache_hit"],
            "num_cache_misses": counters["inductor"]["fxgraph_cache_miss"],
            "num_skipped_graphs": counters["inductor"]["cudagraph_skips"],
            "spikes": spikes(num_by_step, warmup.step_wall_ns + steps.step_wall_ns),
        }


def spikes(num_by_step, wall_ns):
    """What compilation inside of steps cost: each such step beside the median of the others."""
    clean = sorted(ns for ns, num in zip(wall_ns, num_by_step) if num == 0)
    if not clean:
        return {"absent_reason": "every step compiled"}
    usual_ns = clean[len(clean) // 2]
    compiling = [{"step_index": i, "num_compilations": num, "step_wall_ns": ns}
                 for i, (ns, num) in enumerate(zip(wall_ns, num_by_step)) if num]
    lost_ns = sum(max(0, step["step_wall_ns"] - usual_ns) for step in compiling)
    return {"steps": compiling, "usual_step_wall_ns": usual_ns, "lost_ns": lost_ns,
            "lost_ratio": lost_ns / sum(wall_ns)}


def make_pass(config, model, arm, world):
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache_folder(config)
    return CompiledPass(config, model, mode_of(arm), world)


if __name__ == "__main__":
    torch_train_step.make_pass = make_pass
    torch_step.FURTHER_REFUSALS.append(why_not_compiled)
    torch_step.BEFORE_BLOCK.append(compile_without_workers)
    block_protocol.LOADED_AHEAD.append("torch._inductor.compile_fx")
    sys.exit(torch_step.main(__doc__))
