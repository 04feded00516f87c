"""flash_attn_func as flash-attn documents it: (B, T, H, D) for queries, (B, T, K, D) for keys and
values, where query head h reads key head h // (H / K); `causal` is lower triangular for equal T."""

import math

import torch

__version__ = "0.fake"


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False):
    num_rows, length, num_heads, head_dim = q.shape
    group = num_heads // k.size(2)
    scale = softmax_scale or 1 / math.sqrt(head_dim)
    outputs = []
    for head in range(num_heads):
        scores = torch.einsum("btd,bsd->bts", q[:, :, head], k[:, :, head // group]) * scale
        if causal:
            is_later = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(is_later, -math.inf)
        outputs.append(torch.softmax(scores, dim=2) @ v[:, :, head // group])
    return torch.stack(outputs, dim=2)
