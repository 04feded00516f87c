#!/usr/bin/env python3
"""Trains a byte-level BPE vocabulary on text and writes the text as a Steplens token file.

`steplens data prepare` with the tokenizer bpe calls this. Three files appear: OUTPUT (x.bin, raw
little-endian uint16 or uint32), x.json (what `steplens` reads first) and x.tokenizer.json (for the
`tokenizers` library). The same text gives the same files. Needs one package, `tokenizers`, of which
nothing else has to be installed (pip install --no-deps tokenizers).
"""

import argparse
import array
import fnmatch
import hashlib
import json
import os
import pathlib
import sys
import tempfile
import time

EXAMPLE = """example, the Python sources of the LibTorch wheel with the vocabulary size of GPT-2:
  scripts/prepare_bpe.py --output data/torch-bpe.bin --name torch-python-bpe \\
      --vocab-size 50304 --pattern '*.py' SITE_PACKAGES/torch
"""
DOCUMENT_END = "<|endoftext|>"
SCHEMA_VERSION = 1  # Of x.json: kTokenFileSchemaVersion in workloads/catalog/token_file.cpp.
BATCH_CHARS = 4_000_000  # Text encoded at once: bounds the memory whatever the corpus.


def fail(message):
    print(f"prepare_bpe.py: {message}", file=sys.stderr)
    sys.exit(2)


def note(start_s, message):
    print(f"{time.monotonic() - start_s:6.1f} s  {message}", file=sys.stderr, flush=True)


def own_outputs(output):
    """Files of an earlier run, which are no text of the corpus."""
    return {output.resolve(), output.with_suffix(".json").resolve(),
            output.with_suffix(".tokenizer.json").resolve()}


def corpus_files(inputs, patterns, output):
    """The same files in the same order as `corpus_files` of workloads/catalog/prepare_data.cpp."""
    own = own_outputs(output)
    paths = []
    for given in inputs:
        if not given.exists():
            fail(f"{given}: cannot read: no such file or folder")
        if not given.is_dir():
            paths.append(given)
            continue
        found = []
        for folder, _, names in os.walk(given):
            for name in names:
                path = pathlib.Path(folder, name)
                wanted = not patterns or any(fnmatch.fnmatchcase(name, p) for p in patterns)
                if wanted and path.is_file() and path.resolve() not in own:
                    found.append((os.fsencode(path.relative_to(given).as_posix()), path))
        paths += [path for _, path in sorted(found)]
    return paths


class Corpus:
    """Texts of the files that hold text, and counts of those that do not."""

    def __init__(self, paths):
        self.paths = paths
        self.num_binary_files = self.num_empty_files = self.num_text_bytes = 0

    def texts(self):
        self.num_binary_files = self.num_empty_files = self.num_text_bytes = 0
        for path in self.paths:
            data = path.read_bytes()
            if b"\0" in data:
                self.num_binary_files += 1
            elif not data:
                self.num_empty_files += 1
            else:
                self.num_text_bytes += len(data)
                yield data.decode("utf-8", errors="replace")


def batches(texts):
    """Lists of texts, each of about BATCH_CHARS characters or of one longer text."""
    batch, num_chars = [], 0
    for text in texts:
        batch.append(text)
        num_chars += len(text)
        if num_chars >= BATCH_CHARS:
            yield batch
            batch, num_chars = [], 0
    if batch:
        yield batch


def train(tokenizers, corpus, vocab_size):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size - 1,  # One more is the document end.
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False)
    tokenizer.train_from_iterator(corpus.texts(), trainer=trainer)
    return tokenizer


class TokenWriter:
    """x.bin under a temporary name in the same folder."""

    def __init__(self, output, dtype):
        self.code = {"uint16": "H", "uint32": "I"}[dtype]
        assert array.array(self.code).itemsize == {"uint16": 2, "uint32": 4}[dtype]
        handle, name = tempfile.mkstemp(prefix=output.name + ".tmp-", dir=output.parent)
        os.fchmod(handle, 0o644)
        self.file = os.fdopen(handle, "wb")
        self.path = pathlib.Path(name)
        self.sha256 = hashlib.sha256()
        self.num_tokens = self.max_token = 0

    def add(self, tokens):
        values = array.array(self.code, tokens)
        if sys.byteorder == "big":
            values.byteswap()
        data = values.tobytes()
        self.file.write(data)
        self.sha256.update(data)
        self.num_tokens += len(values)
        self.max_token = max(self.max_token, max(tokens))

    def publish(self, output):
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self.path, output)

    def abandon(self):
        self.file.close()
        self.path.unlink(missing_ok=True)


def write_text(path, text):
    """Under a temporary name first: a kill leaves the old file or the new one, whole."""
    handle, name = tempfile.mkstemp(prefix=path.name + ".tmp-", dir=path.parent)
    os.fchmod(handle, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(name, path)


def encode(tokenizer, corpus, writer, end_token, start_s):
    num_documents = 0
    kinds = set()
    for batch in batches(corpus.texts()):
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            ids = encoding.ids
            writer.add(ids + [end_token])
            if len(kinds) < 2:
                kinds.update(ids)
            num_documents += 1
        note(start_s, f"encoded {num_documents:,} documents, {writer.num_tokens:,} tokens")
    if len(kinds) < 2:
        fail("the text is one token repeated: zeros or constants are no text, so nothing is "
             "measured on them")
    return num_documents


def prepare(tokenizers, args):
    start_s = time.monotonic()
    paths = corpus_files(args.inputs, args.pattern, args.output)
    corpus = Corpus(paths)
    note(start_s, f"training a vocabulary of {args.vocab_size:,} on {len(paths):,} files")
    tokenizer = train(tokenizers, corpus, args.vocab_size)
    if corpus.num_text_bytes == 0:
        fail(f"no text in {', '.join(map(str, args.inputs))} with names like "
             f"{', '.join(args.pattern) or '*'}: {corpus.num_binary_files} binary and "
             f"{corpus.num_empty_files} empty files were skipped")
    # Registered only after the encoding: in text that spells it, it is plain characters.
    end_token = tokenizer.get_vocab_size()
    vocab_size = end_token + 1
    note(start_s, f"trained {vocab_size:,} tokens on {corpus.num_text_bytes:,} bytes")

    dtype = "uint16" if vocab_size <= 65536 else "uint32"
    writer = TokenWriter(args.output, dtype)
    try:
        num_documents = encode(tokenizer, corpus, writer, end_token, start_s)
        writer.publish(args.output)
    except BaseException:
        writer.abandon()
        raise
    tokenizer.add_special_tokens([tokenizers.AddedToken(DOCUMENT_END, special=True)])
    assert tokenizer.token_to_id(DOCUMENT_END) == end_token
    write_text(args.output.with_suffix(".tokenizer.json"), tokenizer.to_str(pretty=True) + "\n")
    info = {
        "schema_version": SCHEMA_VERSION,
        "name": args.name,
        "tokenizer": "bpe",
        "dtype": dtype,
        "vocab_size": vocab_size,
        "max_token": writer.max_token,
        "num_tokens": writer.num_tokens,
        "num_documents": num_documents,
        "document_end_token": end_token,
        "sha256": writer.sha256.hexdigest(),
        "source": {
            "inputs": [path.resolve().name for path in args.inputs],  # No paths of this machine.
            "patterns": args.pattern,
            "num_files": num_documents,
            "num_binary_files": corpus.num_binary_files,
            "num_empty_files": corpus.num_empty_files,
            "num_text_bytes": corpus.num_text_bytes,
            "tokenizers_version": tokenizers.__version__,
        },
    }
    write_text(args.output.with_suffix(".json"), json.dumps(info, indent=2, sort_keys=True) + "\n")
    note(start_s, f"wrote {args.output}: {writer.num_tokens:,} tokens of {dtype}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLE,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", type=pathlib.Path, metavar="INPUT",
                        help="file of text, or folder that is walked whole")
    parser.add_argument("--output", required=True, type=pathlib.Path, help="the .bin to write")
    parser.add_argument("--name", required=True, help="name of the corpus, shown in reports")
    parser.add_argument("--vocab-size", type=int, default=50304,
                        help="tokens in all, document end included (default %(default)s); a small "
                             "corpus gives fewer")
    parser.add_argument("--pattern", action="append", default=[],
                        help="glob of file names inside folders, such as '*.py'; may be repeated; "
                             "none takes every file")
    args = parser.parse_args()
    if args.output.suffix != ".bin":
        fail(f"--output={args.output}: must end with .bin")
    if not 258 <= args.vocab_size < 2**31:
        fail(f"--vocab-size={args.vocab_size}: takes 258 (bytes, one pair, the document end) to "
             f"{2**31 - 1}")
    args.output.parent.mkdir(parents=True, exist_ok=True)
    return args


def main():
    args = parse_arguments()
    try:
        import tokenizers  # Late, so that --help works without it.
    except ImportError:
        fail("the package tokenizers is not installed for this Python: pip install --no-deps "
             "tokenizers")
    try:
        prepare(tokenizers, args)
    except OSError as error:
        fail(f"{error.filename or args.output}: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
