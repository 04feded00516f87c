#!/usr/bin/env python3
"""Tests of the arms around a library: flash-attn, xFormers, TransformerEngine, Torch-TensorRT and
DeepSpeed. Stand-ins with the documented interface (fake_libraries) take the place of those that
need a GPU; DeepSpeed runs where it is installed.
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
FAKES = pathlib.Path(__file__).resolve().parent / "fake_libraries"
sys.path.insert(0, str(ARMS))

import libraries  # noqa: E402

MISSING = [name for name in ("torch", "sympy", "mpmath") if not find_spec(name)]
SCRIPTS = {  # And what each needs.
    "torch_flash_attn_step.py": "flash_attn",
    "torch_xformers_step.py": "xformers",
    "torch_te_step.py": "transformer_engine",
    "torch_te_fp8_step.py": "transformer_engine",
    "torch_tensorrt_forward_step.py": "torch_tensorrt",
    "deepspeed_step.py": "deepspeed",
}
CONFIG = {
    "device": "cpu", "num_layers": 2, "d_model": 16, "num_heads": 4, "num_kv_heads": 2,
    "head_dim": 4, "ffn_width": 24, "vocab_size": 257, "sequence_length": 32, "global_batch": 4,
    "accumulation": 2, "accumulation_holds": "global_batch", "world_size": 1, "precision": "fp32",
    "attention": "math", "optimizer": "foreach", "graph": "off", "checkpoint": "off",
    "data": "sync", "batching": "packed", "sync_every_micro_step": "off", "frozen": "none",
    "allocator": "default", "instrumentation": "full", "injected_spin_ns": 0, "num_threads": 1,
    "seed": 1, "learning_rate": 1e-2, "min_learning_rate_ratio": 0.1, "num_lr_warmup_steps": 2,
    "num_lr_total_steps": 20, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8,
    "max_grad_norm": 0.5, "norm_epsilon": 1e-5, "rope_base": 10000.0,
}
NUM_WARMUP_STEPS, NUM_MEASURED_STEPS = 3, 5


class WhyMissingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        sys.path.insert(0, folder.name)
        self.addCleanup(sys.path.remove, folder.name)

    def test_names_the_package_and_how_to_get_it(self):
        self.assertEqual(libraries.why_missing(["no_such_package.part"], "pip install it"),
                         "not available: this Python has no package no_such_package "
                         "(pip install it)")
        self.assertEqual(libraries.why_missing(["json", "math"], "pip install it"), "")

    def test_names_what_an_installed_package_lacks(self):
        (self.folder / "lacks_another.py").write_text("import no_such_package\n")
        self.assertEqual(libraries.why_missing(["lacks_another"], "pip install it"),
                         "not available: this Python has no package no_such_package, which "
                         "lacks_another needs (pip install it)")

    def test_says_why_an_installed_package_cannot_be_loaded(self):
        (self.folder / "of_another_cuda.py").write_text(
            "raise ImportError('libcudart.so.12: cannot open\\nshared object file')\n")
        self.assertEqual(libraries.why_missing(["of_another_cuda"], "pip install it"),
                         "not available: of_another_cuda is installed and cannot be imported: "
                         "ImportError: libcudart.so.12: cannot open shared object file "
                         "(pip install it)")


@unittest.skipIf(MISSING, f"this Python has no {', '.join(MISSING)}")
class LibraryArmsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        tokens = pathlib.Path(__file__).read_bytes()  # A real text: this file.
        cls.data_path = cls.folder / "x.bin"
        cls.data_path.write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
        cls.num_blocks = 0
        cls.references = {}  # Records of torch-eager, by config.

    def start_block(self, script, paths, changes):
        """The process of a block, and the folder that it writes into."""
        LibraryArmsTest.num_blocks += 1
        folder = self.folder / str(self.num_blocks)
        folder.mkdir()
        block = {"schema_version": 1, "config": CONFIG | changes, "seed": 1, "kind": "throughput",
                 "arm": script, "round_index": 0, "rank": 0, "world_size": 1, "device": {"id": ""},
                 "first_data_step_index": 0, "num_warmup_steps": NUM_WARMUP_STEPS,
                 "num_measured_steps": NUM_MEASURED_STEPS, "timeout_s": 600,
                 "data_path": str(self.data_path), "output_folder": str(folder)}
        config_path = folder / "block_config.json"
        config_path.write_text(json.dumps(block), encoding="utf-8")
        path = os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            [sys.executable, str(ARMS / script)], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"STEPLENS_BLOCK_CONFIG": str(config_path), "PYTHONPATH": path})
        return process, folder

    def end_block(self, process, folder):
        output, _ = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, output)
        return json.loads((folder / "block.json").read_text(encoding="utf-8"))

    def run_block(self, script, paths=(FAKES,), **changes):
        return self.end_block(*self.start_block(script, paths, changes))

    def run_with_reference(self, script, paths=(FAKES,), **changes):
        """The record of the arm and that of torch-eager, which knows no checkpoint here."""
        block = self.start_block(script, paths, changes)
        kept = {name: value for name, value in changes.items() if name != "checkpoint"}
        key = json.dumps(kept)
        if key not in self.references:
            self.references[key] = self.run_block("torch_step.py", **kept)
        record, reference = self.end_block(*block), self.references[key]
        self.assertEqual((record["status"], record["reason"]), ("ok", ""))
        for name in ("data_hash", "data_set_hash", "weights_hash"):
            self.assertEqual(record[name], reference[name])
        for phase, num_steps in (("warmup", NUM_WARMUP_STEPS), ("steps", NUM_MEASURED_STEPS)):
            for name in ("num_positions", "num_valid_tokens", "num_loss_tokens"):
                self.assertEqual(record[phase][name], reference[phase][name])
            for name in ("step_wall_ns", "data_wait_ns", "loss", "grad_norm", "lr"):
                self.assertEqual(len(record[phase][name]), num_steps, name)
        return record, reference

    def largest_deviation(self, record, reference, name):
        return max(abs(value / expected - 1) for phase in ("warmup", "steps")
                   for value, expected in zip(record[phase][name], reference[phase][name]))

    def assert_same_maths(self, record, reference, loss_ratio=1e-6, grad_norm_ratio=1e-5):
        self.assertNotEqual(record["final_weights_hash"], record["weights_hash"])
        self.assertLess(self.largest_deviation(record, reference, "loss"), loss_ratio)
        self.assertLess(self.largest_deviation(record, reference, "grad_norm"), grad_norm_ratio)
        self.assertEqual(self.largest_deviation(record, reference, "lr"), 0)

    def test_without_its_library_an_arm_is_not_available(self):
        missing = {script: name for script, name in SCRIPTS.items() if not find_spec(name)}
        started = {script: self.start_block(script, (), {}) for script in missing}
        for script, block in started.items():
            with self.subTest(script=script):
                record = self.end_block(*block)
                self.assertEqual(record["status"], "unsupported")
                self.assertIn(f"not available: this Python has no package {missing[script]} (",
                              record["reason"])
                self.assertIn("pip install ", record["reason"])
                self.assertEqual(record["steps"]["loss"], [])

    def test_attention_of_a_library_is_the_same_maths(self):
        for script, library in (("torch_flash_attn_step.py", "flash_attn"),
                                ("torch_xformers_step.py", "xformers")):
            with self.subTest(script=script):
                record, reference = self.run_with_reference(script)
                self.assert_same_maths(record, reference)
                self.assertEqual(record["environment"][f"{library}_version"], "0.fake")

    def test_attention_that_cannot_run_says_what_was_asked_for(self):
        record = self.run_block("torch_xformers_step.py", head_dim=6)
        self.assertEqual(record["status"], "unsupported")
        self.assertIn("memory_efficient_attention cannot run with precision=fp32, head_dim 6, "
                      "4 heads over 2 key-value heads", record["reason"])
        self.assertIn("No operator found", record["reason"])
        # Why not, which xFormers says in further lines.
        self.assertIn("`fa2F@0` is not supported because: xFormers wasn't build with CUDA support",
                      record["reason"])

    def test_xformers_without_its_library_says_what_it_lacks(self):
        os.environ["FAKE_XFORMERS_ERROR"] = "built for PyTorch 2.10.0+cu128\n(you have 2.11.0)"
        self.addCleanup(os.environ.pop, "FAKE_XFORMERS_ERROR")
        record = self.run_block("torch_xformers_step.py")
        self.assertEqual(record["status"], "unsupported")
        self.assertIn("not available: xFormers' library does not load: built for PyTorch "
                      "2.10.0+cu128 (you have 2.11.0)", record["reason"])
        self.assertIn("pip install nvidia-cuda-runtime-cu12", record["reason"])

    def test_modules_of_transformer_engine_are_the_same_maths(self):
        self.assert_same_maths(*self.run_with_reference("torch_te_step.py", checkpoint="full"))

    def test_fp8_leaves_the_reference_a_little(self):
        record, reference = self.run_with_reference("torch_te_fp8_step.py")
        loss_ratio = self.largest_deviation(record, reference, "loss")
        self.assertGreater(loss_ratio, 1e-6)
        self.assertLess(loss_ratio, 5e-2)

    def test_forward_only_trains_nothing(self):
        record, reference = self.run_with_reference("torch_tensorrt_forward_step.py",
                                                    precision="bf16")
        self.assertEqual(record["final_weights_hash"], record["weights_hash"])
        first, expected = record["warmup"]["loss"][0], reference["warmup"]["loss"][0]
        self.assertLess(abs(first / expected - 1), 1e-4)
        # The initial weights see the last batch: they have learnt nothing.
        self.assertGreater(record["steps"]["loss"][-1], reference["steps"]["loss"][-1])
        self.assertEqual(record["steps"]["grad_norm"], [None] * NUM_MEASURED_STEPS)
        self.assertEqual(record["steps"]["lr"], [None] * NUM_MEASURED_STEPS)
        self.assertGreater(record["compile_ns"], 0)

    @unittest.skipUnless(find_spec("deepspeed"), "this Python has no deepspeed")
    def test_engine_of_deepspeed_is_the_same_maths(self):
        for changes, tolerances in (
                ({}, {}), ({"accumulation": 1, "checkpoint": "full"}, {}),
                ({"precision": "bf16"}, {"loss_ratio": 2e-3, "grad_norm_ratio": 2e-2})):
            with self.subTest(**changes):
                self.assert_same_maths(
                    *self.run_with_reference("deepspeed_step.py", paths=(), **changes),
                    **tolerances)


if __name__ == "__main__":
    unittest.main()
