#!/usr/bin/env python3
"""External arm deepspeed: the step of torch_step.py owned by DeepSpeed's engine, ZeRO stage 0.

The model, data, initial weights, AdamW and learning rates are torch-eager's; accumulation, clip,
autocast (`torch_autocast`, over fp32 weights) and the order of a step are the engine's. It runs on
one rank, in a process group of one. Needs deepspeed (DS_BUILD_OPS=0 pip install deepspeed). --help
prints this text.
"""

import contextlib
import os
import sys

import token_data
import torch_ranks
import torch_step
import torch_train_step
from torch_step import torch


def engine_config(config):
    """What DeepSpeed is told; all else are its defaults."""
    num_rows = token_data.effective_global_batch(config) // config["accumulation"]
    dtype = torch_train_step.AUTOCAST_TYPES.get(config["precision"])
    autocast = {"enabled": dtype is not None}
    if dtype is not None:
        autocast["dtype"] = str(dtype).removeprefix("torch.")
    return {
        "train_micro_batch_size_per_gpu": num_rows,
        "gradient_accumulation_steps": config["accumulation"],
        "gradient_clipping": config["max_grad_norm"],
        "zero_optimization": {"stage": 0},
        "torch_autocast": autocast,
    }


def watch_clip(note_norm):
    """At stage 0 the engine drops the norm that its clip returns: `note_norm` gets it."""
    import deepspeed.runtime.engine as engine

    clip = engine.clip_grad_norm_

    def watched_clip(*args, **kwargs):
        norm = clip(*args, **kwargs)
        note_norm(norm)
        return norm

    engine.clip_grad_norm_ = watched_clip


class EnginePass(torch_train_step.EagerPass):
    """`loss_sum` becomes the engine once there is one."""

    def __init__(self, config, model, _arm, _world):
        self.module = torch_ranks.LossModule(model)


class EngineStep(torch_train_step.TrainStep):
    def __init__(self, config, device, *args):
        import deepspeed

        super().__init__(config, device, *args)
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group(
                "nccl" if device.type == "cuda" else "gloo",
                store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.engine, *_ = deepspeed.initialize(
            model=self.passes.module, optimizer=self.optimizer, config=engine_config(config))
        self.passes.loss_sum = self.engine
        self.norm = None
        watch_clip(self.note_norm)

    def note_norm(self, norm):
        self.norm = norm.reshape(())

    def autocast(self):
        return contextlib.nullcontext()  # The engine's own.

    def backward(self, loss, is_last):
        # The loss is divided by the tokens of the whole step already.
        self.engine.backward(loss, scale_wrt_gas=False)
        if not is_last:
            self.engine.step()  # Counts the micro-batch.

    def update(self):
        with self.phase("optimizer"):
            self.engine.step()
        return self.norm


def why_unsupported(config):
    """Before DeepSpeed is imported: it reads there where it shall run."""
    os.environ["DS_ACCELERATOR"] = config["device"]
    os.environ.setdefault("LOCAL_RANK", "0")
    return torch_ranks.why_only_one_rank(config)


if __name__ == "__main__":
    torch_step.FURTHER_REFUSALS.append(why_unsupported)
    torch_step.need("deepspeed", install="DS_BUILD_OPS=0 pip install deepspeed")
    torch_train_step.make_pass = EnginePass
    torch_train_step.make_train_step = EngineStep
    sys.exit(torch_step.main(__doc__))
