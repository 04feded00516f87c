"""Where a process stands among the ranks of a block, with the standard library alone.

harness/ranks/rank_place.h is the reference: torchrun, mpirun and srun each say it in environment
variables of their own, and Steplens's own launcher in those of torchrun or through mpirun.
"""

import collections
import ctypes
import os
import signal

import block_protocol

CONVENTIONS = (  # Launcher, variables of rank, number of ranks, and rank on its host.
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)
OWN_LAUNCHER = "STEPLENS_OWN_LAUNCHER"
MAX_PORT = 65535
PR_SET_PDEATHSIG = 1

# `master_address` is empty where the launcher names none: the ranks then meet in their folder.
Place = collections.namedtuple(
    "Place", "launcher rank world_size local_rank master_address master_port is_store_of_launcher")
ALONE = Place("", 0, 1, 0, "", 0, False)


def number_in(environment, name, least, most=None):
    text = environment[name]
    number = int(text) if text.isascii() and text.isdigit() else -1
    if number < least or (most is not None and number > most):
        allowed = f"an integer >= {least}" if most is None else f"an integer from {least} to {most}"
        raise block_protocol.UsageError(f"{name}={text}: takes {allowed}")
    return number


def place_from(environment):
    """What the launcher says, or None. UsageError for what it says wrong."""
    for launcher, rank, world_size, local_rank in CONVENTIONS:
        if rank not in environment or world_size not in environment:
            continue
        size = number_in(environment, world_size, 1)
        own = number_in(environment, rank, 0, size - 1)
        local = number_in(environment, local_rank, 0) if local_rank in environment else own
        address, port = environment.get("MASTER_ADDR", ""), 0
        if address:
            if "MASTER_PORT" not in environment:
                raise block_protocol.UsageError(
                    "MASTER_ADDR is set and MASTER_PORT is not; set both or neither")
            port = number_in(environment, "MASTER_PORT", 1, MAX_PORT)
        has_store = bool(address) and environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        return Place(launcher, own, size, local, address, port, has_store)
    return None


def place_in_block(environment, world_size):
    """The place in a block of `world_size` ranks. UsageError if the launcher started another
    number, or if nobody says which rank this is."""
    place = place_from(environment)
    if world_size == 1 and (place is None or place.world_size == 1 or place.launcher == "srun"):
        return ALONE
    if place is None:
        raise block_protocol.UsageError(
            f"world_size={world_size}: nobody says which rank this process is; start it by "
            f"`steplens ... --ranks {world_size}`, torchrun, mpirun or srun")
    if place.world_size != world_size:
        raise block_protocol.UsageError(
            f"world_size={world_size}: the block is for {world_size} "
            f"rank{'' if world_size == 1 else 's'}, and {place.launcher} started "
            f"{place.world_size}")
    return place


def choose_gpu(place):
    """Shows this rank its GPU alone. Steplens's own launcher has done so; others show all of the
    host's to each rank. Call before CUDA is first used."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if OWN_LAUNCHER in os.environ and visible is not None:
        return
    own = str(place.local_rank)
    if visible is not None:
        gpus = visible.split(",")
        if place.local_rank >= len(gpus):
            raise block_protocol.UsageError(
                f"CUDA_VISIBLE_DEVICES={visible}: local rank {place.local_rank} has no GPU; NCCL "
                "takes one a rank")
        own = gpus[place.local_rank]
    os.environ["CUDA_VISIBLE_DEVICES"] = own


def end_with_launcher():
    """A rank of Steplens's own launcher ends with it."""
    if OWN_LAUNCHER not in os.environ:
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)  # It died before that.
