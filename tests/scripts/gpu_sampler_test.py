"""What the arms around PyTorch record of the GPU: gpu_sampler.py against a library that is told what
to read."""

import pathlib
import re
import sys
import time
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "arms"))
import gpu_sampler  # noqa: E402


class Refused(Exception):
    pass


class FakeNvml:
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVMLError = Refused

    def __init__(self, knows_memory=True):
        self.clocks_mhz, self.masks = [1980, 1500, 1600], [0x4, 0x4, 0x4 | 0x80]
        self.num_samples = self.energy_mj = 0
        self.knows_memory = knows_memory

    # The first reading of a sample.
    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu):
        self.num_samples += 1
        return self.masks[(self.num_samples - 1) % 3]

    def nvmlDeviceGetClockInfo(self, gpu, kind):
        return self.clocks_mhz[(self.num_samples - 1) % 3] if kind == self.NVML_CLOCK_SM else 3201

    def nvmlDeviceGetPowerUsage(self, gpu):
        return 650_500

    def nvmlDeviceGetTemperature(self, gpu, sensor):
        return 40 + self.num_samples

    def nvmlDeviceGetUtilizationRates(self, gpu):
        return types.SimpleNamespace(gpu=97, memory=40)

    def nvmlDeviceGetMemoryInfo(self, gpu):
        if not self.knows_memory:
            raise Refused("Not Supported")
        return types.SimpleNamespace(used=12_345)

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu):
        self.energy_mj += 250_000
        return self.energy_mj


def samples_of(nvml):
    sampler = gpu_sampler.GpuSampler(nvml, "gpu", period_s=0.01)
    sampler.start()
    while nvml.num_samples < 3:
        time.sleep(0.001)
    sampler.stopping.set()
    sampler.thread.join()
    for curve in (sampler.time_ns, *sampler.curves.values()):
        del curve[3:]
    return sampler.stop()


class Sampler(unittest.TestCase):
    def test_curves_means_and_extremes(self):
        samples = samples_of(FakeNvml())
        self.assertEqual(samples["sm_clock_mhz"], [1980, 1500, 1600])
        self.assertAlmostEqual(samples["mean_sm_clock_mhz"], 5080 / 3)
        self.assertEqual(samples["min_sm_clock_mhz"], 1500)
        self.assertEqual(samples["mean_power_watts"], 650.5)
        self.assertEqual(samples["max_temperature_celsius"], 43)
        self.assertEqual(samples["max_memory_used_bytes"], 12_345)
        self.assertEqual(samples["energy_j"], 250)
        self.assertEqual(samples["throttle_shares"]["sw_power_cap"], 1)
        self.assertAlmostEqual(samples["throttle_shares"]["hw_power_brake"], 1 / 3)
        self.assertEqual(samples["num_hardware_throttled_samples"], 1)
        self.assertTrue(samples["is_throttled_by_hardware"])
        self.assertEqual(samples["absent_reasons"], {})

    def test_what_cannot_be_read_is_null_with_its_reason(self):
        samples = samples_of(FakeNvml(knows_memory=False))
        self.assertIsNone(samples["memory_used_bytes"])
        self.assertIsNone(samples["max_memory_used_bytes"])
        self.assertEqual(samples["absent_reasons"], {"memory_used_bytes": "Not Supported"})

    def test_bindings_that_lack_a_function_cost_no_block(self):
        class OlderNvml(FakeNvml):
            @property
            def nvmlDeviceGetClockInfo(self):
                raise AttributeError("no nvmlDeviceGetClockInfo")

        samples = samples_of(OlderNvml())
        self.assertIsNone(samples["mean_sm_clock_mhz"])
        self.assertIn("nvmlDeviceGetClockInfo", samples["absent_reasons"]["sm_clock_mhz"])
        self.assertEqual(samples["mean_power_watts"], 650.5)

    def test_a_block_shorter_than_a_period_has_one_sample(self):
        sampler = gpu_sampler.GpuSampler(FakeNvml(), "gpu", period_s=60)
        sampler.start()
        self.assertEqual(sampler.stop()["num_samples"], 1)

    def test_names_and_bits_are_those_of_the_worker(self):
        profilers = pathlib.Path(__file__).resolve().parents[2] / "profilers"
        worker = (profilers / "gpu_samples.cpp").read_text(encoding="utf-8")
        abi = (profilers / "nvml_abi.h").read_text(encoding="utf-8")
        samples = samples_of(FakeNvml())
        for prefix in ("mean", "min", "max"):
            ours = {name.removeprefix(f"{prefix}_") for name in samples
                    if name.startswith(f"{prefix}_")}
            self.assertTrue(ours)
            self.assertLessEqual(ours, set(re.findall(rf'add_{prefix}\("(\w+)"', worker)))
        curves = set(re.findall(r'add_curve\("(\w+)"', worker))
        self.assertLessEqual(set(gpu_sampler.readings(FakeNvml())), curves)
        reasons = re.findall(
            r'\.name = "(\w+)", \.bit = kNvmlReason(\w+), \.is_hardware = (\w+)', worker)
        bits = {name: int(bit, 16)
                for name, bit in re.findall(r"kNvmlReason(\w+) = (0x[0-9a-f]+);", abi)}
        self.assertEqual(gpu_sampler.REASONS, {name: bits[bit] for name, bit, _ in reasons})
        self.assertEqual(set(gpu_sampler.HARDWARE_REASONS),
                         {name for name, _, is_hardware in reasons if is_hardware == "true"})

    def test_without_the_bindings_the_record_says_so(self):
        sys.modules["pynvml"] = None  # As if it were not installed.
        self.addCleanup(sys.modules.pop, "pynvml")
        sampler = gpu_sampler.make("GPU-0")
        sampler.start()
        self.assertIn("nvidia-ml-py", sampler.stop()["absent_reason"])
        self.assertEqual(gpu_sampler.make(None).stop(), {})


if __name__ == "__main__":
    unittest.main()
