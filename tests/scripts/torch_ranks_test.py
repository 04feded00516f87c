#!/usr/bin/env python3
"""Tests of torch-eager and torch-compile on two ranks: processes that DDP joins over gloo.

Two ranks must do what one does, and what two of steplens-worker do over MPI. Skipped, with a
reason, where this Python has no torch, or where there is no mpirun or no worker.
"""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from importlib.util import find_spec

ARMS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "arms"
sys.path.insert(0, str(ARMS))

import block_protocol
import rank_place
import rank_progress
import world_record

MISSING = [name for name in ("torch", "sympy", "mpmath") if not find_spec(name)]
CAN_COMPILE = find_spec("jinja2") and find_spec("networkx") and shutil.which("g++")
MPIRUN = shutil.which("mpirun")
WORKER = pathlib.Path(os.environ.get("STEPLENS_CLI_PATH", "/none")).with_name("steplens-worker")

END_TOKEN = 10  # A document is a line.
NUM_WARMUP, NUM_MEASURED = 2, 6
# What launchers say; none of it may come from the outside.
LAUNCHER_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class RankPlaceTest(unittest.TestCase):
    def error_of(self, environment, world_size):
        with self.assertRaises(block_protocol.UsageError) as caught:
            rank_place.place_in_block(environment, world_size)
        return str(caught.exception)

    def test_each_launcher_says_it_in_its_own_words(self):
        torchrun = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "host",
                    "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True"}
        self.assertEqual(rank_place.place_in_block(torchrun, 4),
                         ("torchrun", 3, 4, 1, "host", 29500, True))
        mpirun = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
        self.assertEqual(rank_place.place_in_block(mpirun, 2), ("mpirun", 1, 2, 1, "", 0, False))
        srun = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}
        self.assertEqual(rank_place.place_in_block(srun, 1), rank_place.ALONE)

    def test_wrong_worlds_are_refused(self):
        self.assertIn("nobody says which rank", self.error_of({}, 2))
        two = {"RANK": "0", "WORLD_SIZE": "2"}
        self.assertIn("the block is for 1 rank, and torchrun started 2", self.error_of(two, 1))
        self.assertIn("RANK=2: takes an integer from 0 to 1", self.error_of(two | {"RANK": "2"}, 2))
        self.assertIn("MASTER_PORT is not", self.error_of(two | {"MASTER_ADDR": "host"}, 2))


class RankProgressTest(unittest.TestCase):
    def run_rank(self, code):
        """Exit code, and what the page then says."""
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [sys.executable, "-c",
                 f"import time, rank_progress; rank = rank_progress.RankProgress('{folder}', 1)\n"
                 f"{code}"], cwd=ARMS, timeout=60, check=False)
            data = (pathlib.Path(folder) / "rank1.progress").read_bytes()
        return result.returncode, rank_progress.Page.from_buffer_copy(data)

    def test_page_is_that_of_the_scheduler(self):
        code, page = self.run_rank("rank.note_step_begin(); rank.note_range('backward')\n"
                                   "rank.note_collective(); rank.note_end(rank_progress.DONE)")
        self.assertEqual(code, 0)
        # Offsets of the struct in harness/ranks/rank_progress.cpp.
        magic, state, _, num_steps, num_collectives, name = struct.unpack("<8sIiqq8s",
                                                                          bytes(page)[:40])
        self.assertEqual((magic, state, num_steps, num_collectives, name),
                         (b"spless01", rank_progress.DONE, 1, 1, b"backward"))
        self.assertEqual(len(bytes(page)), 496)

    def test_one_that_is_silent_in_a_step_ends(self):
        code, page = self.run_rank("rank.end_if_silent(1); rank.note_step_begin(); time.sleep(50)")
        self.assertEqual((code, page.state), (3, rank_progress.FAILED))
        self.assertIn(b"waited for the other ranks: no phase of a step ended for 1 s", page.reason)

    def test_one_that_is_silent_before_its_steps_goes_on(self):
        code, page = self.run_rank("rank.end_if_silent(1); rank.note_range('x'); time.sleep(1.5)\n"
                                   "rank.note_step_begin(); rank.note_steps_end(); time.sleep(1.5)")
        self.assertEqual((code, page.state), (0, rank_progress.RUNNING))


class WorldRecordTest(unittest.TestCase):
    def record(self, rank, **changes):
        steps = dict.fromkeys(block_protocol.StepArrays.NAMES, [1, 1]) | {
            "step_wall_ns": [100, 80 + 10 * rank], "loss": [0.5, 0.25 + rank],
            "num_valid_tokens": [3, 4 + rank], "data_wait_ns": [5 * rank, 7]}
        return {"rank": rank, "status": "ok", "reason": "", "memory": {"peak_rss_bytes": 9},
                "samples": {"energy_j": 3.5 + rank, "num_samples": 8},
                "evidence": {}, "data_hash": f"own{rank}", "data_set_hash": "s",
                "weights_hash": "w", "final_weights_hash": "f", "warmup": steps,
                "steps": steps} | changes

    def world(self, *records):
        return world_record.record_of_world(list(records), "all", ["own0", "own1"])

    def test_sums_over_ranks_and_keeps_the_times_of_rank_0(self):
        world = self.world(self.record(0), self.record(1))
        self.assertEqual((world["status"], world["data_hash"]), ("ok", "all"))
        self.assertEqual(world["steps"]["loss"], [1.0, 1.5])
        self.assertEqual(world["steps"]["num_valid_tokens"], [6, 9])
        self.assertEqual(world["steps"]["data_wait_ns"], [5, 7])
        self.assertEqual(world["steps"]["step_wall_ns"], [100, 80])
        self.assertEqual(world["steps"]["grad_norm"], [1, 1])
        # Steps 100 and 100, 80 and 90: no skew, and 10 of 90.
        self.assertAlmostEqual(world["evidence"]["rank_skew_ratio"], (10 / 90) / 2)
        self.assertEqual([row["mean_step_wall_ns"] for row in world["evidence"]["ranks"]],
                         [90, 95])
        self.assertEqual([row["energy_j"] for row in world["evidence"]["ranks"]], [3.5, 4.5])
        self.assertNotIn("num_samples", world["evidence"]["ranks"][0])

    def test_ranks_that_disagree_are_invalid(self):
        for change, words in (({"final_weights_hash": "g"}, "rank 1 ended with other weights"),
                              ({"weights_hash": "g"}, "rank 1 began with other weights"),
                              ({"data_set_hash": "g"}, "rank 1 read other data"),
                              ({"data_hash": "own0"}, "rank 1 trained on other tokens")):
            world = self.world(self.record(0), self.record(1, **change))
            self.assertEqual(world["status"], "invalid")
            self.assertIn(words, world["reason"])
            self.assertEqual(world["steps"]["loss"], [])

    def test_a_rank_that_failed_gives_its_reason(self):
        world = self.world(self.record(0), self.record(1, status="nan", reason="loss nan"))
        self.assertEqual((world["status"], world["reason"]), ("nan", "rank 1: loss nan"))


class RanksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        tokens = pathlib.Path(__file__).read_bytes()  # A real text: this file.
        cls.data_path = cls.folder / "x.bin"
        cls.data_path.write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
        cls.data_path.with_suffix(".json").write_text(json.dumps({
            "schema_version": 1, "name": "text", "tokenizer": "bytes", "dtype": "uint16",
            "vocab_size": 257, "num_tokens": len(tokens), "max_token": max(tokens),
            "num_documents": tokens.count(END_TOKEN), "document_end_token": END_TOKEN,
            "sha256": "0" * 64, "source": {}}), encoding="utf-8")
        cls.num_blocks = 0
        cls.eager_records = {}  # Maps what an eager block changes to its record.

    def block(self, num_measured=NUM_MEASURED, collective_timeout_s=300, **changes):
        config = {
            "model": "tiny", "device": "cpu", "num_layers": 2, "d_model": 16, "num_heads": 4,
            "num_kv_heads": 2, "head_dim": 4, "ffn_width": 24, "vocab_size": 257,
            "sequence_length": 32, "global_batch": 8, "accumulation": 2,
            "accumulation_holds": "global_batch", "world_size": 2, "precision": "fp32",
            "attention": "math", "optimizer": "foreach", "graph": "off", "checkpoint": "off",
            "data": "sync", "batching": "packed", "sync_every_micro_step": "off",
            "no_sync": "off", "bucket_mb": 25, "comm_dtype": "fp32", "overlap": "on",
            "reducer": "several_ranks", "frozen": "none", "allocator": "default",
            "instrumentation": "full", "injected_spin_ns": 0, "num_threads": 1, "seed": 1,
            "learning_rate": 1e-2, "min_learning_rate_ratio": 0.1, "num_lr_warmup_steps": 2,
            "num_lr_total_steps": 20, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95,
            "epsilon": 1e-8, "max_grad_norm": 1.0, "norm_epsilon": 1e-5, "rope_base": 10000.0,
        } | changes
        output = self.folder / f"block{self.num_blocks}"
        type(self).num_blocks += 1
        output.mkdir()
        return {"schema_version": 1, "config": config, "seed": 1, "kind": "throughput",
                "arm": "arm", "round_index": 0, "rank": 0, "world_size": config["world_size"],
                "device": {"id": ""}, "first_data_step_index": 0,
                "num_warmup_steps": NUM_WARMUP, "num_measured_steps": num_measured,
                "timeout_s": 900, "collective_timeout_s": collective_timeout_s,
                "data_path": str(self.data_path), "output_folder": str(output)}

    def start(self, block, command, launcher="own", loaded_files=(), **variables):
        """The processes of the block's ranks: our own launcher's, or one mpirun or torchrun. With
        `loaded_files`, one a rank, they wait for their block."""
        path = pathlib.Path(block["output_folder"]) / "block_config.json"
        path.write_text(json.dumps(block), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items()
                       if name not in LAUNCHER_VARIABLES}
        environment |= {"STEPLENS_BLOCK_CONFIG": str(path), "OMP_NUM_THREADS": "1",
                        "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor")} | variables
        commands = [(command, {})]
        if launcher == "own" and block["world_size"] > 1:
            commands = [(command, {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                                   rank_place.OWN_LAUNCHER: "1"}) for rank in range(2)]
            for (_, own), loaded_file in zip(commands, loaded_files):
                own["STEPLENS_START_AHEAD"] = str(loaded_file)
        elif launcher == "mpirun":
            root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            commands = [([MPIRUN, *root, "-n", "2", "--oversubscribe", "--bind-to", "none", "--mca",
                          "btl", "self,vader", "--mca", "plm", "isolated", *command],
                         {rank_place.OWN_LAUNCHER: "1"})]
        elif launcher == "torchrun":
            commands = [([sys.executable, "-m", "torch.distributed.run", "--standalone",
                          "--local-addr", "127.0.0.1", "--nproc-per-node", "2",
                          *command[1:]], {})]
        source = subprocess.PIPE if loaded_files else subprocess.DEVNULL
        return [subprocess.Popen(words, env=environment | own, text=True, stdin=source,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                for words, own in commands]

    def run_block(self, block, command=None, launcher="own"):
        command = command or [sys.executable, str(ARMS / "torch_step.py")]
        processes = self.start(block, command, launcher)
        for process in processes:
            output, _ = process.communicate(timeout=900)  # Two ranks that compile take minutes.
            self.assertEqual(process.returncode, 0, output)
        record = json.loads(
            (pathlib.Path(block["output_folder"]) / "block.json").read_text(encoding="utf-8"))
        self.assertEqual((record["status"], record["reason"]), ("ok", ""))
        return record

    def eager_record(self, **changes):
        """Of our own launcher's ranks; several tests compare with the same block, which runs once."""
        key = tuple(sorted(changes.items()))
        if key not in self.eager_records:
            self.eager_records[key] = self.run_block(self.block(**changes))
        return self.eager_records[key]

    def assert_same(self, record, reference, tolerance=1e-4):
        for name in ("data_set_hash", "weights_hash"):
            self.assertEqual(record[name], reference[name], name)
        for phase, num_steps in (("warmup", NUM_WARMUP), ("steps", NUM_MEASURED)):
            for name in ("num_valid_tokens", "num_loss_tokens"):
                self.assertEqual(record[phase][name], reference[phase][name], name)
            for name in ("loss", "grad_norm", "lr"):
                self.assertEqual(len(record[phase][name]), num_steps)
                for value, expected in zip(record[phase][name], reference[phase][name]):
                    self.assertLess(abs(value / expected - 1), tolerance, name)


@unittest.skipIf(MISSING, f"this Python has no {', '.join(MISSING)}")
class TorchRanksTest(RanksTest):
    def test_two_ranks_do_what_one_does(self):
        for batching, settings in (("packed", ("off", "on")), ("bucketed", ("on",))):
            alone = self.eager_record(world_size=1, batching=batching)
            for no_sync in settings:
                with self.subTest(batching=batching, no_sync=no_sync):
                    record = self.eager_record(batching=batching, no_sync=no_sync)
                    ranks = record["evidence"]["ranks"]
                    self.assertNotEqual(ranks[0]["data_hash"], ranks[1]["data_hash"])
                    if batching == "packed":  # One rank consumes them in the same order.
                        self.assertEqual(record["data_hash"], alone["data_hash"])
                    if batching == "bucketed":
                        # Rows sorted by length reach one rank in other micro-batches, not others.
                        self.assertNotEqual(ranks[0]["num_valid_tokens"],
                                            ranks[1]["num_valid_tokens"])
                    self.assert_same(record, alone)

    def test_ranks_started_before_their_block_wait_for_it(self):
        loaded = [self.folder / f"loaded{rank}" for rank in range(2)]
        earlier = self.block()  # Not theirs.
        processes = self.start(earlier, [sys.executable, str(ARMS / "torch_step.py")],
                               loaded_files=loaded)
        while not all(path.exists() for path in loaded):
            time.sleep(0.05)
        block = self.block()
        path = pathlib.Path(block["output_folder"]) / "block_config.json"
        path.write_text(json.dumps(block), encoding="utf-8")
        for process in processes:
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
        for process in processes:
            output, _ = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, output)
        record = json.loads((path.parent / "block.json").read_text(encoding="utf-8"))
        self.assert_same(record, self.eager_record())

    def test_gradients_travel_as_16_bit_numbers(self):
        exact = self.eager_record(batching="packed", no_sync="off")
        for comm_dtype in ("bf16", "fp16"):
            with self.subTest(comm_dtype=comm_dtype):
                record = self.run_block(self.block(comm_dtype=comm_dtype, no_sync="on"))
                self.assertIn(comm_dtype, record["evidence"]["ddp"]["comm_hook"])
                self.assertNotEqual(record["steps"]["grad_norm"], exact["steps"]["grad_norm"])
                self.assert_same(record, exact, tolerance=0.02)

    @unittest.skipUnless(CAN_COMPILE, "this Python cannot compile")
    def test_compiled_ranks_do_what_one_eager_rank_does(self):
        # Embedding and head hold 2 MiB each: three buckets, and as many graphs at least.
        # Flash attention is one operator, so that they have fewer kernels to compile.
        wide = {"vocab_size": 8192, "d_model": 64, "head_dim": 16, "bucket_mb": 1, "num_layers": 1,
                "attention": "flash"}
        alone = self.eager_record(world_size=1, **wide)
        record = self.run_block(self.block(no_sync="on", **wide), [
            sys.executable, str(ARMS / "torch_compile_step.py")])
        self.assert_same(record, alone)
        self.assertGreater(record["compile_ns"], 0)
        num_buckets = len(record["evidence"]["ddp"]["bucket_bytes"])
        self.assertGreaterEqual(num_buckets, 3)
        compiled = record["evidence"]["compile"]
        self.assertGreaterEqual(compiled["num_cache_misses"], num_buckets)
        self.assertEqual(compiled["num_compilations_in_steps"], 0)
        self.assertEqual(compiled["failures"], [])
        for reason in compiled["graph_break_reasons"]:  # Of DDP's own forward, not of the model.
            self.assertRegex(reason, "DistributedDataParallel|Reducer")

    def test_torchrun_starts_them_too(self):
        alone = self.eager_record(world_size=1, batching="packed")
        self.assert_same(self.run_block(self.block(), launcher="torchrun"), alone)

    @unittest.skipUnless(MPIRUN and WORKER.exists(), "no mpirun, or no steplens-worker")
    def test_two_ranks_do_what_those_of_the_worker_do(self):
        for changes in ({"no_sync": "on", "frozen": "embeddings", "batching": "bucketed"},
                        {"batching": "padded"}):
            with self.subTest(**changes):
                reference = self.run_block(self.block(**changes), [str(WORKER)], "mpirun")
                record = self.run_block(self.block(**changes), launcher="mpirun")
                self.assertEqual(record["data_hash"], reference["data_hash"])
                self.assert_same(record, reference)
                self.assertEqual(record["steps"]["num_positions"],
                                 reference["steps"]["num_positions"])

    def page_of(self, block, rank):
        path = pathlib.Path(block["output_folder"]) / f"rank{rank}.progress"
        data = path.read_bytes() if path.exists() else b""
        if len(data) < ctypes.sizeof(rank_progress.Page):
            return rank_progress.Page()
        return rank_progress.Page.from_buffer_copy(data)

    def test_a_rank_without_its_packages_says_so(self):
        block = self.block()
        (self.folder / "sympy.py").write_text(
            "raise ModuleNotFoundError('none', name='sympy')", encoding="utf-8")
        for process in self.start(block, [sys.executable, str(ARMS / "torch_step.py")],
                                  PYTHONPATH=str(self.folder)):
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 2)
        page = self.page_of(block, 1)
        self.assertEqual(page.state, rank_progress.FAILED)
        self.assertIn(b"no package sympy", page.reason)

    def signal_rank_1(self, block, number):
        """In its fourth step or later."""
        processes = self.start(block, [sys.executable, str(ARMS / "torch_step.py")])
        for process in processes:
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        end_s = time.monotonic() + 120
        while self.page_of(block, 1).num_steps < 4:
            self.assertLess(time.monotonic(), end_s, "rank 1 did not come to its fourth step")
            time.sleep(0.01)
        processes[1].send_signal(number)
        return processes

    def test_a_killed_rank_is_the_only_one_that_died(self):
        block = self.block(num_measured=1_000_000)
        processes = self.signal_rank_1(block, signal.SIGKILL)
        self.assertEqual(processes[0].wait(60), 3)
        self.assertEqual(self.page_of(block, 0).state, rank_progress.STOPPED)
        self.assertEqual(self.page_of(block, 1).state, rank_progress.RUNNING)
        self.assertFalse((pathlib.Path(block["output_folder"]) / "block.json").exists())

    def test_a_rank_says_that_it_waited_for_one_that_hangs(self):
        block = self.block(num_measured=1_000_000, collective_timeout_s=3)
        processes = self.signal_rank_1(block, signal.SIGSTOP)
        self.assertEqual(processes[0].wait(60), 3)
        page = self.page_of(block, 0)
        self.assertEqual(page.state, rank_progress.FAILED)
        self.assertTrue(page.reason.decode().startswith(rank_progress.WAITED_FOR_RANKS),
                        page.reason)

    def test_a_rank_that_is_asked_to_end_ends_while_it_waits(self):
        block = self.block(num_measured=1_000_000)
        processes = self.signal_rank_1(block, signal.SIGSTOP)
        time.sleep(0.5)  # Rank 0 now waits in a collective.
        processes[0].terminate()
        self.assertEqual(processes[0].wait(20), 143)
        self.assertEqual(self.page_of(block, 0).state, rank_progress.STOPPED)


if __name__ == "__main__":
    unittest.main()
