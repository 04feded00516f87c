#!/usr/bin/env python3
"""Tests of export_step.py that compile nothing: names, keys, and what it says where it cannot run.

tests/workloads/compiled_pass_test.cpp runs a package that it made.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ARMS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "arms"
sys.path.insert(0, str(ARMS))

import export_step  # noqa: E402


def small_config(**changes):
    # That of tests/catalog/package_info_test.cpp.
    return {"device": "cpu", "num_layers": 1, "d_model": 16, "num_heads": 4, "num_kv_heads": 2,
            "head_dim": 4, "ffn_width": 24, "vocab_size": 257, "sequence_length": 32,
            "global_batch": 4, "accumulation": 1, "accumulation_holds": "global_batch",
            "world_size": 1, "precision": "fp32", "attention": "flash", "frozen": "none",
            "norm_epsilon": 1e-5, "rope_base": 10000.0, "optimizer": "foreach", "seed": 1,
            "num_threads": 1} | changes


def name_of(**changes):
    return export_step.package_name(export_step.package_config(small_config(**changes)))


class PackageTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_name_is_that_of_cpp(self):
        self.assertEqual(name_of(), "L1-d16-B4-T32-fp32-flash-cpu-f878dbc87716")

    def test_micro_batch_follows_what_accumulation_holds(self):
        self.assertEqual(name_of(accumulation=2), name_of(global_batch=2))
        self.assertEqual(name_of(accumulation=2, accumulation_holds="micro_batch"), name_of())
        self.assertEqual(name_of(optimizer="fused", seed=2), name_of())
        self.assertNotEqual(name_of(frozen="embeddings"), name_of())

    def test_package_fits_if_its_json_says_so_and_it_is_whole(self):
        wanted = {"architecture": "AVX2", "step_version": 1}
        info = wanted | {"package_sha256": hashlib.sha256(b"package").hexdigest()}
        self.assertFalse(export_step.fits(self.folder, "x", wanted))
        export_step.write_atomically(self.folder / "x.pt2", b"package")
        self.assertFalse(export_step.fits(self.folder, "x", wanted))
        export_step.write_atomically(self.folder / "x.json", json.dumps(info).encode())
        self.assertTrue(export_step.fits(self.folder, "x", wanted))
        self.assertFalse(export_step.fits(self.folder, "x", wanted | {"architecture": "sm_90"}))
        export_step.write_atomically(self.folder / "x.pt2", b"packag")
        self.assertFalse(export_step.fits(self.folder, "x", wanted))
        self.assertEqual(sorted(os.listdir(self.folder)), ["x.json", "x.pt2"])

    def test_where_it_cannot_run_it_says_why_in_one_line(self):
        config_path = self.folder / "block_config.json"
        config_path.write_text(json.dumps({"schema_version": 1, "config": small_config()}),
                               encoding="utf-8")
        # A Python without site-packages has no torch.
        result = subprocess.run(
            [sys.executable, "-S", "-B", str(ARMS / "export_step.py")], capture_output=True,
            text=True, check=False,
            env=os.environ | {"STEPLENS_BLOCK_CONFIG": str(config_path),
                              "STEPLENS_PACKAGES": str(self.folder / "packages")})
        self.assertEqual(result.returncode, 4)
        self.assertEqual(result.stderr, "this Python has no package torch, which compile=aoti "
                                        "needs to export\n")
        self.assertFalse((self.folder / "packages").exists())


if __name__ == "__main__":
    unittest.main()
