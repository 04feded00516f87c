#!/usr/bin/env python3
"""The operators of bench_kernels as PyTorch runs them: eager (ATen) and what torch.compile emits.

Same shapes, types and random inputs; median time of a call, from events around 20 calls that take
turns over sets of buffers larger than the L2 cache. Prints one row an operator, microseconds.
"""

import json
import sys

import torch
import torch.nn.functional as F

NUM_CALLS = 20
NUM_BATCHES = 9
MODELS = {"A": dict(B=32, T=1024, C=768, F=2048, H=12, V=50304),
          "B": dict(B=4, T=4096, C=2048, F=5632, H=16, V=32000)}


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def median_us(function, sets):
    """`function` of each set in turn."""
    for arguments in sets:
        function(*arguments)
    torch.cuda.synchronize()
    times = []
    for _ in range(NUM_BATCHES):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for i in range(NUM_CALLS):
            function(*sets[i % len(sets)])
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / NUM_CALLS)
    return sorted(times)[len(times) // 2]


def rms_norm_forward(x, residual, weight):
    r = x + residual
    return r, F.rms_norm(r, (r.shape[-1],), weight, 1e-5)


def rms_norm_backward(dy, r, rstd, weight, dr_in):
    """In float32, with dweight: the formula that torch.compile derives."""
    dy, r32, weight = dy.float(), r.float(), weight.float()
    normed = r32 * rstd
    gradient = dy * weight
    dr = rstd * (gradient - normed * (gradient * normed).mean(-1, keepdim=True))
    return (dr + dr_in.float()).to(r.dtype), (dy * normed).sum(0)


def rms_norm_backward_eager(y, r, weight, dy, dr_in):
    dr, dweight = torch.autograd.grad(y, (r, weight), dy, retain_graph=True)
    return dr + dr_in, dweight


def swiglu_forward(gate_up):
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate) * up


def swiglu_backward(dy, gate_up):
    gate, up = gate_up.float().chunk(2, -1)
    s = torch.sigmoid(gate)
    dy = dy.float()
    return torch.cat([dy * up * s * (1 + gate * (1 - s)), dy * gate * s], -1).to(gate_up.dtype)


def swiglu_backward_eager(y, gate_up, dy):
    return torch.autograd.grad(y, gate_up, dy, retain_graph=True)


def rope(qkv, cos, sin):
    q, k, _ = (part.unflatten(-1, (-1, cos.shape[-1])).transpose(1, 2) for part in qkv.chunk(3, -1))

    def rotate(x):
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat([-high, low], -1) * sin

    return rotate(q), rotate(k)


def operators(B, T, C, F, H, V):  # pylint: disable=invalid-name
    """name -> (eager function, its argument sets, function for torch.compile, its argument sets)."""
    rows = B * T
    weight = random(C)
    norm_sets = [(random(rows, C), random(rows, C), weight) for _ in range(3)]
    yield "rms_norm_forward/bf16_residual", rms_norm_forward, norm_sets, rms_norm_forward, norm_sets
    eager, compiled = [], []
    for _ in range(3):
        r = random(rows, C).requires_grad_()
        w = weight.clone().requires_grad_()
        dy, dr_in = random(rows, C), random(rows, C)
        eager.append((torch.nn.functional.rms_norm(r, (C,), w, 1e-5), r, w, dy, dr_in))
        rstd = torch.rsqrt(r.detach().float().square().mean(-1, keepdim=True) + 1e-5)
        compiled.append((dy, r.detach(), rstd, weight, dr_in))
    yield "rms_norm_backward/bf16_residual", rms_norm_backward_eager, eager, rms_norm_backward, compiled
    swiglu_sets = [(random(rows, 2 * F),) for _ in range(2)]
    yield "swiglu_forward/bf16", swiglu_forward, swiglu_sets, swiglu_forward, swiglu_sets
    eager, compiled = [], []
    for _ in range(2):
        gate_up, dy = random(rows, 2 * F).requires_grad_(), random(rows, F)
        eager.append((swiglu_forward(gate_up), gate_up, dy))
        compiled.append((dy, gate_up.detach()))
    yield "swiglu_backward/bf16", swiglu_backward_eager, eager, swiglu_backward, compiled
    cos, sin = random(T, C // H), random(T, C // H)
    rope_sets = [(random(B, T, 3 * C), cos, sin) for _ in range(3)]
    yield "rope_qkv_forward", rope, rope_sets, rope, rope_sets
    tokens = torch.randint(V, (rows,), device="cuda")
    table_sets = [(random(rows, C), tokens, V, -1, False) for _ in range(3)]
    dense = torch.ops.aten.embedding_dense_backward
    yield "embedding_backward/uniform", dense, table_sets, None, None


def main():
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    results = {}
    for model in sys.argv[1:] or MODELS:
        for name, eager, eager_sets, fused, fused_sets in operators(**MODELS[model]):
            times = {"aten_us": median_us(eager, eager_sets)}
            if fused is not None:
                times["compile_us"] = median_us(torch.compile(fused), fused_sets)
            results[f"{name}/{model}"] = times
            print(f"{name}/{model}", *(f"{key} {value:.1f}" for key, value in times.items()), flush=True)
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
