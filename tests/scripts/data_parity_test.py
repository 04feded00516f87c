#!/usr/bin/env python3
"""Tests of the Python arms: the data against values that the C++ tests hold too, then the step.

The part that needs torch is skipped, with a reason, where torch cannot be imported.
"""

import hashlib
import importlib.util
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ARMS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "arms"
sys.path.insert(0, str(ARMS))

import block_protocol  # noqa: E402
import token_data  # noqa: E402

# LibTorch needs the wheel alone; its Python needs three small packages more.
MISSING = [name for name in ("torch", "typing_extensions", "sympy", "mpmath")
           if not importlib.util.find_spec(name)]
if not MISSING:
    import torch  # noqa: E402

    import torch_data  # noqa: E402
    import torch_model  # noqa: E402
    import torch_step  # noqa: E402
    import torch_train_step  # noqa: E402

# The three spans of tests/catalog/batcher_test.cpp: [1 2 3 9], [4 5 9 6], [7 8 1 2].
SMALL_STREAM = [1, 2, 3, 9, 4, 5, 9, 6, 7, 8, 1, 2, 3]


class FolderTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write_tokens(self, tokens, code="H", info=None, header=b""):
        path = self.folder / "x.bin"
        path.write_bytes(header + struct.pack(f"<{len(tokens)}{code}", *tokens))
        if info:
            path.with_suffix(".json").write_text(json.dumps(info), encoding="utf-8")
        return path

    def error_of_opening(self, path):
        with self.assertRaises(token_data.DataError) as caught:
            token_data.TokenFile(path)
        return str(caught.exception)


def small_config(**changes):
    return {"sequence_length": 4, "global_batch": 3, "accumulation": 1, "seed": 1,
            "vocab_size": 10, "batching": "packed", "world_size": 1} | changes


class PermutationTest(unittest.TestCase):
    def test_generator_gives_published_sequence(self):
        random = token_data.splitmix64(1234567)
        self.assertEqual([next(random) for _ in range(3)],
                         [6457827717110365317, 3203168211198807973, 9817491932198370423])

    def test_gives_same_order_as_cpp(self):
        self.assertEqual(token_data.permutation(10, 1, 0), [4, 2, 1, 3, 7, 9, 5, 0, 6, 8])
        self.assertEqual(token_data.permutation(10, 1, 1), [3, 8, 0, 1, 7, 2, 4, 9, 5, 6])
        self.assertEqual(token_data.permutation(10, 2, 0), [9, 5, 3, 7, 4, 8, 1, 0, 2, 6])
        self.assertEqual(token_data.permutation(5, 7, 2**63 + 4), [3, 4, 0, 1, 2])
        self.assertEqual(token_data.permutation(1000, 12345, 3)[:8],
                         [743, 95, 627, 844, 152, 467, 456, 5])


class SpansTest(unittest.TestCase):
    def test_follow_the_permutation_into_the_next_epoch(self):
        self.assertEqual(token_data.span_offsets(13, small_config(), 0, 1), [4, 0, 8])
        config = small_config(global_batch=2)
        self.assertEqual(token_data.span_offsets(13, config, 1, 2), [8, 0, 8, 4])

    def test_leave_out_the_last_span_that_has_no_target(self):
        offsets = token_data.span_offsets(12, small_config(global_batch=2), 0, 3)
        self.assertLess(max(offsets), 8)

    def test_are_more_when_the_micro_batch_is_held(self):
        config = small_config(global_batch=2, accumulation=3, accumulation_holds="micro_batch")
        self.assertEqual(len(token_data.span_offsets(13, config, 0, 1)), 6)

    def test_hash_is_that_of_cpp_whatever_the_order(self):
        expected = "a4c41abf8425860a9333c88425954ad640835cb10c30b9337acb21c892d24740"
        self.assertEqual(token_data.data_set_hash(SMALL_STREAM, [4, 0, 8], 4), expected)
        self.assertEqual(token_data.data_set_hash(SMALL_STREAM, [0, 4, 8], 4), expected)


class TokenFileTest(FolderTest):
    def test_without_json_is_uint16(self):
        file = token_data.TokenFile(self.write_tokens([258, 5, 65535]))
        self.assertEqual(list(file.tokens), [258, 5, 65535])
        self.assertEqual(file.max_token, 65535)

    def test_follows_its_json(self):
        info = {"dtype": "uint32", "num_tokens": 2, "max_token": 100000}
        file = token_data.TokenFile(self.write_tokens([100000, 7], "I", info))
        self.assertEqual(list(file.tokens), [100000, 7])
        file.check_fits(small_config(vocab_size=100001, sequence_length=1))
        with self.assertRaisesRegex(token_data.DataError, "vocab_size=100000"):
            file.check_fits(small_config(vocab_size=100000, sequence_length=1))
        with self.assertRaisesRegex(token_data.DataError, "sequence_length=2"):
            file.check_fits(small_config(vocab_size=100001, sequence_length=2))

    def test_reads_header_of_llm_c(self):
        header = struct.pack("<3i", 20240520, 1, 3) + bytes(1012)
        file = token_data.TokenFile(self.write_tokens([5, 6, 7], header=header))
        self.assertEqual(list(file.tokens), [5, 6, 7])
        self.assertIn("damaged header",
                      self.error_of_opening(self.write_tokens([5, 6], header=header)))

    def test_refuses_damage(self):
        self.assertIn("cannot read", self.error_of_opening(self.folder / "none.bin"))
        self.assertIn("is empty", self.error_of_opening(self.write_tokens([])))
        info = {"dtype": "uint16", "num_tokens": 3, "max_token": 9}
        self.assertIn("its JSON says 3",
                      self.error_of_opening(self.write_tokens([1, 2], info=info)))
        self.assertIn("damaged",
                      self.error_of_opening(self.write_tokens([1, 2], info={"dtype": "uint16"})))


class BlockProtocolTest(FolderTest):
    def test_learning_rate_warms_up_then_follows_a_cosine(self):
        config = {"learning_rate": 1.0, "num_lr_warmup_steps": 4, "num_lr_total_steps": 14,
                  "min_learning_rate_ratio": 0.1}
        rates = {i: block_protocol.learning_rate_at(config, i) for i in (0, 3, 4, 9, 14, 100)}
        for step, expected in {0: 0.25, 3: 1.0, 4: 1.0, 9: 0.55, 14: 0.1, 100: 0.1}.items():
            self.assertAlmostEqual(rates[step], expected, places=12)

    def steps_until_settled(self, step_ns, event_steps=()):
        detector = block_protocol.WarmupDetector()
        for i, value in enumerate(step_ns):
            if detector.feed(value, i in event_steps):
                return i + 1, detector.num_warmup_steps
        return None

    def test_warmup_settles_after_20_level_and_10_quiet_steps(self):
        self.assertEqual(self.steps_until_settled([100] * 60), (20, 0))
        self.assertEqual(self.steps_until_settled([100] * 60, {3}), (20, 4))
        self.assertEqual(self.steps_until_settled([100] * 60, {14}), (25, 15))
        self.assertIsNone(self.steps_until_settled([1000 - 10 * i for i in range(60)]))

    def test_warmup_leaves_out_one_slow_first_step(self):
        self.assertEqual(self.steps_until_settled([5000] + [100, 101] * 30), (20, 1))

    def test_record_is_written_whole_with_null_for_nan(self):
        block = {"kind": "throughput", "config": {}, "output_folder": str(self.folder)}
        record = block_protocol.new_record(block)
        record["steps"]["loss"] = [1.5, math.nan, math.inf]
        block_protocol.write_record(block, record)
        self.assertEqual(os.listdir(self.folder), ["block.json"])
        written = json.loads((self.folder / "block.json").read_text(encoding="utf-8"))
        self.assertEqual(written["steps"]["loss"], [1.5, None, None])
        self.assertEqual(written["status"], "ok")
        self.assertIsNone(written["steps"]["step_gpu_ns"])


@unittest.skipIf(MISSING, f"this Python has no {', '.join(MISSING)}")
class TorchStepTest(FolderTest):
    def setUp(self):
        super().setUp()
        # Bytes of a real text: this file.
        text = pathlib.Path(__file__).read_bytes()
        self.data_path = self.write_tokens(list(text))

    def block(self, kind="throughput", num_warmup=2, num_measured=3, **changes):
        config = {
            "device": "cpu", "num_layers": 2, "d_model": 16, "num_heads": 4, "num_kv_heads": 4,
            "head_dim": 4, "ffn_width": 24, "vocab_size": 257, "sequence_length": 16,
            "global_batch": 8, "accumulation": 1, "accumulation_holds": "global_batch",
            "world_size": 1, "precision": "fp32", "attention": "math", "optimizer": "foreach",
            "graph": "off", "checkpoint": "off", "data": "sync", "batching": "packed",
            "sync_every_micro_step": "off", "frozen": "none", "allocator": "default",
            "instrumentation": "full", "injected_spin_ns": 0, "num_threads": 1, "seed": 1,
            "learning_rate": 1e-2, "min_learning_rate_ratio": 0.1, "num_lr_warmup_steps": 2,
            "num_lr_total_steps": 10, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95,
            "epsilon": 1e-8, "max_grad_norm": 1.0, "norm_epsilon": 1e-5, "rope_base": 10000.0,
        } | changes
        return {"schema_version": 1, "config": config, "seed": config["seed"], "kind": kind,
                "arm": "torch-eager", "round_index": 4, "rank": 0, "world_size": 1,
                "device": {"type": "cpu", "id": ""}, "first_data_step_index": 0,
                "num_warmup_steps": num_warmup, "num_measured_steps": num_measured,
                "max_pilot_s": 60, "timeout_s": 600, "data_path": str(self.data_path),
                "output_folder": str(self.folder)}

    def run_ok(self, **changes):
        record = torch_step.run_block(self.block(**changes))
        self.assertEqual((record["status"], record["reason"]), ("ok", ""))
        return record

    def losses(self, record):
        return record["warmup"]["loss"] + record["steps"]["loss"]

    def assert_same_maths(self, record, reference):
        for name in ("data_hash", "data_set_hash", "weights_hash"):
            self.assertEqual(record[name], reference[name])
        for name in ("loss", "grad_norm", "lr"):
            for value, expected in zip(record["steps"][name], reference["steps"][name]):
                self.assertLess(abs(value / expected - 1), 1e-4, name)

    def test_record_holds_what_the_protocol_asks_for(self):
        record = self.run_ok()
        for phase, num_steps in (("warmup", 2), ("steps", 3)):
            for name, values in record[phase].items():
                if name == "step_gpu_ns":
                    self.assertIsNone(values)
                else:
                    self.assertEqual(len(values), num_steps, name)
        self.assertEqual(record["steps"]["num_valid_tokens"], [128] * 3)
        self.assertEqual(sum(record["steps"]["step_wall_ns"]), record["measured_wall_ns"])
        self.assertEqual(record["arm"], "torch-eager")
        self.assertEqual(record["round_index"], 4)
        self.assertNotEqual(record["weights_hash"], record["final_weights_hash"])
        # Warm-up over two optimizer steps, then the cosine's first points: floor 1e-3, span 8.
        expected = [5e-3, 1e-2, 1e-2] + [1e-3 + 4.5e-3 * (1 + math.cos(math.pi * i / 8))
                                         for i in (1, 2)]
        for value, wanted in zip(record["warmup"]["lr"] + record["steps"]["lr"], expected):
            self.assertAlmostEqual(value, wanted, places=12)

    def test_loss_starts_at_the_uniform_guess_and_falls(self):
        losses = self.losses(self.run_ok(num_warmup=2, num_measured=30, num_lr_total_steps=100))
        self.assertAlmostEqual(losses[0], math.log(257), delta=0.05)
        self.assertLess(losses[-1], losses[0] - 1)

    def test_settings_of_equal_maths_agree(self):
        reference = self.run_ok()
        for changes in ({"accumulation": 4}, {"data": "prefetch"}, {"attention": "flash"},
                        {"optimizer": "loop"}, {"optimizer": "fused"}, {"checkpoint": "full"},
                        {"sync_every_micro_step": "on"}):
            with self.subTest(**changes):
                self.assert_same_maths(self.run_ok(**changes), reference)

    def test_other_seed_is_other_data_and_weights(self):
        reference, other = self.run_ok(), self.run_ok(seed=2)
        for name in ("data_hash", "data_set_hash", "weights_hash"):
            self.assertNotEqual(other[name], reference[name])

    def test_gradient_norm_is_taken_before_the_clip(self):
        loose, tight = self.run_ok(max_grad_norm=1e6), self.run_ok(max_grad_norm=1e-3)
        self.assertEqual(tight["warmup"]["grad_norm"][0], loose["warmup"]["grad_norm"][0])
        self.assertGreater(tight["warmup"]["grad_norm"][0], 1e-3)
        self.assertNotEqual(tight["final_weights_hash"], loose["final_weights_hash"])

    def test_grouped_heads_run(self):
        self.run_ok(num_kv_heads=2)

    def test_frozen_embedding_does_not_change(self):
        config = self.block(frozen="embeddings")["config"]
        step = torch_train_step.TrainStep(config, torch.device("cpu"), 1)
        before = [parameter.clone() for parameter in step.model.parameters]
        tokens = torch.arange(32).view(1, 2, 1, 16)
        step.run(tokens, 16)
        is_same = [torch.equal(a, b) for a, b in zip(step.model.parameters, before)]
        self.assertEqual(is_same, [True] + [False] * (len(before) - 1))

    def test_packed_hash_is_that_of_cpp(self):
        path = self.write_tokens(SMALL_STREAM)
        for accumulation in (1, 3):
            config = small_config(accumulation=accumulation, data="sync")
            batches = torch_data.Batches(token_data.TokenFile(path), config, 0, 1)
            batches.make(0)
            self.assertEqual(batches.data_hash(1),
                             "f9b724ae9d60d9e803f0802d019870c9b8cb65849e906007c66dfa5ce257643c")

    def small_batches(self, **changes):
        # Token 9 ends a document: pieces [1 2 3 9], [4 5 9], [6], [7 8 1 2] and [1 2 3 9] again.
        path = self.write_tokens(SMALL_STREAM, info={"dtype": "uint16", "num_tokens": 13,
                                                     "max_token": 9, "document_end_token": 9})
        config = small_config(data="sync", global_batch=4, **changes)
        return torch_data.Batches(token_data.TokenFile(path), config, 0, 1)

    def test_bucketed_rows_are_those_of_cpp(self):
        # The values of tests/catalog/batcher_test.cpp, BucketedRowsAreSortedByLength.
        batches = self.small_batches(batching="bucketed", accumulation=2)
        first, second = batches.make(0)
        self.assertEqual(first[0].flatten().tolist(), [6, 0, 0, 0, 4, 5, 9, 0, 1, 2, 3, 9])
        self.assertEqual(first[1].flatten().tolist(),
                         [7, -100, -100, -100, 5, 9, -100, -100, 2, 3, 9, -100])
        self.assertEqual(second[0].flatten().tolist(), [7, 8, 1, 2, 1, 2, 3, 9])
        # 20 positions, 16 tokens, of which three end a document.
        self.assertEqual(batches.counts(0), (20, 16, 13))

    def test_padded_rows_keep_their_order_and_the_full_length(self):
        batches = self.small_batches(batching="padded")
        (pair_2BT,) = batches.make(0)
        self.assertEqual(pair_2BT[0].tolist(), [[4, 5, 9, 0], [6, 0, 0, 0], [1, 2, 3, 9],
                                                [7, 8, 1, 2], [1, 2, 3, 9]])

    def test_more_micro_batches_than_rows_are_refused(self):
        with self.assertRaisesRegex(token_data.DataError, "accumulation=8: .*batching=padded"):
            self.small_batches(batching="padded", accumulation=8)

    def test_weights_hash_is_two_sums_of_bits(self):
        model = torch_model.Model(self.block()["config"], torch.device("cpu"))
        digest = hashlib.sha256()
        for parameter in model.parameters:
            values = parameter.detach().flatten().tolist()
            bits = struct.unpack(f"<{len(values)}i", struct.pack(f"<{len(values)}f", *values))
            weighted = sum(b * (i % 65521 + 1) for i, b in enumerate(bits))
            digest.update(struct.pack("<2Q", sum(bits) % 2**64, weighted % 2**64))
        self.assertEqual(model.weights_hash(), digest.hexdigest())

    def test_pilot_reports_its_warmup(self):
        record = torch_step.run_block(self.block(kind="pilot", num_warmup=200, num_measured=10,
                                                 data="prefetch"))
        self.assertEqual(record["status"], "ok")
        num_steps = len(record["warmup"]["loss"]) + len(record["steps"]["loss"])
        self.assertGreaterEqual(num_steps, 20)
        self.assertEqual(len(record["warmup"]["loss"]),
                         record["evidence"]["detected_warmup_steps"])

    def test_what_it_cannot_run_is_a_row_with_a_reason(self):
        for changes in ({"compile": "aoti"}, {"graph": "on"}, {"overlap": "off", "world_size": 2},
                        {"precision": "fp16"}, {"attention": "cudnn"}, {"data": "pinned"},
                        {"injected_spin_ns": 5}, {"allocator": "expandable_segments"}):
            with self.subTest(**changes):
                record = torch_step.run_block(self.block(**changes))
                self.assertEqual(record["status"], "unsupported")
                self.assertIn(next(iter(changes)), record["reason"])

    def test_loss_that_is_no_number_is_a_row(self):
        record = torch_step.run_block(self.block(learning_rate=1e25))
        self.assertEqual(record["status"], "nan")
        self.assertIn("measured step 0", record["reason"])

    def test_exception_is_a_row_with_its_last_line(self):
        record = torch_step.run_block(self.block(d_model=18))  # 18 channels, heads for 16.
        self.assertEqual(record["status"], "ok")  # wo maps the heads back: any width works.
        record = torch_step.run_block(self.block(head_dim=3))
        self.assertEqual(record["status"], "crash")
        self.assertIn("RuntimeError", record["reason"])
        self.assertEqual(record["steps"]["loss"], [])

    def run_program(self, environment):
        return subprocess.run([sys.executable, str(ARMS / "torch_step.py")],
                              env=os.environ | environment, capture_output=True, text=True,
                              check=False)

    def test_program_writes_block_json_from_the_environment(self):
        config_path = self.folder / "block_config.json"
        config_path.write_text(json.dumps(self.block()), encoding="utf-8")
        result = self.run_program({"STEPLENS_BLOCK_CONFIG": str(config_path)})
        self.assertEqual(result.returncode, 0, result.stderr)
        record = json.loads((self.folder / "block.json").read_text(encoding="utf-8"))
        self.assertEqual(record["status"], "ok")
        self.assertEqual(record["weights_hash"], self.run_ok()["weights_hash"])

    def test_program_refuses_what_it_cannot_read(self):
        result = self.run_program({"STEPLENS_BLOCK_CONFIG": ""})
        self.assertEqual(result.returncode, 2)
        self.assertIn("STEPLENS_BLOCK_CONFIG is not set", result.stderr)
        config_path = self.folder / "block_config.json"
        block = self.block() | {"data_path": str(self.folder / "none.bin")}
        config_path.write_text(json.dumps(block), encoding="utf-8")
        result = self.run_program({"STEPLENS_BLOCK_CONFIG": str(config_path)})
        self.assertEqual(result.returncode, 2)
        self.assertIn("none.bin: cannot read", result.stderr)


if __name__ == "__main__":
    unittest.main()
