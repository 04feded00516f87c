#!/usr/bin/env python3
"""External arm: the step of torch_step.py under torch.profiler (CPU and CUDA activities).

Beside the arm torch-eager it says what torch.profiler costs; its block.json also holds how many
kernels it saw a step and their time (evidence.profiler), to compare with a trace of Steplens.
"""

import contextlib
import os
import sys

import torch_ranks
import torch_step
from torch import profiler as torch_profiler
from torch.autograd import DeviceType


IS_TRACED = bool(os.environ.get("STEPLENS_TRACE_OUT"))  # CUPTI serves one profiler at a time.


def make_profiler():
    if IS_TRACED:
        return contextlib.nullcontext()
    activities = [torch_profiler.ProfilerActivity.CPU]
    if torch_step.torch.cuda.is_available():
        activities.append(torch_profiler.ProfilerActivity.CUDA)
    return torch_profiler.profile(activities=activities)


def summarize(profile, num_steps):
    """Kernels, copies and memsets a step, and their summed time, ns."""
    if IS_TRACED:
        return {"absent_reason": "Steplens traces this block, and CUPTI serves one profiler"}
    events = [event for event in profile.events()
              if event.device_type == DeviceType.CUDA and not event.is_user_annotation]
    kernels = [event for event in events if not event.name.startswith(("Memcpy", "Memset"))]
    nanoseconds = sum(event.time_range.elapsed_us() for event in kernels) * 1000
    return {"num_kernels": len(kernels) / num_steps,
            "num_copies": (len(events) - len(kernels)) / num_steps,
            "kernel_ns": nanoseconds / num_steps}


if __name__ == "__main__":
    torch_step.FURTHER_REFUSALS.append(torch_ranks.why_only_one_rank)
    torch_step.make_profiler = make_profiler
    torch_step.summarize_profile = summarize
    sys.exit(torch_step.main(__doc__))
