"""The data of the Python arms: host batches, and how they reach the device."""
# Shapes: A micro-batches, B rows, T positions. Inputs and targets are int64.

import collections
import ctypes
import hashlib
import queue
import threading

import torch

import document_rows
import token_data

NUM_LOADED_STEPS = 2  # Batches that the loader thread keeps ready.


class Batches:
    """Makes the batch of one step; remembers as int32 what was made, to be hashed afterwards.

    A batch is a list of (2, B, T) of int64, inputs and targets, one a micro-batch; packed ones,
    which are all alike, are one tensor (A, 2, B, T). `num_warmup` of the `num_steps` come first: a
    region of their own, as workloads/catalog/batcher.h has it. Of several ranks it makes the share
    of `rank`."""

    def __init__(self, file, config, first_step, num_steps, num_warmup=0, rank=0):
        token_type = {"uint16": torch.uint16, "uint32": torch.uint32}[file.dtype]
        self.tokens = torch.frombuffer(file.mapping, dtype=token_type, offset=file.offset_bytes)
        self.offsets = token_data.span_offsets(file.num_tokens, config, first_step, num_steps)
        self.length = config["sequence_length"]
        self.num_rows = token_data.effective_global_batch(config)  # Over all ranks.
        self.num_micro_batches = config["accumulation"]
        self.rank, self.num_ranks = rank, config["world_size"]
        self.is_pinned = config["data"] == "pinned"
        self.made = []
        # Of padded and bucketed rows: those of document_rows by step, micro-batch and rank.
        self.steps = None
        if config["batching"] != "packed":
            ends = document_rows.document_ends(file)
            self.steps = [
                step for first, count in ((0, num_warmup), (num_warmup, num_steps - num_warmup))
                for step in document_rows.region_steps(file, ends, config, first_step + first,
                                                       count)]

    def counts(self, step, rank=None):
        """Positions, valid tokens and predicted tokens of this rank, or of another one."""
        if self.steps is None:
            return (self.num_rows // self.num_ranks * self.length,) * 3
        micro_batches = self._share(step, rank)
        num_valid = sum(row.length for micro in micro_batches for row in micro.rows)
        num_ended = sum(row.ends_document for micro in micro_batches for row in micro.rows)
        num_positions = sum(len(micro.rows) * micro.row_length for micro in micro_batches)
        return num_positions, num_valid, num_valid - num_ended

    def num_loss_tokens(self, step):
        """Predicted tokens of all ranks: the divisor of the loss, known without communication."""
        return sum(self.counts(step, rank)[2] for rank in range(self.num_ranks))

    def _share(self, step, rank):
        rank = self.rank if rank is None else rank
        return [shares[rank] for shares in self.steps[step]]

    def offsets_of(self, step):
        return self.offsets[step * self.num_rows:(step + 1) * self.num_rows]

    def build(self, step, rank=None):
        if self.steps is None:
            return self._packed(step, self.rank if rank is None else rank)
        return [self._padded(micro) for micro in self._share(step, rank)]

    def make(self, step):
        batch = self.build(step)
        self.made.append([pair_2BT.to(torch.int32) for pair_2BT in batch])
        return batch

    def _packed(self, step, rank):
        num_rows = self.num_rows // (self.num_micro_batches * self.num_ranks)
        batch_A2BT = torch.empty(self.num_micro_batches, 2, num_rows, self.length,
                                 dtype=torch.int64, pin_memory=self.is_pinned)
        offsets = self.offsets_of(step)
        for micro, batch_2BT in enumerate(batch_A2BT):
            first = (micro * self.num_ranks + rank) * num_rows
            for row, offset in enumerate(offsets[first:first + num_rows]):
                batch_2BT[0, row].copy_(self.tokens[offset:offset + self.length])
                batch_2BT[1, row].copy_(self.tokens[offset + 1:offset + self.length + 1])
        return batch_A2BT

    def _padded(self, micro):
        pair_2BT = torch.empty(2, len(micro.rows), micro.row_length, dtype=torch.int64,
                               pin_memory=self.is_pinned)
        pair_2BT[0].fill_(0)
        pair_2BT[1].fill_(document_rows.IGNORED_TARGET)
        for i, row in enumerate(micro.rows):
            num_targets = row.length - row.ends_document
            pair_2BT[0, i, :row.length].copy_(self.tokens[row.offset:row.offset + row.length])
            pair_2BT[1, i, :num_targets].copy_(
                self.tokens[row.offset + 1:row.offset + num_targets + 1])
        return pair_2BT

    def data_hash(self, num_steps):
        """Of what this rank has made."""
        digest = hashlib.sha256()
        for batch in self.made[:num_steps]:
            for pair_2BT in batch:
                digest.update(bytes_of(pair_2BT))
        return digest.hexdigest()

    def world_hashes(self, num_steps):
        """What the ranks are to consume, as workloads/catalog/world_data.h has it: `data_hash` of
        all together, micro-batch by micro-batch, and a list of each rank's own."""
        world, own = hashlib.sha256(), [hashlib.sha256() for _ in range(self.num_ranks)]
        for step in range(num_steps):
            for shares in zip(*(self.build(step, rank) for rank in range(self.num_ranks))):
                for digest, pair_2BT in zip(own, shares):
                    data = bytes_of(pair_2BT.to(torch.int32))
                    digest.update(data)
                    world.update(data)
        return world.hexdigest(), [digest.hexdigest() for digest in own]


def bytes_of(pair_2BT):
    """Row by row, inputs before targets."""
    rows_B2T = pair_2BT.transpose(0, 1).contiguous()
    return ctypes.string_at(rows_B2T.data_ptr(), rows_B2T.nbytes)


def to_device(batch, device, non_blocking=False):
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=non_blocking)
    return [pair_2BT.to(device, non_blocking=non_blocking) for pair_2BT in batch]


class Loader:
    """A thread that makes batches ahead."""

    def __init__(self, batches, num_steps):
        self.batches = batches
        self.num_steps = num_steps
        self.ready = queue.Queue(NUM_LOADED_STEPS)
        self.is_stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _put(self, item):
        while not self.is_stopping.is_set():
            try:
                return self.ready.put(item, timeout=0.1)
            except queue.Full:
                continue

    def _run(self):
        try:
            for step in range(self.num_steps):
                if self.is_stopping.is_set():
                    return
                self._put(self.batches.make(step))
        except BaseException as error:  # Raised again where the batch is missed.
            self._put(error)

    def take(self):
        item = self.ready.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def stop(self):
        self.is_stopping.set()
        self.thread.join()


class SyncFeed:
    """Each batch is made and copied inside the step."""

    def __init__(self, batches, num_steps, device):
        self.batches, self.device = batches, device
        self.num_fed = 0

    def next(self):
        self.num_fed += 1
        return to_device(self.batches.make(self.num_fed - 1), self.device)

    def stop(self):
        pass


class PrefetchFeed:
    """A thread makes the batches; the copy is part of the step."""

    def __init__(self, batches, num_steps, device):
        self.device = device
        self.loader = Loader(batches, num_steps)

    def next(self):
        return to_device(self.loader.take(), self.device)

    def stop(self):
        self.loader.stop()


class PinnedFeed:
    """A thread makes the batches in page-locked memory; they travel one step ahead."""

    def __init__(self, batches, num_steps, device):
        self.device = device
        self.loader = Loader(batches, num_steps)
        self.num_left = num_steps
        self.copy_stream = torch.cuda.Stream()
        self.travelling = collections.deque()

    def _enqueue_copy(self):
        host = self.loader.take()
        self.num_left -= 1
        with torch.cuda.stream(self.copy_stream):
            batch = to_device(host, self.device, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
        self.travelling.append((batch, arrived))

    def next(self):
        if not self.travelling:
            self._enqueue_copy()
        batch, arrived = self.travelling.popleft()
        stream = torch.cuda.current_stream()
        stream.wait_event(arrived)
        for tensor in [batch] if isinstance(batch, torch.Tensor) else batch:
            tensor.record_stream(stream)  # Its memory belongs to the copy stream.
        if self.num_left > 0:
            self._enqueue_copy()
        return batch

    def stop(self):
        self.loader.stop()


FEEDS = {"sync": SyncFeed, "prefetch": PrefetchFeed, "pinned": PinnedFeed}
