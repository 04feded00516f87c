"""memory_efficient_attention as xFormers documents it: (B, T, H, D), as many key heads as query
heads where there is a backward pass; heads of odd size are refused, in words of the real one."""

import math

import torch

from . import _cpp_lib  # noqa: F401


class LowerTriangularMask:
    pass


def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None):
    if query.size(3) % 4 != 0:
        raise NotImplementedError(
            "No operator found for `memory_efficient_attention_forward` with inputs:\n"
            "     query : shape=(1, 1)\n"
            "`fa2F@0` is not supported because:\n"
            "    xFormers wasn't build with CUDA support")
    if key.shape != query.shape or value.shape != query.shape:
        raise ValueError(f"Incompatible shapes: {query.shape}, {key.shape}, {value.shape}")
    scores = torch.einsum("bthd,bshd->bhts", query, key) * (scale or query.size(3) ** -0.5)
    if isinstance(attn_bias, LowerTriangularMask):
        length = query.size(1)
        scores = scores + torch.full((length, length), -math.inf).triu(1)
    return torch.einsum("bhts,bshd->bthd", scores.softmax(dim=3), value)
