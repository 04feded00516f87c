#!/usr/bin/env python3
"""Tests of the arm hf-trainer: the same block as torch-eager's, step for step.

Skipped, with a reason, where this Python has no transformers.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec

ARMS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "arms"
MISSING_TORCH = [name for name in ("torch", "sympy", "mpmath") if not find_spec(name)]
MISSING = [name for name in ("transformers", "accelerate") if not find_spec(name)]


@unittest.skipIf(MISSING_TORCH, f"this Python has no {', '.join(MISSING_TORCH)}")
class HfTrainerTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        tokens = pathlib.Path(__file__).read_bytes()  # A real text: this file.
        self.data_path = self.folder / "x.bin"
        self.data_path.write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))

    def run_block(self, script, kind="throughput", num_warmup=3, **changes):
        config = {
            "device": "cpu", "num_layers": 2, "d_model": 16, "num_heads": 4, "num_kv_heads": 2,
            "head_dim": 4, "ffn_width": 24, "vocab_size": 257, "sequence_length": 32,
            "global_batch": 4, "accumulation": 2, "accumulation_holds": "global_batch",
            "world_size": 1, "precision": "fp32", "attention": "math", "optimizer": "foreach",
            "graph": "off", "checkpoint": "off", "data": "sync", "batching": "packed",
            "sync_every_micro_step": "off", "frozen": "none", "allocator": "default",
            "instrumentation": "full", "injected_spin_ns": 0, "num_threads": 1, "seed": 1,
            "learning_rate": 1e-2, "min_learning_rate_ratio": 0.1, "num_lr_warmup_steps": 2,
            "num_lr_total_steps": 20, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95,
            "epsilon": 1e-8, "max_grad_norm": 1.0, "norm_epsilon": 1e-5, "rope_base": 10000.0,
        } | changes
        block = {"schema_version": 1, "config": config, "seed": 1, "kind": kind,
                 "arm": "hf-trainer", "round_index": 0, "rank": 0, "world_size": 1,
                 "device": {"id": ""},
                 "first_data_step_index": 0, "num_warmup_steps": num_warmup,
                 "num_measured_steps": 9, "timeout_s": 600, "data_path": str(self.data_path),
                 "output_folder": str(self.folder)}
        config_path = self.folder / "block_config.json"
        config_path.write_text(json.dumps(block), encoding="utf-8")
        result = subprocess.run(
            [sys.executable, str(ARMS / script)], capture_output=True, text=True, check=False,
            env=os.environ | {"STEPLENS_BLOCK_CONFIG": str(config_path)})
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads((self.folder / "block.json").read_text(encoding="utf-8"))

    @unittest.skipIf(MISSING, f"this Python has no {', '.join(MISSING)}")
    def test_work_and_maths_are_those_of_torch_eager(self):
        for changes in ({}, {"frozen": "embeddings", "checkpoint": "full", "data": "prefetch"}):
            with self.subTest(**changes):
                reference = self.run_block("torch_step.py", **changes)
                record = self.run_block("hf_trainer_step.py", **changes)
                self.assertEqual((record["status"], record["reason"]), ("ok", ""))
                for name in ("data_hash", "data_set_hash", "weights_hash"):
                    self.assertEqual(record[name], reference[name])
                self.assertNotEqual(record["final_weights_hash"], record["weights_hash"])
                for phase, num_steps in (("warmup", 3), ("steps", 9)):
                    for name in ("num_positions", "num_valid_tokens", "num_loss_tokens"):
                        self.assertEqual(record[phase][name], reference[phase][name])
                    for name in ("step_wall_ns", "data_wait_ns", "loss", "grad_norm", "lr"):
                        self.assertEqual(len(record[phase][name]), num_steps, name)
                    for name in ("loss", "grad_norm", "lr"):
                        for value, expected in zip(record[phase][name], reference[phase][name]):
                            self.assertLess(abs(value / expected - 1), 1e-4, name)

    @unittest.skipIf(MISSING, f"this Python has no {', '.join(MISSING)}")
    def test_pilot_ends_when_it_has_settled(self):
        record = self.run_block("hf_trainer_step.py", kind="pilot", num_warmup=200)
        num_steps = len(record["warmup"]["loss"]) + len(record["steps"]["loss"])
        self.assertGreaterEqual(num_steps, 20)
        self.assertEqual(len(record["warmup"]["loss"]), record["evidence"]["detected_warmup_steps"])

    @unittest.skipUnless(MISSING, "this Python has transformers")
    def test_without_transformers_it_is_not_available(self):
        record = self.run_block("hf_trainer_step.py")
        self.assertEqual(record["status"], "unsupported")
        self.assertIn(f"not available: this Python has no package {MISSING[0]}", record["reason"])


if __name__ == "__main__":
    unittest.main()
