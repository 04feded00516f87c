"""Clocks of the Python arms: when a step ends, on a CPU and on a GPU."""

import time

import torch


class CpuClock:
    def start(self):
        self.wall_ns = []
        self.start_ns = self.last_ns = time.perf_counter_ns()

    def end_step(self):
        now_ns = time.perf_counter_ns()
        self.wall_ns.append(now_ns - self.last_ns)
        self.last_ns = now_ns
        return self.wall_ns[-1]

    def finish(self):
        return self.wall_ns, [], self.last_ns - self.start_ns


class CudaClock(CpuClock):
    """A step ends when the device has reached its last event, while the next one is already
    enqueued. A host that waits for the device sees that moment. One that is slower than the device
    comes too late to see it: then the step ends as long after the one before as the device's own
    clock says."""

    def start(self):
        torch.cuda.synchronize()
        self.events = []
        self._record()
        super().start()

    def _record(self):
        self.events.append(torch.cuda.Event(enable_timing=True))
        self.events[-1].record()

    def _observe_end(self, index):
        end = self.events[index]
        is_late = end.query()
        end.synchronize()
        now_ns = time.perf_counter_ns()
        if is_late:
            now_ns = min(now_ns, self.last_ns + elapsed_ns(self.events[index - 1], end))
        self.wall_ns.append(now_ns - self.last_ns)
        self.last_ns = now_ns
        return self.wall_ns[-1]

    def end_step(self):
        """Duration of the step before this one, or None."""
        self._record()
        return None if len(self.events) < 3 else self._observe_end(-2)

    def finish(self):
        if len(self.events) > 1:
            self._observe_end(-1)
        torch.cuda.synchronize()
        gpu_ns = [elapsed_ns(before, after) for before, after in zip(self.events, self.events[1:])]
        return self.wall_ns, gpu_ns, self.last_ns - self.start_ns


def elapsed_ns(before, after):
    return round(before.elapsed_time(after) * 1e6)
