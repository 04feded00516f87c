"""Clocks of the Python arms: when a step ends, on a CPU and on a GPU."""

import time

import torch


class CpuClock:
    def start(self):
        self.wall_ns = []
        self.start_ns = self.last_ns = time.perf_counter_ns()

    def end_step(self):
        return self._observe()

    def finish(self):
        return self.wall_ns, [], self.last_ns - self.start_ns

    def _observe(self):
        now_ns = time.perf_counter_ns()
        self.wall_ns.append(now_ns - self.last_ns)
        self.last_ns = now_ns
        return self.wall_ns[-1]


class CudaClock(CpuClock):
    """A step ends when the host has seen its last event, while the next one is already enqueued."""

    def start(self):
        torch.cuda.synchronize()
        self.events = []
        self._record()
        super().start()

    def _record(self):
        self.events.append(torch.cuda.Event(enable_timing=True))
        self.events[-1].record()

    def end_step(self):
        """Duration of the step before this one, or None."""
        self._record()
        if len(self.events) < 3:
            return None
        self.events[-2].synchronize()
        return self._observe()

    def finish(self):
        if len(self.events) > 1:
            self.events[-1].synchronize()
            self._observe()
        torch.cuda.synchronize()
        gpu_ns = [round(before.elapsed_time(after) * 1e6)
                  for before, after in zip(self.events, self.events[1:])]
        return self.wall_ns, gpu_ns, self.last_ns - self.start_ns
