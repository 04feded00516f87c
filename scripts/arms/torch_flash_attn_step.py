#!/usr/bin/env python3
"""External arm torch-flash-attn: torch_step.py with flash_attn_func of the package flash-attn in
place of PyTorch's scaled_dot_product_attention, whatever the key `attention` says.

Needs flash-attn (pip install flash-attn, which compiles it) and bf16 or fp16 on a GPU. --help
prints this text.
"""
# Shapes: B rows, T positions, H query heads, K key/value heads, D head dim.

import sys

import torch_model
import torch_ranks
import torch_step
import torch_train_step

# Of its assertions: "only support fp16 and bf16", "must be on CUDA device".
REFUSALS = ("FlashAttention", "only support", "must be on CUDA")


class FlashModel(torch_model.Model):
    def attend(self, q_BHTD, k_BKTD, v_BKTD):
        from flash_attn import flash_attn_func

        y_BTHD = flash_attn_func(q_BHTD.transpose(1, 2), k_BKTD.transpose(1, 2),
                                 v_BKTD.transpose(1, 2), causal=True)
        return y_BTHD.transpose(1, 2)


if __name__ == "__main__":
    torch_train_step.make_model = FlashModel
    torch_step.attention_name = lambda config: "flash_attn_func"
    torch_step.REFUSALS_OF_ATTENTION.extend(REFUSALS)
    torch_step.FURTHER_REFUSALS.append(torch_ranks.why_only_one_rank)
    torch_step.need("flash_attn", install="pip install flash-attn --no-build-isolation")
    sys.exit(torch_step.main(__doc__))
