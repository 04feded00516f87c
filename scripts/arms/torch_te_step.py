#!/usr/bin/env python3
"""External arm torch-te: torch_step.py with TransformerEngine's modules in every block: the norm
and the product behind it as one LayerNormLinear, the MLP as one LayerNormMLP, Linear, RMSNorm.

Weights are fp32 and cast by autocast, as in torch-eager; embedding, LM head, loss and the attention
kernel stay PyTorch's. torch_te_fp8_step.py is the same in FP8. Needs transformer-engine on a GPU.
--help prints this text.
"""
# Shapes: B rows, T positions, C channels.

import contextlib
import sys

import ranges
import torch_model
import torch_ranks
import torch_step
import torch_train_step
from torch_step import torch

MODULE = "transformer_engine.pytorch"
INSTALL = "pip install transformer-engine[pytorch,core_cu13] --no-build-isolation"


def adopt(model, index, module, name):
    """Module's parameter `name` takes the values of the model's parameter `index` and its place."""
    parameter = getattr(module, name)
    with torch.no_grad():
        parameter.copy_(model.parameters[index])
    model.parameters[index] = parameter


class TeModel(torch_model.Model):
    """The parameters are those of TransformerEngine's modules, in Model's order and shapes."""

    def __init__(self, config, device):
        super().__init__(config, device)
        self.layers = [self.make_layer(1 + layer * self.TENSORS_PER_BLOCK)
                       for layer in range(config["num_layers"])]
        import transformer_engine.pytorch as te

        self.last_norm = te.RMSNorm(config["d_model"], eps=config["norm_epsilon"], device=device,
                                    dtype=torch.float32)
        adopt(self, len(self.parameters) - 2, self.last_norm, "weight")

    def make_layer(self, first):
        """norm1 and wqkv, wo, norm2 and w13 and w2: three modules for six parameters."""
        import transformer_engine.pytorch as te

        config = self.config
        common = {"bias": False, "params_dtype": torch.float32, "device": self.device}
        norm = {"eps": config["norm_epsilon"], "normalization": "RMSNorm"}
        width = config["d_model"]
        qkv = te.LayerNormLinear(width, self.q_width + 2 * self.kv_width, **norm, **common)
        out = te.Linear(self.q_width, width, **common)
        # swiglu: silu of the first half of the rows of fc1 times the second, as w13 is laid out.
        mlp = te.LayerNormMLP(width, config["ffn_width"], activation="swiglu", **norm, **common)
        names = ((qkv, "layer_norm_weight"), (qkv, "weight"), (out, "weight"),
                 (mlp, "layer_norm_weight"), (mlp, "fc1_weight"), (mlp, "fc2_weight"))
        for i, (module, name) in enumerate(names):
            adopt(self, first + i, module, name)
        return qkv, out, mlp

    def quantized(self):
        """Around all blocks of a forward pass: torch_te_fp8_step.py has FP8 here."""
        return contextlib.nullcontext()

    def block(self, layer, x_BTC, *_parameters):
        qkv, out, mlp = self.layers[layer]
        name = f"block {layer}"
        with ranges.named(name):
            with ranges.named("attention"):
                y_BTC = self.attend_to_heads(*qkv(x_BTC).split(self.qkv_widths, dim=2))
                x_BTC = ranges.mark(x_BTC + out(y_BTC), f"{name}/attention")
            with ranges.named("mlp"):
                return ranges.mark(x_BTC + mlp(x_BTC), f"{name}/mlp")

    def norm(self, x_BTC, _weight):
        return self.last_norm(x_BTC)

    def loss_sum(self, tokens_BT, targets_BT):
        with self.quantized():
            return super().loss_sum(tokens_BT, targets_BT)


def run_arm(make_model, doc, *refusals):
    torch_train_step.make_model = make_model
    torch_step.FURTHER_REFUSALS.append(torch_ranks.why_only_one_rank)
    torch_step.need(MODULE, install=INSTALL)
    torch_step.FURTHER_REFUSALS.extend(refusals)
    return torch_step.main(doc)


if __name__ == "__main__":
    sys.exit(run_arm(TeModel, __doc__))
