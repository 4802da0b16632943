"""Devices by what they reach, not by what they promise: bandwidth, FLOP/s, what a step costs anyway, price."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from forerun.errors import ConfigError

REACHED_BANDWIDTH = 0.8  # of the data sheet's, in products of few rows: assumed until `make gpu-check` has been run
REACHED_FLOPS = 0.6  # of the data sheet's dense rate, in products of many rows: assumed likewise
GPU_STEP_S = 0.0015  # launches, the one wait, laws and rules of a step: assumed likewise
GPU_TRIP_S = 0.001
NVLINK, PCIE = 300e9, 25e9
HOP_S = 10e-6


@dataclass(frozen=True)
class Kernel:
    """Products at one precision. overlap: how much of the lesser of reading and multiplying hides in the other."""

    bandwidth: float
    flops: float
    overlap: float = 1.0

    def seconds(self, num_bytes: float, num_flops: float) -> float:
        """What products take that read so many bytes of weights and do so many operations."""
        reading, multiplying = num_bytes / self.bandwidth, num_flops / self.flops
        return max(reading, multiplying) + (1 - self.overlap) * min(reading, multiplying)


@dataclass(frozen=True)
class Device:
    """Bytes, bytes/s, FLOP/s, seconds, USD/h.

    step_s: a step's cost beyond products and attention; trip_s: an exchange between a gateway and a service here beyond
    the step and the network; link_bandwidth, hop_s: of an all-reduce between such devices.
    """

    name: str
    memory: float
    kernels: Mapping[str, Kernel]
    kv_bandwidth: float
    attention_flops: float
    step_s: float
    trip_s: float
    usd_per_h: float
    link_bandwidth: float = NVLINK
    hop_s: float = HOP_S
    source: str = field(default="", compare=False)

    def kernel(self, precision: str) -> Kernel:
        """Raises ConfigError for a precision that this device does not multiply in."""
        if precision not in self.kernels:
            known = ", ".join(self.kernels)
            raise ConfigError(f"{self.name} has no products in {precision}; it has {known}")
        return self.kernels[precision]


def gpu(
    name: str, memory_gb: float, tb_per_s: float, tflops: Mapping[str, float], usd_per_h: float, link: float
) -> Device:
    """A GPU by its data sheet (dense rates), taken down to what is reached."""
    bandwidth = REACHED_BANDWIDTH * tb_per_s * 1e12
    kernels = {name: Kernel(bandwidth, REACHED_FLOPS * rate * 1e12) for name, rate in tflops.items()}
    return Device(
        name=name,
        memory=memory_gb * 1e9,
        kernels=kernels,
        kv_bandwidth=bandwidth,
        attention_flops=0.5 * REACHED_FLOPS * tflops["bf16"] * 1e12,
        step_s=GPU_STEP_S,
        trip_s=GPU_TRIP_S,
        usd_per_h=usd_per_h,
        link_bandwidth=link,
        source="data sheet; prices are examples of on-demand offers",
    )


# int8 is weights alone: read as one byte, multiplied in bf16.
KNOWN: dict[str, Device] = {
    "h200": gpu("h200", 141, 4.8, {"bf16": 989, "int8": 989, "fp8": 1979}, 3.80, NVLINK),
    "h100": gpu("h100", 80, 3.35, {"bf16": 989, "int8": 989, "fp8": 1979}, 2.90, NVLINK),
    "l40s": gpu("l40s", 48, 0.864, {"bf16": 362, "int8": 362, "fp8": 733}, 1.20, PCIE),
    "l4": gpu("l4", 24, 0.3, {"bf16": 121, "int8": 121, "fp8": 242}, 0.60, PCIE),
    "a10": gpu("a10", 24, 0.6, {"bf16": 125, "int8": 125}, 0.75, PCIE),
    # Two cores with AMX, compiled bf16 and int8 (benchmarks/results/linear.json, attention.json, wire.json).
    "xeon-amx": Device(
        name="xeon-amx",
        memory=16e9,
        kernels={"bf16": Kernel(14.7e9, 0.552e12), "int8": Kernel(13.3e9, 0.815e12, overlap=0.5)},
        kv_bandwidth=3.3e9,
        attention_flops=122e9,
        step_s=0.0003,
        trip_s=0.002,
        usd_per_h=0.10,
        source="measured: benchmarks/results/linear.json, attention.json, wire.json",
    ),
    # Two cores without AMX, transformers' module uncompiled (benchmarks/results/engine-*.json).
    "epyc-eager": Device(
        name="epyc-eager",
        memory=16e9,
        kernels={"bf16": Kernel(14.8e9, 0.321e12, overlap=0.0), "fp32": Kernel(14.8e9, 0.146e12, overlap=0.0)},
        kv_bandwidth=2.31e9,
        attention_flops=60e9,
        step_s=0.0203,
        trip_s=0.002,
        usd_per_h=0.10,
        source="measured: benchmarks/results/engine-bf16.json, engine-fp32.json",
    ),
}


def find_device(
    name: str, bandwidth_gb_s: float = 0.0, tflops: float = 0.0, memory_gb: float = 0.0, usd_per_h: float | None = None
) -> Device:
    """A known device; what is given, measured or offered elsewhere, stands in for what is known of it.

    tflops counts for every precision. Raises ConfigError for a name that is not known.
    """
    if name.lower() not in KNOWN:
        raise ConfigError(f"no device {name!r}; known: {', '.join(KNOWN)}; the nearest one takes your own figures")
    device = KNOWN[name.lower()]
    for what, value in (("bandwidth", bandwidth_gb_s), ("FLOP/s", tflops), ("memory", memory_gb)):
        if value < 0:
            raise ConfigError(f"{what} of {name} is {value:g}; it must be above 0")
    kernels = {
        precision: Kernel(bandwidth_gb_s * 1e9 or k.bandwidth, tflops * 1e12 or k.flops, k.overlap)
        for precision, k in device.kernels.items()
    }
    return replace(
        device,
        kernels=kernels,
        kv_bandwidth=bandwidth_gb_s * 1e9 or device.kv_bandwidth,
        memory=memory_gb * 1e9 or device.memory,
        usd_per_h=device.usd_per_h if usd_per_h is None else usd_per_h,
    )
