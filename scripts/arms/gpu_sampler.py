"""Clocks, power, temperature and limits of the GPU while an arm's measured steps run.

The same readings, names and period as those of Steplens's own worker (profilers/gpu_samples.h), so
that the report can say of these arms too what held their clocks back and what a token costs in
energy. By NVIDIA's own bindings (pip install nvidia-ml-py); without them the record says so.
"""

import threading
import time

PERIOD_S = 0.1
REASONS = {  # Bits of nvmlDeviceGetCurrentClocksEventReasons.
    "gpu_idle": 0x1, "applications_clocks": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8,
    "sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80}
HARDWARE_REASONS = ("hw_slowdown", "hw_thermal", "hw_power_brake")


def readings(nvml):
    """What one sample reads: field -> function of the device's handle."""
    return {
        "clock_event_reasons": lambda gpu: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
        "sm_clock_mhz": lambda gpu: float(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
        "memory_clock_mhz":
            lambda gpu: float(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)),
        "power_watts": lambda gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
        "temperature_celsius":
            lambda gpu: float(nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)),
        "gpu_utilization_ratio": lambda gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
        "memory_used_bytes": lambda gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used,
    }


class NoSampler:
    """Where nothing can be sampled."""

    def __init__(self, absent_reason=None):
        self.samples = {"absent_reason": absent_reason} if absent_reason else {}

    def start(self):
        pass

    def stop(self):
        return self.samples


class GpuSampler:
    def __init__(self, nvml, gpu, period_s=PERIOD_S):
        self.nvml, self.gpu, self.period_s = nvml, gpu, period_s
        self.readings = readings(nvml)
        self.curves = {field: [] for field in self.readings}
        self.time_ns, self.absent_reasons = [], {}
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self):
        self.start_ns = time.perf_counter_ns()
        self.start_unix_ns = time.time_ns()
        self.start_energy_j = self.energy_j()
        self.thread.start()

    def run(self):
        # Half a period first, as the worker does: the first steps have begun by then.
        delay_s = self.period_s / 2
        while not self.stopping.wait(delay_s):
            delay_s = self.period_s
            self.sample()

    def read(self, field, function):
        try:
            return function(self.gpu)
        except (self.nvml.NVMLError, AttributeError) as error:  # Older bindings lack functions.
            self.absent_reasons[field] = str(error)
            return None

    def sample(self):
        self.time_ns.append(time.perf_counter_ns() - self.start_ns)
        for field, function in self.readings.items():
            self.curves[field].append(self.read(field, function))

    def energy_j(self):
        millijoules = self.read("energy_j", self.nvml.nvmlDeviceGetTotalEnergyConsumption)
        return None if millijoules is None else millijoules / 1000

    def stop(self):
        """Curves, their means and extremes, and the energy since `start`; null where nothing could
        be read, with the reason in `absent_reasons`."""
        duration_ns = time.perf_counter_ns() - self.start_ns
        end_energy_j = self.energy_j()
        self.stopping.set()
        self.thread.join()
        if not self.time_ns:
            self.sample()
        present = {field: [value for value in curve if value is not None]
                   for field, curve in self.curves.items()}
        known_energy = self.start_energy_j is not None and end_energy_j is not None
        return {
            "num_samples": len(self.time_ns), "time_ns": self.time_ns,
            "period_ns": round(self.period_s * 1e9), "duration_ns": duration_ns,
            "start_unix_ns": self.start_unix_ns,
            "energy_j": end_energy_j - self.start_energy_j if known_energy else None,
            "absent_reasons": {field: reason for field, reason in self.absent_reasons.items()
                               if not present.get(field)},
            **{field: curve if present[field] else None for field, curve in self.curves.items()},
            **{f"mean_{field}": mean(present[field])
               for field in ("sm_clock_mhz", "memory_clock_mhz", "power_watts",
                             "gpu_utilization_ratio")},
            **{f"min_{field}": min(present[field], default=None)
               for field in ("sm_clock_mhz", "memory_clock_mhz")},
            **{f"max_{field}": max(present[field], default=None)
               for field in ("temperature_celsius", "memory_used_bytes")},
            **throttling(present["clock_event_reasons"]),
        }


def mean(values):
    return sum(values) / len(values) if values else None


def throttling(masks):
    if not masks:
        return {"throttle_shares": None, "num_hardware_throttled_samples": None,
                "is_throttled_by_hardware": None}
    hardware_bits = sum(REASONS[name] for name in HARDWARE_REASONS)
    num_by_hardware = sum(1 for mask in masks if mask & hardware_bits)
    return {
        "throttle_shares": {name: sum(1 for mask in masks if mask & bit) / len(masks)
                            for name, bit in REASONS.items()},
        "num_hardware_throttled_samples": num_by_hardware,
        "is_throttled_by_hardware": num_by_hardware > 0,
    }


def make(gpu_uuid):
    """The sampler of the GPU "GPU-..."; None: of a CPU, where there is none."""
    if gpu_uuid is None:
        return NoSampler()
    try:
        import pynvml
    except ImportError:
        return NoSampler("pynvml is not installed: pip install nvidia-ml-py")
    try:
        pynvml.nvmlInit()
        return GpuSampler(pynvml, pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid))
    except pynvml.NVMLError as error:
        return NoSampler(f"NVML: {error}")
