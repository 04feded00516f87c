"""What a rank says of itself while it runs, with the standard library alone.

A page of memory that a file keeps, as harness/ranks/rank_progress.h has it: the scheduler reads it
after any end of the process, and names the rank that broke or held up the others.
"""

import ctypes
import mmap
import os
import pathlib
import select
import signal
import threading
import time

import block_protocol
import rank_place

MAGIC = 0x31307373656C7073
RUNNING, DONE, FAILED, STOPPED = 1, 2, 3, 4
WAITED_FOR_RANKS = "waited for the other ranks: "
EXIT_STOPPED = 143  # As of a process that SIGTERM ended.
EXIT_FAILED = 3
WATCH_POLL_S = 0.5


class Page(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_uint64), ("state", ctypes.c_uint32),
                ("process_id", ctypes.c_int32), ("num_steps", ctypes.c_int64),
                ("num_collectives", ctypes.c_int64), ("range", ctypes.c_char * 64),
                ("reason", ctypes.c_char * 400)]


def note_failed_start(reason):
    """Of a rank that ends before it has read its block."""
    try:
        place = rank_place.place_from(os.environ)
        if place is not None and place.world_size > 1:
            block = block_protocol.read_block_config()
            RankProgress(block["output_folder"], place.rank).note_end(FAILED, reason)
    except block_protocol.UsageError:
        pass  # The reason stands on standard error as well.


class NoProgress:
    """Of a block of one rank: nobody waits for it."""

    def note_step_begin(self):
        pass

    def note_range(self, name):
        pass

    def note_collective(self):
        pass

    def note_steps_end(self):
        pass

    def note_end(self, state, reason=""):
        pass


class RankProgress:
    """Once a process, on its main thread. SIGTERM then notes STOPPED and ends the process, even
    while it waits inside of a collective."""

    def __init__(self, folder, rank):
        path = pathlib.Path(folder) / f"rank{rank}.progress"
        size = ctypes.sizeof(Page)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                # Space now: a store into a hole of a full disk would kill the process.
                os.posix_fallocate(handle, 0, size)
                self.page = Page.from_buffer(mmap.mmap(handle, size))
            finally:
                os.close(handle)
        except OSError as error:
            raise block_protocol.UsageError(f"{path}: cannot be written: {error}") from error
        self.page.state = RUNNING
        self.page.process_id = os.getpid()
        self.page.magic = MAGIC
        self.max_silence_s = None
        self.noted_s = None  # When the last phase of a step began.
        self._start_watching()

    def end_if_silent(self, max_silence_s):
        """From the first step on: a rank that begins no phase of a step for so long says that it
        waited, and ends. For a backend that would kill the process without a word."""
        self.max_silence_s = max_silence_s

    def note_step_begin(self):
        self.noted_s = time.monotonic()
        self.page.num_steps += 1

    def note_range(self, name):
        if self.noted_s is not None:
            self.noted_s = time.monotonic()
        self.page.range = name.encode()[:63]

    def note_collective(self):
        self.page.num_collectives += 1

    def note_steps_end(self):
        self.noted_s = None

    def note_end(self, state, reason=""):
        self.page.reason = reason.encode(errors="replace")[:399]
        self.page.state = state

    def _is_silent(self):
        noted_s = self.noted_s
        return (self.max_silence_s is not None and noted_s is not None and
                time.monotonic() - noted_s > self.max_silence_s)

    def _start_watching(self):
        # Python's own handlers wait until the main thread is back from C++; the byte that C's
        # handler writes does not.
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda *_: None)

        def watch():
            while True:
                is_ready = bool(select.select([reader], [], [], WATCH_POLL_S)[0])
                if is_ready and os.read(reader, 1) == bytes([signal.SIGTERM]):
                    if self.page.state == RUNNING:
                        self.page.state = STOPPED
                    os._exit(EXIT_STOPPED)
                if self._is_silent():
                    self.note_end(FAILED, f"{WAITED_FOR_RANKS}no phase of a step ended for "
                                          f"{self.max_silence_s:.0f} s")
                    os._exit(EXIT_FAILED)

        threading.Thread(target=watch, daemon=True).start()
