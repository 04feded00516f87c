"""When a step of a Python arm ends: torch_clock.py on a device that a script plays."""

import importlib.util
import pathlib
import sys
import unittest
from unittest import mock

ARMS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "arms"
sys.path.insert(0, str(ARMS))

HAS_TORCH = importlib.util.find_spec("torch") is not None
MS = 1_000_000


class Machine:
    """A host that takes `host_ns` to enqueue each step and a device that takes `device_ns` to run
    it, on one time line."""

    def __init__(self, host_ns, device_ns):
        self.host_ns, self.device_ns = host_ns, device_ns
        self.now_ns = self.device_free_ns = 1000 * MS

    def enqueue_step(self, index):
        begin_ns = self.now_ns
        self.now_ns += self.host_ns[index]
        # The device starts with a step's first kernel, and cannot end it before its last is there.
        self.device_free_ns = max(max(self.device_free_ns, begin_ns) + self.device_ns[index],
                                  self.now_ns)

    def event(self, **_settings):
        return Event(self)


class Event:
    def __init__(self, machine):
        self.machine = machine

    def record(self):
        self.end_ns = max(self.machine.device_free_ns, self.machine.now_ns)

    def query(self):
        return self.end_ns <= self.machine.now_ns

    def synchronize(self):
        self.machine.now_ns = max(self.machine.now_ns, self.end_ns)

    def elapsed_time(self, other):
        assert self.query() and other.query()
        return (other.end_ns - self.end_ns) / 1e6


@unittest.skipUnless(HAS_TORCH, "this Python has no torch")
class CudaClockTest(unittest.TestCase):
    def time_steps(self, host_ms, device_ms):
        import torch_clock

        machine = Machine([ms * MS for ms in host_ms], [ms * MS for ms in device_ms])
        with (mock.patch.object(torch_clock.torch.cuda, "Event", machine.event),
              mock.patch.object(torch_clock.torch.cuda, "synchronize", lambda: None),
              mock.patch.object(torch_clock.time, "perf_counter_ns", lambda: machine.now_ns)):
            clock = torch_clock.CudaClock()
            clock.start()
            while_running = []
            for index in range(len(host_ms)):
                machine.enqueue_step(index)
                while_running.append(clock.end_step())
            wall_ns, gpu_ns, total_ns = clock.finish()
        self.assertEqual(while_running[0], None)
        self.assertEqual(while_running[1:], wall_ns[:-1])
        self.assertEqual(sum(wall_ns), total_ns)
        return [ns / MS for ns in wall_ns], [ns / MS for ns in gpu_ns]

    def test_a_host_that_waits_for_the_device_sees_each_end(self):
        wall_ms, gpu_ms = self.time_steps([10] * 5, [50, 60, 50, 40, 50])
        self.assertEqual(wall_ms, [50, 60, 50, 40, 50])
        self.assertEqual(gpu_ms, wall_ms)

    def test_a_host_that_comes_too_late_asks_the_device(self):
        # It sees the first end after two steps of its own, and the last two ends at once.
        wall_ms, _ = self.time_steps([50, 70, 50, 40, 50], [10] * 5)
        self.assertEqual(wall_ms, [50, 70, 50, 40, 50])

    def test_a_host_that_is_late_once(self):
        wall_ms, _ = self.time_steps([10, 10, 200, 10, 10], [50] * 5)
        # The host saw the first end at 50 and enqueued the third step from there until 250.
        self.assertEqual(wall_ms, [50, 50, 150, 50, 50])


if __name__ == "__main__":
    unittest.main()
