"""One record for the ranks of a block, with the standard library alone: what block.json holds.

harness/ranks/world_record.h is the reference.
"""

import block_protocol

SUMMED = ("num_positions", "num_valid_tokens", "num_loss_tokens",
          "loss")  # A loss: shares of one mean over the tokens of all ranks.


def merged(phases):
    """The step arrays of the world from those of its ranks; durations are rank 0's."""
    world = dict(phases[0])
    for name in SUMMED:
        world[name] = [sum(values) for values in zip(*(phase[name] for phase in phases))]
    world["data_wait_ns"] = [max(values)
                             for values in zip(*(phase["data_wait_ns"] for phase in phases))]
    return world


def row_of(record):
    steps = record["steps"]
    wall_ns = steps["step_wall_ns"]
    row = {"rank": record["rank"], "num_valid_tokens": sum(steps["num_valid_tokens"]),
           "data_wait_ns": sum(steps["data_wait_ns"]), "data_hash": record["data_hash"],
           "mean_step_wall_ns": sum(wall_ns) / len(wall_ns) if wall_ns else None}
    for name in ("peak_allocated_bytes", "peak_rss_bytes"):
        if name in record["memory"]:
            row[name] = record["memory"][name]
    for name in ("energy_j", "mean_power_watts", "mean_sm_clock_mhz"):
        if name in record["samples"]:
            row[name] = record["samples"][name]
    return row


def skew_ratio(records):
    """Mean over the measured steps of (longest - shortest) / longest; None without one."""
    ratios = [(max(step) - min(step)) / max(step)
              for step in zip(*(record["steps"]["step_wall_ns"] for record in records))]
    return sum(ratios) / len(ratios) if ratios else None


def contradiction(first, other):
    """In what a rank contradicts rank 0; empty if in nothing."""
    for phase in ("warmup", "steps"):
        if len(other[phase]["step_wall_ns"]) != len(first[phase]["step_wall_ns"]):
            return "did another number of steps than rank 0"
    if other["data_set_hash"] != first["data_set_hash"]:
        return "read other data than rank 0"
    if other["weights_hash"] != first["weights_hash"]:
        return "began with other weights than rank 0"
    if other["final_weights_hash"] != first["final_weights_hash"]:
        return "ended with other weights than rank 0: their gradients were not the same"
    return ""


def record_of_world(records, data_hash, share_hashes):
    """From the records of all ranks, in rank order. `data_hash` is that of all ranks together,
    `share_hashes` are what each rank's own must be."""
    world = dict(records[0])
    world["data_hash"] = data_hash
    world["evidence"] = dict(records[0]["evidence"], ranks=[row_of(record) for record in records])
    for record in records:
        if record["status"] != "ok":
            world["status"] = record["status"]
            world["reason"] = f"rank {record['rank']}: {record['reason']}"
            break
    for record in records[1:]:
        fault = contradiction(records[0], record)
        if fault:
            return block_protocol.end_as(world, "invalid", f"rank {record['rank']} {fault}")
    world["evidence"]["rank_skew_ratio"] = skew_ratio(records)
    for phase in ("warmup", "steps"):
        world[phase] = merged([record[phase] for record in records])
    for record, share_hash in zip(records, share_hashes):
        if world["status"] == "ok" and record["data_hash"] != share_hash:
            return block_protocol.end_as(world, "invalid", f"rank {record['rank']} trained on "
                                         "other tokens than its share")
    return world
