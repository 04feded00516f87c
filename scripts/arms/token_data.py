"""Token files and the choice of data, with the standard library alone.

The same pure functions as workloads/catalog/{token_file,batcher,data_hash}.h (document_rows.py has
the rows of padded and bucketed batching): two arms that read one token file with one config consume
the same tokens in the same order, and their hashes say so. tests/scripts/data_parity_test.py holds
values that the C++ tests hold too.
"""

import hashlib
import json
import mmap
import pathlib
import struct
import sys

MASK = (1 << 64) - 1
HEADER_BYTES = 1024  # llm.c: 256 int32, of which magic, version and number of tokens are used.
MAGIC = {20240520: ("uint16", {1}), 20240801: ("uint32", {1, 7})}
FORMATS = {"uint16": "H", "uint32": "I"}
SIZES_BYTES = {"uint16": 2, "uint32": 4}


class DataError(Exception):
    """The token file cannot be used as asked. One sentence, for a person."""


class TokenFile:
    """A stream of tokens, mapped into memory. `tokens` is a memoryview of unsigned integers."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        if sys.byteorder != "little":
            raise DataError(f"{self.path}: token files are little-endian, this machine is not")
        try:
            with open(self.path, "rb") as file:
                # A private copy on write: torch.frombuffer wants memory that it may write to.
                self.mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except ValueError as error:
            raise DataError(f"{self.path}: is empty") from error
        except OSError as error:
            raise DataError(f"{self.path}: cannot read: {error.strerror}") from error
        self.dtype, self.offset_bytes = self._read_header()
        self.info = self._read_info()
        if self.info:
            self.dtype = self.info["dtype"]
        data_bytes = len(self.mapping) - self.offset_bytes
        if self.dtype not in SIZES_BYTES or data_bytes % SIZES_BYTES[self.dtype]:
            raise DataError(f"{self.path}: {data_bytes} bytes are no tokens of {self.dtype}")
        self.tokens = memoryview(self.mapping)[self.offset_bytes:].cast(FORMATS[self.dtype])
        self.num_tokens = len(self.tokens)
        if self.info and self.info["num_tokens"] != self.num_tokens:
            raise DataError(f"{self.path}: has {self.num_tokens} tokens, its JSON says "
                            f"{self.info['num_tokens']}: it was cut short or replaced")
        self.max_token = self.info["max_token"] if self.info else max(self.tokens)

    def _read_header(self):
        if len(self.mapping) < 12:
            return "uint16", 0
        magic, version, count = struct.unpack_from("<3i", self.mapping)
        if magic not in MAGIC:
            return "uint16", 0
        dtype, versions = MAGIC[magic]
        expected_bytes = HEADER_BYTES + count * SIZES_BYTES[dtype]
        if version not in versions or len(self.mapping) != expected_bytes:
            raise DataError(f"{self.path}: damaged header: version {version}, {count} tokens, "
                            f"{len(self.mapping)} bytes")
        return dtype, HEADER_BYTES

    def _read_info(self):
        path = self.path.with_suffix(".json")
        if not path.exists():
            return None
        try:
            info = json.loads(path.read_text(encoding="utf-8"))
            required = {key: info[key] for key in ("dtype", "num_tokens", "max_token")}
            return required | {"document_end_token": info.get("document_end_token")}
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"{path}: damaged: {error}") from error

    def check_fits(self, config):
        """DataError if a model of `config` cannot train on this file."""
        if self.max_token >= config["vocab_size"]:
            raise DataError(f"vocab_size={config['vocab_size']}: {self.path} has token "
                            f"{self.max_token}")
        if self.num_tokens < config["sequence_length"] + 1:
            raise DataError(f"sequence_length={config['sequence_length']}: {self.path} has "
                            f"{self.num_tokens} tokens")


def splitmix64(state):
    """The endless sequence of SplitMix64."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def permutation(n, seed, stream):
    """A permutation of 0 .. n-1, as workloads/catalog/batcher.h defines it."""
    items = list(range(n))
    random = splitmix64(next(splitmix64(seed)) ^ stream)
    for i in range(n - 1, 0, -1):
        j = next(random) % (i + 1)
        items[i], items[j] = items[j], items[i]
    return items


def effective_global_batch(config):
    """Rows per optimizer step over all ranks."""
    holds_micro_batch = config.get("accumulation_holds", "global_batch") == "micro_batch"
    return config["global_batch"] * (config["accumulation"] if holds_micro_batch else 1)


def span_offsets(num_tokens, config, first_step, num_steps):
    """First token of each span that the steps [first_step, first_step + num_steps) visit."""
    length = config["sequence_length"]
    num_spans = (num_tokens - 1) // length
    rows = effective_global_batch(config)
    offsets, order, epoch = [], [], -1
    for visit in range(first_step * rows, (first_step + num_steps) * rows):
        if visit // num_spans != epoch:
            epoch = visit // num_spans
            order = permutation(num_spans, config["seed"], epoch)
        offsets.append(order[visit % num_spans] * length)
    return offsets


def data_set_hash(tokens, offsets, length):
    """The hash of the spans that does not depend on their order."""
    digests = sorted(
        hashlib.sha256(struct.pack(f"<q{length + 1}i", offset,
                                   *tokens[offset:offset + length + 1])).digest()
        for offset in offsets)
    return hashlib.sha256(b"".join(digests)).hexdigest()
