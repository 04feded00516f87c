#!/usr/bin/env python3
"""PyTorch eager arm: the training step of steplens-worker, written in Python.

One block of the block protocol (block_protocol.py): same tokens, initial weights, clip and learning
rates as the C++ step, on a CPU or one GPU; of several ranks each is a process, and PyTorch's
DistributedDataParallel joins them (torch_ranks.py). `steplens matrix --arms torch-eager` starts it;
by hand:
  STEPLENS_BLOCK_CONFIG=block_config.json python3 torch_step.py
  STEPLENS_BLOCK_CONFIG=block_config.json torchrun --nproc-per-node 2 torch_step.py

Exit codes: 0 a block.json was written, whatever its status; 2 the config or the data is wrong;
3 a rank failed or lost another one.
"""
import contextlib
import math
import os
import platform
import resource
import sys
import time
import warnings

import block_protocol
import gpu_sampler
import graph_pools
import libraries
import rank_progress
import token_data

try:
    import sympy  # noqa: F401  torch.optim needs it, and would say so only inside a block.
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    import ranges
    import torch_ranks
    import torch_train_step
    from torch_clock import CpuClock, CudaClock
    from torch_data import FEEDS, Batches, to_device
except ModuleNotFoundError as error:
    reason = (f"this Python has no package {error.name}; the arm needs torch, typing-extensions, "
              "sympy and mpmath")
    print(f"torch_step.py: {reason}", file=sys.stderr)
    rank_progress.note_failed_start(reason)
    sys.exit(2)

BACKENDS = {
    "math": SDPBackend.MATH,
    "mem_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
# What an attention kernel says that cannot run.
REFUSALS_OF_ATTENTION = ["No available kernel", "No viable backend"]
block_protocol.LOADED_AHEAD.append("torch._dynamo")  # Optimizers import it in their first step.
WARNINGS = []  # Of this process, in order; see remember_warnings.
FURTHER_REFUSALS = []  # Of the arm that runs this step: functions as why_unsupported is.
BEFORE_BLOCK = []  # Of that arm: functions of the block, called before anything of it is made.
NEEDED_MODULES = []  # Beside torch; their versions go into the environment.


def why_unsupported(config):
    """A whole sentence, or nothing if this arm can run the config."""
    is_cuda = config["device"] == "cuda"
    if is_cuda and not torch.cuda.is_available():
        return "device=cuda: PyTorch finds no GPU here."
    if config.get("compile", "off") != "off":
        return f"compile={config['compile']}: is of steplens-worker alone; take torch-compile."
    if config["graph"] == "on":
        return "graph=on: this arm is eager; it captures no CUDA graph."
    reason = torch_ranks.why_unsupported(config)
    if reason:
        return reason
    if config.get("tracing", "off") != "off":
        return f"tracing={config['tracing']}: take the arm torch-profiler instead."
    if config["instrumentation"] != "full":
        return "instrumentation=minimal: this arm always takes the time of each step."
    if config.get("dropout", 0) != 0:
        return f"dropout={config['dropout']}: this arm would draw other masks."
    if config["injected_spin_ns"] != 0:
        return "injected_spin_ns: this arm has no spin kernel."
    if not is_cuda:
        if config["precision"] not in ("fp32", "bf16"):
            return f"precision={config['precision']}: needs a GPU."
        if config["attention"] not in ("math", "flash"):
            return f"attention={config['attention']}: has no CPU kernel."
        if config["data"] == "pinned":
            return "data=pinned: page-locked memory speeds up copies to a GPU only."
        if config["allocator"] != "default":
            return f"allocator={config['allocator']}: is a setting of the CUDA allocator."
    return ""


def need(*modules, install):
    """This process is an arm that cannot run without `modules`; `install` says how to get them."""
    NEEDED_MODULES.extend(modules)
    FURTHER_REFUSALS.append(lambda config: libraries.why_missing(modules, install))


# ---- Block. ----

# Around the measured steps; torch_profiler_step.py puts torch.profiler here.
make_profiler = contextlib.nullcontext
summarize_profile = None


class BlockRun:
    has_gradients = True  # Else gradient norms are absent.

    def __init__(self, block, record, world=torch_ranks.Alone()):
        self.block = block
        self.config = block["config"]
        self.record = record
        self.world = world
        self.is_cuda = self.config["device"] == "cuda"
        self.device = torch.device("cuda:0" if self.is_cuda else "cpu")
        self.num_warmup = block["num_warmup_steps"]
        self.num_measured = 0 if block["kind"] == "pilot" else block["num_measured_steps"]
        self.num_steps_run = 0
        self.events = []  # By step: whether something happened that is no part of a step.
        self.file = token_data.TokenFile(block["data_path"])
        self.file.check_fits(self.config)

    def run(self):
        num_steps = self.num_warmup + self.num_measured
        if self.block["kind"] in ("trace", "graph-trace", "counters"):
            ranges.enable()
        self.record["environment"] = self.environment()
        batches = Batches(self.file, self.config, self.block["first_data_step_index"], num_steps,
                          self.num_warmup, self.world.rank)
        self.batches = batches
        self.world.join(self.config)
        self.train_step = torch_train_step.make_train_step(
            self.config, self.device, num_steps, self.record["arm"], self.world)
        self.record["weights_hash"] = self.train_step.model.weights_hash()
        if self.is_cuda:
            torch.cuda.empty_cache()
        with sdpa_kernel([BACKENDS[self.config["attention"]]]):
            first = to_device(batches.build(0), self.device)
            self.record["compile_ns"] = self.train_step.prepare(first, batches.num_loss_tokens(0))
            del first
            self.feed = FEEDS[self.config["data"]](batches, num_steps, self.device)
            try:
                phases = self.run_pilot() if self.block["kind"] == "pilot" else self.run_fixed()
            finally:
                self.feed.stop()
        self.record["memory"] = self.memory()
        first = 0
        for name, arrays in zip(("warmup", "steps"), phases):
            self.train_step.fill_log(arrays, first)
            first += len(arrays)
            self.record[name] = arrays.to_json()
        self.fill_data_hashes()
        self.record["final_weights_hash"] = self.train_step.model.weights_hash()
        self.train_step.passes.summarize(self.record, *phases)
        self.check_finite()
        self.world.become_record_of_world(batches, self.num_steps_run, self.record)

    def fill_data_hashes(self):
        batches = self.batches
        self.record["data_hash"] = batches.data_hash(self.num_steps_run)
        self.record["data_set_hash"] = token_data.data_set_hash(
            self.file.tokens, batches.offsets[:self.num_steps_run * batches.num_rows],
            self.config["sequence_length"])

    def run_step(self, arrays, clock):
        num_before = self.num_events()
        self.world.progress.note_step_begin()
        with ranges.named("step"):
            start_ns = time.perf_counter_ns()
            with self.train_step.phase("data"):
                batch = self.feed.next()
            arrays.data_wait_ns.append(time.perf_counter_ns() - start_ns)
            counts = self.batches.counts(self.num_steps_run)
            arrays.num_positions.append(counts[0])
            arrays.num_valid_tokens.append(counts[1])
            arrays.num_loss_tokens.append(counts[2])
            self.train_step.run(batch, self.batches.num_loss_tokens(self.num_steps_run))
        self.events.append(self.num_events() != num_before)
        self.num_steps_run += 1
        return clock.end_step()

    def make_sampler(self):
        """Of this rank's GPU."""
        return gpu_sampler.make(self.record["environment"].get("gpu_uuid"))

    def clock(self):
        return CudaClock() if self.is_cuda else CpuClock()

    def run_fixed(self):
        warmup, steps = block_protocol.StepArrays(), block_protocol.StepArrays()
        clock = self.clock()
        clock.start()
        for _ in range(self.num_warmup):
            self.run_step(warmup, clock)
        warmup.step_wall_ns, warmup.step_gpu_ns, _ = clock.finish()
        self.reset_memory_peaks()
        sampler = self.make_sampler()
        with make_profiler() as profiler:
            clock.start()
            sampler.start()
            for _ in range(self.num_measured):
                self.run_step(steps, clock)
            with ranges.named("fence"):
                steps.step_wall_ns, steps.step_gpu_ns, total_ns = clock.finish()
            self.record["samples"] = sampler.stop()
        if summarize_profile is not None:
            self.record["evidence"]["profiler"] = summarize_profile(profiler, self.num_measured)
        self.record["measured_wall_ns"] = total_ns
        detector = block_protocol.WarmupDetector()
        for step_ns, had_event in zip(warmup.step_wall_ns + steps.step_wall_ns, self.events):
            detector.feed(step_ns, had_event)
        detected = detector.num_warmup_steps
        self.record["evidence"]["detected_warmup_steps"] = detected
        self.record["evidence"]["warmup_disagrees"] = detected is None or detected > self.num_warmup
        return warmup, steps

    def run_pilot(self):
        """Warm-up until the detector has settled; the steps from its end on are the clean ones."""
        everything = block_protocol.StepArrays()
        detector = block_protocol.WarmupDetector()
        clock = self.clock()
        limit_ns = self.block.get("max_pilot_s", 60) * 1e9
        num_fed = elapsed_ns = 0
        self.reset_memory_peaks()
        clock.start()
        for _ in range(self.num_warmup):
            step_ns = self.run_step(everything, clock)
            is_enough = False
            if step_ns is not None:
                elapsed_ns += step_ns
                num_fed += 1
                is_enough = (detector.feed(step_ns, self.events[num_fed - 1]) or
                             elapsed_ns > limit_ns)
            if self.world.as_rank_0_says(int(is_enough)):
                break
        everything.step_wall_ns, everything.step_gpu_ns, _ = clock.finish()
        is_settled = detector.num_warmup_steps is not None
        num_warmup = self.world.as_rank_0_says(
            detector.num_warmup_steps if is_settled else len(everything) // 2)
        self.record["evidence"]["detected_warmup_steps"] = num_warmup
        self.record["evidence"]["warmup_settled"] = is_settled
        phases = everything.split(num_warmup)
        self.record["measured_wall_ns"] = sum(phases[1].step_wall_ns)
        return phases

    def num_events(self):
        """Trips of the allocator to the driver, and compilations: neither belongs to a step."""
        return self.num_allocator_events() + self.train_step.passes.num_compilations()

    def num_allocator_events(self):
        if not self.is_cuda:
            return 0
        stats = torch.cuda.memory_stats_as_nested_dict(self.device)
        return stats["num_device_alloc"] + stats["num_device_free"] + stats["num_alloc_retries"]

    def reset_memory_peaks(self):
        if self.is_cuda:
            torch.cuda.reset_peak_memory_stats(self.device)
            return
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # Resets the peak resident set of this process (proc(5)).
        except OSError:
            pass  # The peak then includes the warm-up.

    def memory(self):
        if not self.is_cuda:
            return {"peak_rss_bytes": peak_rss_bytes(), "peak_allocated_bytes": None,
                    "absent_reason": "the CPU allocator keeps no peak; see peak_rss_bytes"}
        stats = torch.cuda.memory_stats(self.device)
        free_bytes, total_bytes = torch.cuda.mem_get_info(self.device)
        hidden_bytes = graph_pools.hidden_bytes(torch.cuda.memory_snapshot())
        return {
            "peak_allocated_bytes": stats["allocated_bytes.all.peak"] + hidden_bytes,
            "peak_active_bytes": stats["active_bytes.all.peak"] + hidden_bytes,
            "graph_pool_hidden_bytes": hidden_bytes,
            "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
            "num_alloc_retries": stats["num_alloc_retries"],
            "num_ooms": stats["num_ooms"],
            "num_device_allocs": stats["num_device_alloc"],
            "driver_used_bytes": total_bytes - free_bytes,
            "driver_total_bytes": total_bytes,
            "unaccounted_bytes": total_bytes - free_bytes - stats["reserved_bytes.all.current"],
        }

    def environment(self):
        result = {
            "torch_version": torch.__version__,
            "python_version": platform.python_version(),
            "num_threads": torch.get_num_threads(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        } | libraries.versions(NEEDED_MODULES)
        if self.is_cuda:
            properties = torch.cuda.get_device_properties(self.device)
            result |= {
                "cuda_version": torch.version.cuda,
                "cudnn_version": torch.backends.cudnn.version(),
                "gpu_name": properties.name,
                "gpu_uuid": f"GPU-{properties.uuid}",
                "compute_capability": f"{properties.major}.{properties.minor}",
                "num_multiprocessors": properties.multi_processor_count,
            }
        return result

    def check_finite(self):
        steps = self.record["steps"]
        for i, (loss, norm) in enumerate(zip(steps["loss"], steps["grad_norm"])):
            # fp16 starts with a loss scale that overflows on purpose; its gradient norm may then.
            is_norm_wrong = (self.has_gradients and not math.isfinite(norm) and
                             self.config["precision"] != "fp16")
            if not math.isfinite(loss) or is_norm_wrong:
                self.record["status"] = "nan"
                self.record["reason"] = f"measured step {i}: loss {loss}, gradient norm {norm}"
                return


def peak_rss_bytes():
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def prepare_process(config, gpu_uuid):
    """Settings of the whole process, before the first CUDA call."""
    if gpu_uuid:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu_uuid
    torch.set_num_threads(config["num_threads"])
    torch.set_num_interop_threads(1)
    torch.set_float32_matmul_precision("high" if config["precision"] == "tf32" else "highest")
    if config["allocator"] == "expandable_segments":
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")


def last_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__


def remember_warnings():
    """PyTorch warns of the reasons why an attention kernel cannot run: kept, and shown as ever."""
    show = warnings.showwarning

    def remember(message, *args, **kwargs):
        WARNINGS.append(" ".join(str(message).split(" (Triggered internally")[0].split()))
        show(message, *args, **kwargs)

    warnings.showwarning = remember


def attention_name(config):
    return f"attention={config['attention']}"


def attention_refusal(config, text):
    """One line with what the dispatcher looks at and its reasons, which a library may give in the
    lines after the first."""
    reasons = "; ".join([" ".join(text.split()), *WARNINGS])[:900]
    return (f"{attention_name(config)} cannot run with precision={config['precision']}, "
            f"head_dim {config['head_dim']}, {config['num_heads']} heads over "
            f"{config['num_kv_heads']} key-value heads, a causal mask and sequence_length "
            f"{config['sequence_length']}: {reasons}")


def run_block(block, world=torch_ranks.Alone()):
    """The whole record of a rank; of rank 0 that of the world. Raises DataError for a token file
    that cannot be used, UsageError for ranks that cannot meet as their launcher says."""
    config = block["config"]
    record = block_protocol.new_record(block)
    for why in (why_unsupported, *FURTHER_REFUSALS):
        if reason := why(config):
            return block_protocol.end_as(record, "unsupported", reason)
    try:
        for prepare in BEFORE_BLOCK:
            prepare(block)
        BlockRun(block, record, world).run()
    except (token_data.DataError, block_protocol.UsageError):
        raise
    except torch.OutOfMemoryError as error:
        return block_protocol.end_as(record, "oom", str(error).splitlines()[0])
    except MemoryError:
        return block_protocol.end_as(record, "oom", "the host ran out of memory")
    except Exception as error:
        text = str(error)
        if any(words in text for words in REFUSALS_OF_ATTENTION):
            return block_protocol.end_as(record, "unsupported", attention_refusal(config, text))
        is_oom = "out of memory" in text or "can't allocate memory" in text
        return block_protocol.end_as(record, "oom" if is_oom else "crash",
                                     world.reason_of(error, last_line(error)))
    return record


def main(doc=__doc__):
    """Runs the block of this process; `doc` is what --help prints."""
    if len(sys.argv) > 1:
        is_asked = sys.argv[1] in ("-h", "--help")
        print(doc.strip(), file=sys.stdout if is_asked else sys.stderr)
        return 0 if is_asked else 2
    world = torch_ranks.Alone()
    try:
        remember_warnings()
        block = block_protocol.read_block_config()
        world = torch_ranks.find_world(block)
        device = block.get("device") or {}
        gpu_uuid = device.get("id", "") if isinstance(device, dict) and world.size == 1 else ""
        prepare_process(block["config"], gpu_uuid)
        record = run_block(block, world)
        block_protocol.write_record(block, record)
        world.end(record)
    except (block_protocol.UsageError, token_data.DataError) as error:
        print(f"torch_step.py: {error}", file=sys.stderr)
        world.progress.note_end(rank_progress.FAILED, str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
