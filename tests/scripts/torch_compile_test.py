#!/usr/bin/env python3
"""Tests of the arms torch-compile*: each block is a process of its own, as in a matrix.

Skipped, with a reason, where this Python cannot compile. Inductor writes C++ here: no GPU needed.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ARMS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "arms"
NEEDED = ("torch", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "filelock")
MISSING = [name for name in NEEDED if not importlib.util.find_spec(name)]
if not shutil.which("g++"):
    MISSING.append("g++")

END_TOKEN = 10  # A document is a line.


def write_tokens(folder):
    # Bytes of a real text: this file.
    tokens = pathlib.Path(__file__).read_bytes()
    path = folder / "x.bin"
    path.write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
    path.with_suffix(".json").write_text(json.dumps({
        "dtype": "uint16", "num_tokens": len(tokens), "max_token": max(tokens),
        "document_end_token": END_TOKEN}), encoding="utf-8")
    return path


class CompileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.data_path = write_tokens(cls.folder)

    def run_block(self, script, arm, **changes):
        config = {
            "device": "cpu", "num_layers": 1, "d_model": 16, "num_heads": 4, "num_kv_heads": 2,
            "head_dim": 4, "ffn_width": 24, "vocab_size": 257, "sequence_length": 32,
            "global_batch": 4, "accumulation": 2, "accumulation_holds": "global_batch",
            "world_size": 1, "precision": "fp32", "attention": "math", "optimizer": "fused",
            "graph": "off", "checkpoint": "off", "data": "sync", "batching": "packed",
            "sync_every_micro_step": "off", "frozen": "none", "allocator": "default",
            "instrumentation": "full", "injected_spin_ns": 0, "num_threads": 1, "seed": 1,
            "learning_rate": 1e-2, "min_learning_rate_ratio": 0.1, "num_lr_warmup_steps": 2,
            "num_lr_total_steps": 20, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95,
            "epsilon": 1e-8, "max_grad_norm": 1.0, "norm_epsilon": 1e-5, "rope_base": 10000.0,
        } | changes
        output = self.folder / f"{arm}-{config['batching']}"
        output.mkdir(exist_ok=True)
        block = {"schema_version": 1, "config": config, "seed": 1, "kind": "throughput",
                 "arm": arm, "round_index": 0, "rank": 0, "world_size": 1, "device": {"id": ""},
                 "first_data_step_index": 0, "num_warmup_steps": 2, "num_measured_steps": 4,
                 "timeout_s": 600, "data_path": str(self.data_path), "output_folder": str(output)}
        config_path = output / "block_config.json"
        config_path.write_text(json.dumps(block), encoding="utf-8")
        result = subprocess.run(
            [sys.executable, str(ARMS / script)], capture_output=True, text=True, check=False,
            env=os.environ | {"STEPLENS_BLOCK_CONFIG": str(config_path),
                              "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor")})
        self.assertEqual(result.returncode, 0, result.stderr)
        record = json.loads((output / "block.json").read_text(encoding="utf-8"))
        self.assertEqual((record["status"], record["reason"]), ("ok", ""))
        return record

    def assert_same_maths(self, record, reference):
        for name in ("data_hash", "data_set_hash", "weights_hash"):
            self.assertEqual(record[name], reference[name])
        for name in ("num_valid_tokens", "num_positions", "num_loss_tokens"):
            self.assertEqual(record["steps"][name], reference["steps"][name])
        for name in ("loss", "grad_norm", "lr"):
            for value, expected in zip(record["steps"][name], reference["steps"][name]):
                self.assertLess(abs(value / expected - 1), 1e-4, name)


@unittest.skipIf(MISSING, f"not here: {', '.join(MISSING)}")
class TorchCompileTest(CompileTest):
    def test_fixed_shape_compiles_before_the_steps_alone(self):
        reference = self.run_block("torch_step.py", "torch-eager")
        self.assertIsNone(reference["compile_ns"])
        record = self.run_block("torch_compile_step.py", "torch-compile-reduce-overhead")
        self.assert_same_maths(record, reference)
        evidence = record["evidence"]["compile"]
        self.assertEqual(evidence["mode"], "reduce-overhead")
        self.assertGreater(evidence["num_compilations_before_steps"], 0)
        self.assertEqual(evidence["num_compilations_in_warmup"], 0)
        self.assertEqual(evidence["num_compilations_in_steps"], 0)
        self.assertEqual(evidence["num_graph_breaks"], 0, evidence["graph_break_reasons"])
        self.assertEqual(evidence["failures"], [])
        self.assertEqual(evidence["spikes"]["lost_ns"], 0)
        self.assertGreater(record["compile_ns"], max(record["warmup"]["step_wall_ns"]))
        self.assertTrue(any((self.folder / "inductor" / "cpu-math").iterdir()))
        # The cache is filled: the same block again needs no compile workers, and finds all in it.
        if os.cpu_count() > 1:
            self.assertGreater(evidence["num_compile_threads"], 1)
        again = self.run_block("torch_compile_step.py", "torch-compile-reduce-overhead")
        self.assertEqual(again["evidence"]["compile"]["num_compile_threads"], 1)
        self.assertEqual(again["evidence"]["compile"]["num_cache_misses"], 0)
        self.assertGreater(again["evidence"]["compile"]["num_cache_hits"], 0)
        self.assert_same_maths(again, record)

    def test_changing_shapes_compile_in_the_steps(self):
        # Flash attention is one operator, so that each graph has fewer kernels to compile; shapes
        # change from step to step anyway, and need not from micro-step to micro-step.
        changes = {"batching": "bucketed", "attention": "flash", "accumulation": 1}
        reference = self.run_block("torch_step.py", "torch-eager", **changes)
        record = self.run_block("torch_compile_step.py", "torch-compile", **changes)
        self.assert_same_maths(record, reference)
        evidence = record["evidence"]["compile"]
        num_in_steps = (evidence["num_compilations_in_warmup"] +
                        evidence["num_compilations_in_steps"])
        self.assertGreater(num_in_steps, 0)
        self.assertGreater(evidence["num_recompilations"], 0)
        self.assertTrue(evidence["recompilation_reasons"])
        self.assertEqual(evidence["failures"], [])
        spikes = evidence["spikes"]
        self.assertEqual(sum(step["num_compilations"] for step in spikes["steps"]), num_in_steps)
        wall_ns = record["warmup"]["step_wall_ns"] + record["steps"]["step_wall_ns"]
        for step in spikes["steps"]:
            self.assertEqual(step["step_wall_ns"], wall_ns[step["step_index"]])
        self.assertGreater(spikes["lost_ratio"], 0.5)  # Compiling takes seconds, a step does not.


@unittest.skipIf(MISSING, f"not here: {', '.join(MISSING)}")
class FormTest(unittest.TestCase):
    """Products of one weight, written as one or each by itself: eager and compiled arms."""

    CONFIG = {"num_layers": 2, "d_model": 16, "num_heads": 4, "num_kv_heads": 2, "head_dim": 4,
              "ffn_width": 24, "vocab_size": 257, "sequence_length": 32, "seed": 1,
              "frozen": "none", "checkpoint": "off", "norm_epsilon": 1e-5, "rope_base": 10000.0}

    def test_separate_products_are_five_a_block_with_the_same_loss_and_gradients(self):
        sys.path.insert(0, str(ARMS))
        self.addCleanup(sys.path.remove, str(ARMS))
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
        import torch_compile_step
        import torch_model

        class World:
            def distribute(self, config, model):
                return model.loss_sum

        class Products(TorchDispatchMode):
            def __init__(self):
                super().__init__()
                self.num = 0

            def __torch_dispatch__(self, function, types, arguments=(), named=None):
                self.num += function is torch.ops.aten.mm.default
                return function(*arguments, **(named or {}))

        tokens = torch.arange(64).view(2, 32) * 7 % 257

        def run(model):
            with Products() as forward:
                loss = model.loss_sum(tokens, tokens.roll(-1, 1))
            return loss, torch.autograd.grad(loss, model.parameters), forward.num

        model = torch_model.Model(self.CONFIG, torch.device("cpu"))
        loss, gradients, num_products = run(model)
        self.assertEqual(num_products, 2 * 4 + 1)  # QKV, output, gate with up, down; the head.
        torch_compile_step.CompiledPass(self.CONFIG, model, "default", World())
        separate_loss, separate_gradients, num_separate = run(model)
        self.assertEqual(num_separate, 2 * 7 + 1)
        self.assertLess(abs(separate_loss / loss - 1), 1e-6)
        for gradient, expected in zip(separate_gradients, gradients):
            self.assertLess((gradient - expected).norm() / expected.norm(), 1e-5)


if __name__ == "__main__":
    unittest.main()
