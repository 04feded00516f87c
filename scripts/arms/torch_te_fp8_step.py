#!/usr/bin/env python3
"""External arm torch-te-fp8: torch_te_step.py with the products of the blocks in FP8, under
TransformerEngine's autocast with its default recipe for the GPU.

FP8 is below the precision that the config names, so the matrix shows how far the loss leaves the
reference's and judges it by no tolerance. Needs transformer-engine and a GPU that has FP8.
--help prints this text.
"""

import sys

import torch_te_step


class Fp8Model(torch_te_step.TeModel):
    def quantized(self):
        import transformer_engine.pytorch as te

        # fp8_autocast until 2.8; both take the default recipe if they get none.
        autocast = getattr(te, "autocast", None) or te.fp8_autocast
        return autocast(enabled=True)


def why_no_fp8(config):
    import transformer_engine.pytorch as te

    if config["checkpoint"] == "full":
        return ("checkpoint=full: FP8 scales are kept right by TransformerEngine's own checkpoint "
                "alone, which this arm does not use.")
    is_available, reason = te.is_fp8_available(return_reason=True)
    return "" if is_available else f"not available: this GPU computes no FP8: {reason}"


if __name__ == "__main__":
    sys.exit(torch_te_step.run_arm(Fp8Model, __doc__, why_no_fp8))
