"""Rows of batching=padded and bucketed, with the standard library alone.

Spans are cut after their document ends into pieces, one row each: the same pure functions as
workloads/catalog/batcher.h, which says how the pieces become steps, micro-batches and ranks.
"""

import bisect
import collections

import token_data

IGNORED_TARGET = -100  # Cross-entropy's ignore_index.
ROW_LENGTH_MULTIPLE = 16

# `offset`: first token in the file. The last target of a row that ends a document is ignored.
Row = collections.namedtuple("Row", "offset length ends_document")
# `rows` of one forward pass, padded to `row_length`.
MicroBatch = collections.namedtuple("MicroBatch", "rows row_length")


def document_ends(file):
    """Indices of the tokens that end a document, ascending; none without such a token."""
    end_token = file.info.get("document_end_token") if file.info else None
    if end_token is None:
        return []
    return [i for i, token in enumerate(file.tokens) if token == end_token]


def pieces(ends, offsets, length):
    """Each span of `length` tokens from `offsets`, cut after the document ends in it."""
    rows = []
    for begin in offsets:
        span_end = begin + length
        for end in ends[bisect.bisect_left(ends, begin):bisect.bisect_left(ends, span_end)]:
            rows.append(Row(begin, end + 1 - begin, True))
            begin = end + 1
        if begin < span_end:
            rows.append(Row(begin, span_end - begin, False))
    return rows


def cut_evenly(rows, num_parts):
    bounds = [len(rows) * i // num_parts for i in range(num_parts + 1)]
    return [rows[begin:end] for begin, end in zip(bounds, bounds[1:])]


def cut_by_valid_tokens(rows, num_parts):
    """Each bound lies where the tokens before it are nearest to its share; no part is empty."""
    if len(rows) < num_parts:
        return cut_evenly(rows, num_parts)
    sums = [0]
    for row in rows:
        sums.append(sums[-1] + row.length)
    bounds = [0]
    for part in range(1, num_parts):
        share = sums[-1] * part // num_parts
        nearest = bisect.bisect_left(sums, share)
        if nearest > 0 and share - sums[nearest - 1] <= sums[nearest] - share:
            nearest -= 1
        bounds.append(min(max(nearest, bounds[-1] + 1), len(rows) - (num_parts - part)))
    bounds.append(len(rows))
    return [rows[begin:end] for begin, end in zip(bounds, bounds[1:])]


def micro_batch(rows, config):
    if not rows:
        raise token_data.DataError(
            f"accumulation={config['accumulation']}: a step has fewer rows than micro-batches on "
            f"{config['world_size']} ranks; each needs at least one "
            f"(batching={config['batching']})")
    length = config["sequence_length"]
    if config["batching"] == "bucketed":
        longest = rows[-1].length  # Sorted by length.
        length = min(-(-longest // ROW_LENGTH_MULTIPLE) * ROW_LENGTH_MULTIPLE, length)
    return MicroBatch(rows, length)


def padded_steps(rows, config, num_steps):
    return [[[micro_batch(share, config) for share in cut_evenly(part, config["world_size"])]
             for part in cut_evenly(step, config["accumulation"])]
            for step in cut_evenly(rows, num_steps)]


def bucketed_steps(rows, config, first_step, num_steps):
    num_ranks = config["world_size"]
    steps = []
    for step in cut_by_valid_tokens(sorted(rows, key=lambda row: row.length), num_steps):
        shares = [micro_batch(part, config)
                  for part in cut_by_valid_tokens(step, config["accumulation"] * num_ranks)]
        steps.append([shares[i:i + num_ranks] for i in range(0, len(shares), num_ranks)])
    # Counted down from 2^64 - 1: apart from the epochs' streams, which count up from 0.
    order = token_data.permutation(num_steps, config["seed"], ~first_step & token_data.MASK)
    return [steps[i] for i in order]


def region_steps(file, ends, config, first_step, num_steps):
    """Micro-batches of each of the steps [first_step, first_step + num_steps), each a list by rank.
    DataError if one would have no row."""
    if num_steps == 0:
        return []
    offsets = token_data.span_offsets(file.num_tokens, config, first_step, num_steps)
    rows = pieces(ends, offsets, config["sequence_length"])
    if config["batching"] == "padded":
        return padded_steps(rows, config, num_steps)
    return bucketed_steps(rows, config, first_step, num_steps)
