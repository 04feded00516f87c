"""The modules of transformer_engine.pytorch that an arm uses, as its API documentation has them.

Parameters start as garbage: an arm must put its own in. Inside `autocast` the inputs of products
are rounded to FP8 (E4M3, scaled to the largest value), gradients pass as they are.
"""

import contextlib

import torch
import torch.nn.functional as F

LARGEST_E4M3 = 448.0
_is_fp8 = False


@contextlib.contextmanager
def autocast(enabled=True, calibrating=False, recipe=None):
    global _is_fp8
    before, _is_fp8 = _is_fp8, enabled
    try:
        yield
    finally:
        _is_fp8 = before


def is_fp8_available(return_reason=False):
    return (True, "") if return_reason else True


def _rounded(values):
    if not _is_fp8:
        return values
    scale = LARGEST_E4M3 / values.detach().abs().max().float()
    rounded = (values.detach() * scale).to(torch.float8_e4m3fn).to(values.dtype) / scale
    return values + (rounded - values).detach()


def _product(inp, weight):
    return F.linear(_rounded(inp), _rounded(weight))


def _garbage(*shape, device, dtype):
    return torch.nn.Parameter(torch.full(shape, 7.0, device=device, dtype=dtype))


def _rms_norm(inp, weight, eps):
    mean_square = inp.float().square().mean(dim=-1, keepdim=True)
    return (inp * torch.rsqrt(mean_square + eps)) * weight


class RMSNorm(torch.nn.Module):
    def __init__(self, normalized_shape, eps=1e-5, device="cuda", dtype=torch.float32):
        super().__init__()
        self.eps = eps
        self.weight = _garbage(normalized_shape, device=device, dtype=dtype)

    def forward(self, inp):
        return _rms_norm(inp, self.weight, self.eps)


class Linear(torch.nn.Module):
    def __init__(self, in_features, out_features, bias=True, params_dtype=torch.float32,
                 device="cuda"):
        super().__init__()
        assert not bias
        self.weight = _garbage(out_features, in_features, device=device, dtype=params_dtype)

    def forward(self, inp):
        return _product(inp, self.weight)


class LayerNormLinear(torch.nn.Module):
    def __init__(self, in_features, out_features, eps=1e-5, bias=True, normalization="LayerNorm",
                 params_dtype=torch.float32, device="cuda"):
        super().__init__()
        assert not bias and normalization == "RMSNorm"
        self.eps = eps
        self.layer_norm_weight = _garbage(in_features, device=device, dtype=params_dtype)
        self.weight = _garbage(out_features, in_features, device=device, dtype=params_dtype)

    def forward(self, inp):
        return _product(_rms_norm(inp, self.layer_norm_weight, self.eps), self.weight)


class LayerNormMLP(torch.nn.Module):
    """fc2(swiglu(fc1(norm(x)))): swiglu is silu of the first half of fc1's features times the
    second."""

    def __init__(self, hidden_size, ffn_hidden_size, eps=1e-5, bias=True,
                 normalization="LayerNorm", activation="gelu", params_dtype=torch.float32,
                 device="cuda"):
        super().__init__()
        assert not bias and normalization == "RMSNorm" and activation == "swiglu"
        self.eps = eps
        common = {"device": device, "dtype": params_dtype}
        self.layer_norm_weight = _garbage(hidden_size, **common)
        self.fc1_weight = _garbage(2 * ffn_hidden_size, hidden_size, **common)
        self.fc2_weight = _garbage(hidden_size, ffn_hidden_size, **common)

    def forward(self, inp):
        hidden = _product(_rms_norm(inp, self.layer_norm_weight, self.eps), self.fc1_weight)
        width = self.fc2_weight.size(1)
        gate, linear = hidden[..., :width], hidden[..., width:]
        return _product(gate * torch.sigmoid(gate) * linear, self.fc2_weight)
