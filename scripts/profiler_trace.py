#!/usr/bin/env python3
"""Writes a trace of torch.profiler: some steps of a small Transformer, with copies on a stream of their own.

  scripts/profiler_trace.py trace.json.gz                   on a GPU if there is one
  scripts/profiler_trace.py trace.json --device cpu --layers 2

For what reads such traces: `steplens import`, scripts/compare_hta.py. Needs torch.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn, profiler


class Block(nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        heads = self.qkv(self.norms[0](x)).view(rows, length, 3 * self.num_heads, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(*heads.chunk(3, 1), is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Model(nn.Module):
    def __init__(self, num_layers, width, num_heads, vocab_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.blocks = nn.ModuleList(Block(width, num_heads) for _ in range(num_layers))
        self.head = nn.Linear(width, vocab_size, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()

    on_gpu = arguments.device == "cuda"
    width, rows, length, vocab_size = (768, 16, 1024, 50304) if on_gpu else (128, 4, 128, 256)
    torch.manual_seed(1)
    model = Model(arguments.layers, width, width // 64, vocab_size).to(arguments.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    side = torch.cuda.Stream() if on_gpu else None

    def batch():
        tokens = torch.randint(vocab_size, (rows, length + 1))
        if not on_gpu:
            return tokens
        tokens = tokens.pin_memory()
        with torch.cuda.stream(side):
            moved = tokens.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        moved.record_stream(torch.cuda.current_stream())
        return moved

    def step():
        tokens = batch()
        with torch.autocast(arguments.device, torch.bfloat16, enabled=on_gpu):
            logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    activities = [profiler.ProfilerActivity.CPU] + ([profiler.ProfilerActivity.CUDA] if on_gpu else [])
    schedule = profiler.schedule(wait=1, warmup=2, active=arguments.steps)
    with profiler.profile(activities=activities, schedule=schedule,
                          on_trace_ready=lambda profile: profile.export_chrome_trace(arguments.output)) as profile:
        for _ in range(3 + arguments.steps):
            step()
            profile.step()
    print(f"{arguments.output}: {arguments.steps} steps on {arguments.device}")


if __name__ == "__main__":
    main()
