"""The model of the Python arms: Llama's architecture on plain PyTorch operators."""
# Shapes: B rows, T positions, C channels, H query heads, K key/value heads, D head dim, F FFN
# width, V vocabulary.

import hashlib
import math
import struct

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import ranges


class Model:
    """Llama's architecture on plain operators. Parameters in the order in which they are drawn."""

    TENSORS_PER_BLOCK = 6
    # Queries, keys and values, gate and up as products of their own with parts of one weight. The
    # gradient of a joint product Inductor puts together in kernels that choose the source of each
    # element, which takes longer than what the joint product saves.
    has_separate_products = False

    def __init__(self, config, device):
        self.config = config
        self.device = device
        width, num_layers = config["d_model"], config["num_layers"]
        self.q_width = config["num_heads"] * config["head_dim"]
        self.kv_width = config["num_kv_heads"] * config["head_dim"]
        self.qkv_widths = (self.q_width, self.kv_width, self.kv_width)
        generator = torch.Generator(device).manual_seed(config["seed"])
        residual_std = 0.02 / math.sqrt(2 * num_layers)

        def matrix(rows, columns, std=0.02):
            values = torch.empty(rows, columns, device=device)
            return values.normal_(0.0, std, generator=generator)

        self.parameters = [matrix(config["vocab_size"], width)]
        for _ in range(num_layers):
            self.parameters += [
                torch.ones(width, device=device),
                matrix(self.q_width + 2 * self.kv_width, width),
                matrix(width, self.q_width, residual_std),
                torch.ones(width, device=device),
                matrix(2 * config["ffn_width"], width),
                matrix(width, config["ffn_width"], residual_std),
            ]
        self.parameters += [torch.ones(width, device=device), matrix(config["vocab_size"], width)]
        for parameter in self.parameters:
            parameter.requires_grad_(True)
        if config["frozen"] == "embeddings":
            self.parameters[0].requires_grad_(False)

        self.cos_TD, self.sin_TD = self.rotary_tables()

    def rotary_tables(self):
        """cos and sin of position x frequency, both halves alike (the non-interleaved form)."""
        config, device = self.config, self.device
        half = torch.arange(0, config["head_dim"], 2, device=device, dtype=torch.float32)
        frequency = torch.pow(config["rope_base"], half * (-1.0 / config["head_dim"]))
        positions = torch.arange(config["sequence_length"], device=device, dtype=torch.float32)
        angle_TD = torch.outer(positions, frequency).repeat(1, 2)
        return angle_TD.cos(), angle_TD.sin()

    def trained(self):
        return [parameter for parameter in self.parameters if parameter.requires_grad]

    def norm(self, x_BTC, weight):
        return F.rms_norm(x_BTC, (x_BTC.size(-1),), weight, self.config["norm_epsilon"])

    def rotate(self, x_BHTD):
        first, second = x_BHTD.chunk(2, dim=3)
        length = x_BHTD.size(2)  # Of bucketed rows, less than sequence_length.
        cos_TD = self.cos_TD[:length].to(x_BHTD.dtype)
        sin_TD = self.sin_TD[:length].to(x_BHTD.dtype)
        return x_BHTD * cos_TD + torch.cat((-second, first), dim=3) * sin_TD

    def block(self, layer, x_BTC, norm1, wqkv, wo, norm2, w13, w2):
        name = f"block {layer}"
        with ranges.named(name):
            with ranges.named("attention"):
                x_BTC = ranges.mark(self.attention(x_BTC, norm1, wqkv, wo), f"{name}/attention")
            with ranges.named("mlp"):
                return ranges.mark(self.mlp(x_BTC, norm2, w13, w2), f"{name}/mlp")

    def attend(self, q_BHTD, k_BKTD, v_BKTD):
        """Causal attention of every head. Keys and values of a group serve H / K heads in turn."""
        return F.scaled_dot_product_attention(q_BHTD, k_BKTD, v_BKTD, is_causal=True,
                                              enable_gqa=q_BHTD.size(1) != k_BKTD.size(1))

    def attend_to_heads(self, q_BTC, k_BTC, v_BTC):
        """From queries, keys and values to what the output product takes."""
        config = self.config
        num_rows, length, _ = q_BTC.shape

        def heads(part, num_heads):
            return part.view(num_rows, length, num_heads, config["head_dim"]).transpose(1, 2)

        y_BHTD = self.attend(self.rotate(heads(q_BTC, config["num_heads"])),
                             self.rotate(heads(k_BTC, config["num_kv_heads"])),
                             heads(v_BTC, config["num_kv_heads"]))
        return y_BHTD.transpose(1, 2).reshape(num_rows, length, self.q_width)

    def products(self, h_BTC, weight, widths):
        """h W^T, cut into channels of these widths."""
        if self.has_separate_products:
            return [F.linear(h_BTC, part) for part in weight.split(widths)]
        return F.linear(h_BTC, weight).split(widths, dim=2)

    def attention(self, x_BTC, norm1, wqkv, wo):
        qkv = self.products(self.norm(x_BTC, norm1), wqkv, self.qkv_widths)
        return x_BTC + F.linear(self.attend_to_heads(*qkv), wo)

    def mlp(self, x_BTC, norm2, w13, w2):
        widths = (self.config["ffn_width"],) * 2
        gate_BTF, up_BTF = self.products(self.norm(x_BTC, norm2), w13, widths)
        return x_BTC + F.linear(F.silu(gate_BTF) * up_BTF, w2)

    def loss_sum(self, tokens_BT, targets_BT):
        """Sum of the cross-entropies of all positions whose target is not ignored."""
        with ranges.named("embedding"):
            x_BTC = ranges.mark(F.embedding(tokens_BT, self.parameters[0]), "embedding")
        first_of_blocks = range(1, len(self.parameters) - 2, self.TENSORS_PER_BLOCK)
        for layer, first in enumerate(first_of_blocks):
            weights = self.parameters[first:first + self.TENSORS_PER_BLOCK]
            if self.config["checkpoint"] == "full":
                # Nothing random to restore: there is no dropout.
                x_BTC = checkpoint(self.block, layer, x_BTC, *weights, use_reentrant=False,
                                   preserve_rng_state=False)
            else:
                x_BTC = self.block(layer, x_BTC, *weights)
        with ranges.named("norm"):
            h_BTC = ranges.mark(self.norm(x_BTC, self.parameters[-2]), "norm")
        with ranges.named("head"):
            logits_BTV = ranges.mark(F.linear(h_BTC, self.parameters[-1]), "head")
        with ranges.named("loss"):
            loss = F.cross_entropy(logits_BTV.view(-1, self.config["vocab_size"]),
                                   targets_BT.reshape(-1), reduction="sum", ignore_index=-100)
            return ranges.mark(loss, "loss")

    @torch.no_grad()
    def weights_hash(self):
        """SHA-256 over two sums of each parameter's bits, int64 with wrap-around."""
        digest = hashlib.sha256()
        chunk = 1 << 24  # A large vocabulary's matrix as int64 is gigabytes; sums add up in parts.
        for parameter in self.parameters:
            bits = parameter.contiguous().view(torch.int32).view(-1)
            total = weighted = torch.zeros((), dtype=torch.int64, device=self.device)
            for begin in range(0, bits.numel(), chunk):
                part = bits[begin:begin + chunk].to(torch.int64)
                index = torch.arange(begin, begin + part.numel(), device=self.device)
                total = total + part.sum()
                weighted = weighted + (part * (index % 65521 + 1)).sum()
            digest.update(struct.pack("<2q", total.item(), weighted.item()))
        return digest.hexdigest()
