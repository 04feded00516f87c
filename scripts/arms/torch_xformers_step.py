#!/usr/bin/env python3
"""External arm torch-xformers: torch_step.py with memory_efficient_attention of xFormers in place
of PyTorch's scaled_dot_product_attention, whatever the key `attention` says.

xFormers chooses among the kernels that it finds (flash-attn, PyTorch's own flash attention, its
CUTLASS one); a trace names what ran. Needs xformers (pip install xformers) and bf16 or fp16 on a
GPU. --help prints this text.
"""
# Shapes: B rows, T positions, H query heads, K key/value heads, D head dim.

import sys

import torch_model
import torch_ranks
import torch_step
import torch_train_step
from libraries import one_line


class XformersModel(torch_model.Model):
    def attend(self, q_BHTD, k_BKTD, v_BKTD):
        from xformers.ops import LowerTriangularMask, memory_efficient_attention

        # Its backward pass knows no groups: each query head gets its own keys and values.
        num_heads_of_group = q_BHTD.size(1) // k_BKTD.size(1)
        if num_heads_of_group > 1:
            k_BKTD = k_BKTD.repeat_interleave(num_heads_of_group, dim=1)
            v_BKTD = v_BKTD.repeat_interleave(num_heads_of_group, dim=1)
        y_BTHD = memory_efficient_attention(q_BHTD.transpose(1, 2), k_BKTD.transpose(1, 2),
                                            v_BKTD.transpose(1, 2),
                                            attn_bias=LowerTriangularMask())
        return y_BTHD.transpose(1, 2)


def why_not_loaded(_config):
    """xFormers imports without its own library, and then offers no operator."""
    module = sys.modules.get("xformers._cpp_lib")
    error = getattr(module, "_cpp_library_load_exception", None)
    if error is None:
        return ""
    return (f"not available: xFormers' library does not load: {one_line(error)} If it was built for "
            "CUDA 12, pip install nvidia-cuda-runtime-cu12 brings the libcudart.so.12 that it "
            "looks for in LD_LIBRARY_PATH")


if __name__ == "__main__":
    torch_train_step.make_model = XformersModel
    torch_step.attention_name = lambda config: "memory_efficient_attention"
    torch_step.REFUSALS_OF_ATTENTION.append("No operator found for")
    torch_step.FURTHER_REFUSALS.append(torch_ranks.why_only_one_rank)
    torch_step.need("xformers.ops", install="pip install xformers")
    torch_step.FURTHER_REFUSALS.append(why_not_loaded)
    sys.exit(torch_step.main(__doc__))
