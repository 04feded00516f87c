"""Ranks of a Python arm: they meet, and PyTorch's DistributedDataParallel joins their gradients.

As workloads/parallel has it for the C++ step: a TCPStore on 127.0.0.1 unless the launcher names
another address, NCCL between GPUs; between CPU ranks PyTorch's wheels have gloo in place of MPI.
"""

import contextlib
import datetime
import json
import os
import pathlib
import socket
import time

import torch
import torch.distributed
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import block_protocol
import rank_place
import rank_progress
import world_record

LOOPBACK = "127.0.0.1"
RENDEZVOUS = "rendezvous.json"
RENDEZVOUS_POLL_S = 0.01
DEFAULT_BUCKET_MB = 25  # Of DDP, whose first bucket then holds 1 MiB.
COMM_HOOKS = {"bf16": default_hooks.bf16_compress_hook, "fp16": default_hooks.fp16_compress_hook}
# What gloo says of a rank that has gone, and what either backend says of one that does not come.
LOST_PEER = ("Connection closed by peer", "Connection reset by peer", "Broken pipe",
             "Socket closed")
TIMED_OUT = ("Timed out", "timed out", "timeout", "Timeout")
# DDP's logger reads the events of its first ten iterations, waiting for the GPU in each. A passing
# effect of a training run, which would be most of a short block.
NUM_LOGGED_ITERATIONS = 11
# After the arm's own patience: NCCL's watchdog aborts a process before it can say why.
NCCL_EXTRA_TIMEOUT_S = 60


def why_unsupported(config):
    """A whole sentence, or nothing if DDP can run the config on its ranks."""
    if config.get("reducer", "several_ranks") == "always" and config["world_size"] == 1:
        return "reducer=always: is of steplens-worker alone; this arm has no DDP on one rank."
    if config["world_size"] > 1 and config.get("overlap", "on") == "off":
        return ("overlap=off: is of steplens-worker alone; DDP sends a bucket as soon as it is "
                "full.")
    return ""


def why_only_one_rank(config):
    """The same for an arm that knows no DDP."""
    if config["world_size"] != 1:
        return f"world_size={config['world_size']}: this arm runs on one rank."
    return ""


# ---- The model, as DDP wants it. ----


class LossModule(torch.nn.Module):
    """The loss of a micro-batch as a module whose parameters are the model's, in its order."""

    def __init__(self, model):
        super().__init__()
        model.parameters = [torch.nn.Parameter(values.detach(), requires_grad=values.requires_grad)
                            for values in model.parameters]
        self.weights = torch.nn.ParameterList(model.parameters)
        self.model = model

    def forward(self, tokens_BT, targets_BT):
        return self.model.loss_sum(tokens_BT, targets_BT)


def make_ddp(config, model, process_group):
    is_cuda = config["device"] == "cuda"
    bucket_mb = config["bucket_mb"]
    ddp = DistributedDataParallel(
        LossModule(model), device_ids=[0] if is_cuda else None, process_group=process_group,
        bucket_cap_mb=None if bucket_mb == DEFAULT_BUCKET_MB else bucket_mb,
        gradient_as_bucket_view=True)
    if config["comm_dtype"] != "fp32":
        ddp.register_comm_hook(process_group, COMM_HOOKS[config["comm_dtype"]])
    return ddp


# ---- World. ----


class Alone:
    """The world of one rank: no store, no DDP."""

    rank, size = 0, 1

    def __init__(self):
        self.progress = rank_progress.NoProgress()

    def join(self, config):
        pass

    def distribute(self, config, model):
        return model.loss_sum

    def micro_step(self, is_last):
        return contextlib.nullcontext()

    def num_passes_before_steps(self):
        """How often forward and backward run before the first step, and leave no trace."""
        return 0

    def as_rank_0_says(self, value):
        return value

    def become_record_of_world(self, batches, num_steps, record):
        """Makes of rank 0's record that of the world."""

    def reason_of(self, error, line):
        return line

    def end(self, record):
        """After the record is written."""


class World(Alone):
    """The ranks of a block. Each must make the same calls in the same order."""

    def __init__(self, block, place):
        self.block = block
        self.place = place
        self.rank, self.size = place.rank, place.world_size
        self.timeout_s = block.get("collective_timeout_s", 60)
        self.progress = rank_progress.RankProgress(block["output_folder"], place.rank)
        self.num_talks = 0  # Names the keys of the store.
        self.ddp = None

    def join(self, config):
        """Meets the others, and connects. RuntimeError or TimeoutError if they do not come."""
        is_cuda = config["device"] == "cuda"
        if self.place.master_address in ("", LOOPBACK, "localhost"):
            os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        # After a timeout NCCL's watchdog would write its own log, and wait a minute before it ends.
        os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")
        os.environ.setdefault("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000")
        self.store = self._meet()
        timeout_s = self.timeout_s
        if is_cuda:
            self.progress.end_if_silent(timeout_s)
            timeout_s += NCCL_EXTRA_TIMEOUT_S
        torch.distributed.init_process_group(
            "nccl" if is_cuda else "gloo", store=torch.distributed.PrefixStore("ddp", self.store),
            rank=self.rank, world_size=self.size, timeout=datetime.timedelta(seconds=timeout_s))
        self.no_sync = config["no_sync"] == "on"

    def _meet(self):
        address = self.place.master_address or LOOPBACK
        port, listener = self.place.master_port, None
        is_server = self.rank == 0 and not self.place.is_store_of_launcher
        rendezvous = pathlib.Path(self.block["output_folder"]) / RENDEZVOUS
        if is_server:
            listener = listen_on(port, address)
            port = listener.getsockname()[1]
            if not self.place.master_address:
                temporary = rendezvous.with_suffix(".tmp")
                temporary.write_text(json.dumps({"port": port}), encoding="utf-8")
                os.replace(temporary, rendezvous)
        elif not self.place.master_address:
            port = self._read_port(rendezvous)
        return torch.distributed.TCPStore(
            address, port, is_master=is_server, wait_for_workers=False,
            timeout=datetime.timedelta(seconds=self.timeout_s),
            master_listen_fd=listener.detach() if listener else None)

    def _read_port(self, path):
        end_s = time.monotonic() + self.timeout_s
        while not path.exists():
            if time.monotonic() > end_s:
                raise TimeoutError(f"rank 0 did not come within {self.timeout_s:.0f} s: there is "
                                   f"no {path}")
            time.sleep(RENDEZVOUS_POLL_S)
        return json.loads(path.read_text(encoding="utf-8"))["port"]

    def distribute(self, config, model):
        self.ddp = make_ddp(config, model, torch.distributed.group.WORLD)
        return self.ddp

    def micro_step(self, is_last):
        """Around forward and backward of a micro-step: with no_sync only the last of an optimizer
        step meets the others."""
        if self.no_sync and not is_last:
            return self.ddp.no_sync()
        self.progress.note_collective()
        return contextlib.nullcontext()

    def num_passes_before_steps(self):
        return NUM_LOGGED_ITERATIONS if self.block["config"]["device"] == "cuda" else 0

    def as_rank_0_says(self, value):
        """Rank 0's whole number."""
        key = self._new_key()
        if self.rank == 0:
            self.store.set(key, str(value))
            return value
        return int(self.store.get(key))

    def become_record_of_world(self, batches, num_steps, record):
        self.progress.note_steps_end()
        record["evidence"]["ddp"] = self._evidence()
        key = self._new_key()
        if self.rank != 0:
            self.store.set(f"{key}/{self.rank}", json.dumps(record))
            return
        records = [record] + [json.loads(self.store.get(f"{key}/{rank}"))
                              for rank in range(1, self.size)]
        record.update(world_record.record_of_world(records, *batches.world_hashes(num_steps)))

    def _evidence(self):
        """What DDP says of itself: buckets in the order in which they are sent."""
        said = self.ddp._get_ddp_logging_data()
        sizes = said.get("rebuilt_bucket_sizes") or said.get("bucket_sizes", "")
        return {"backend": said.get("backend_name", ""), "comm_hook": said.get("comm_hook", ""),
                "bucket_bytes": [int(size) for size in str(sizes).split(",") if size.strip()]}

    def _new_key(self):
        self.num_talks += 1
        return f"steplens/{self.num_talks}"

    def end(self, record):
        if record["status"] in ("crash", "oom"):
            self.progress.note_end(rank_progress.FAILED, record["reason"])
            os._exit(rank_progress.EXIT_FAILED)  # The others wait for it, and so would a clean end.
        self.progress.note_end(rank_progress.DONE)
        if torch.distributed.is_initialized() and record["status"] != "unsupported":
            torch.distributed.destroy_process_group()

    def reason_of(self, error, line):
        """The reason of a rank that ends by `error`, told in one `line`. One that lost another rank
        does not come back: that one is to blame, and has its own reason."""
        text = str(error)
        if any(words in text for words in LOST_PEER):
            self.progress.note_end(rank_progress.STOPPED, line)
            os._exit(rank_progress.EXIT_FAILED)
        return rank_progress.WAITED_FOR_RANKS + line if any(
            words in text for words in TIMED_OUT) else line


def listen_on(port, address):
    """A socket on `port` (0: a free one, which it then holds) of the loopback interface, or of all
    interfaces for ranks on other hosts."""
    is_local = address == "localhost" or address.startswith("127.")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((LOOPBACK if is_local else "", port))
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        listener.close()
        raise block_protocol.UsageError(
            f"MASTER_PORT={port}: rank 0 cannot listen there: {error.strerror}") from error
    return listener


def find_world(block):
    """Takes this process's place in the block. UsageError for what its launcher said wrong."""
    place = rank_place.place_in_block(os.environ, block.get("world_size", 1))
    if place.world_size == 1:
        return Alone()
    rank_place.end_with_launcher()
    block["rank"] = place.rank
    world = World(block, place)
    if block["config"]["device"] == "cuda":
        rank_place.choose_gpu(place)
    if place.rank > 0 and os.environ.get("STEPLENS_TRACE_OUT"):
        request_own_trace(block["output_folder"], place.rank)
    return world


def request_own_trace(folder, rank):
    """Of a traced block each rank writes its own trace. Call before CUDA is first used."""
    info = json.loads(os.environ.get("STEPLENS_TRACE_INFO") or "{}")
    os.environ["STEPLENS_TRACE_INFO"] = json.dumps(info | {"rank": rank})
    os.environ["STEPLENS_TRACE_OUT"] = str(pathlib.Path(folder) / f"trace.rank{rank}.slt")
