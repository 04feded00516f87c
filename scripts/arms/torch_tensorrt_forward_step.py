#!/usr/bin/env python3
"""External arm torch-tensorrt-forward: the forward pass of torch_step.py as Torch-TensorRT compiles
it, and nothing else: no gradient, no clip, no optimizer. It is no training step. Its row says
"forward only" and has no effect; what is checked is the loss of the initial weights.

Export and engines are made on the first batch before the first step (compile_ns of block.json).
Needs torch-tensorrt (pip install torch-tensorrt). --help prints this text.
"""

import math
import sys
import time

import ranges
import torch_model
import torch_ranks
import torch_step
import torch_train_step
from torch_step import torch


class ForwardModule(torch_ranks.LossModule):
    """The loss of a micro-batch with all its tensors as the module's own, as export wants it."""

    def __init__(self, model):
        super().__init__(model)
        self.register_buffer("cos_TD", model.cos_TD)
        self.register_buffer("sin_TD", model.sin_TD)

    def forward(self, tokens_BT, targets_BT):
        model = self.model
        dtype = torch_train_step.AUTOCAST_TYPES.get(model.config["precision"])
        model.parameters = list(self.weights)
        model.cos_TD, model.sin_TD = self.cos_TD, self.sin_TD
        with torch.autocast(model.device.type, dtype=dtype, enabled=dtype is not None,
                            cache_enabled=False):
            return model.loss_sum(tokens_BT, targets_BT)


class TensorRtPass(torch_train_step.EagerPass):
    def __init__(self, config, model, _arm, _world):
        self.model = model
        self.module = ForwardModule(model)

    def compile(self, tokens_BT, targets_BT):
        """Returns how long it took, ns."""
        import torch_tensorrt

        start_ns = time.perf_counter_ns()
        inputs = (tokens_BT, targets_BT)
        parameters = self.model.parameters
        with torch.no_grad():
            exported = torch.export.export(self.module, inputs)
            self.loss_sum = torch_tensorrt.dynamo.compile(exported, arg_inputs=inputs)
        self.model.parameters = parameters  # The traced ones hold no values.
        return time.perf_counter_ns() - start_ns


class ForwardStep(torch_train_step.TrainStep):
    """Of a step its forward passes. Gradient norm and learning rate are absent."""

    def prepare(self, batch, num_loss_tokens):
        compile_ns = self.passes.compile(*batch[0])
        self.accumulate(batch, num_loss_tokens)
        return compile_ns

    @torch.no_grad()
    def accumulate(self, batch, num_loss_tokens):
        total = torch.zeros((), device=self.device)
        for tokens_BT, targets_BT in batch:
            with ranges.named("micro-step"), self.phase("forward"):
                total += self.passes.loss_sum(tokens_BT, targets_BT) / num_loss_tokens
        return total

    def run(self, batch, num_loss_tokens):
        total = self.accumulate(batch, num_loss_tokens)
        self.log[len(self.learning_rates)].copy_(torch.stack((total, total * math.nan)))
        self.learning_rates.append(math.nan)


def make_model(config, device):
    return torch_model.Model(config | {"checkpoint": "off"}, device)


def why_unsupported(config):
    if config["batching"] != "packed":
        return f"batching={config['batching']}: an engine is made for one shape."
    return torch_ranks.why_only_one_rank(config)


if __name__ == "__main__":
    torch_train_step.make_model = make_model
    torch_train_step.make_pass = TensorRtPass
    torch_train_step.make_train_step = ForwardStep
    torch_step.BlockRun.has_gradients = False
    torch_step.FURTHER_REFUSALS.append(why_unsupported)
    torch_step.need("torch_tensorrt", install="pip install torch-tensorrt")
    sys.exit(torch_step.main(__doc__))
