"""Devices to plan for: their data sheets and the configuration of their compilers.

The figures are from the vendors' data sheets, without sparsity: rooflines, not measurements. A TPU
computes a float32 product with six bfloat16 products.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass

from ..base import MXNetError

__all__ = ["DEVICES", "Device", "Target", "target"]

_GIB = 1 << 30


@dataclass(frozen=True)
class Device:
    """A kind of accelerator.

    Attributes:
        platform: JAX's name of the platform: "cuda" or "tpu".
        memory: bytes of a device's memory.
        bandwidth: memory bandwidth in bytes per second.
        flops: floating point operations per second of its matrix units, by dtype of the operands.
        link: bandwidth of all links to its neighbours together in one direction, in bytes per
            second.
        source: source of the figures.
        chip: description of a GPU for the compiler, in XLA's text format; for a TPU, environment
            variables of its compiler.
    """

    platform: str
    memory: int
    bandwidth: float
    flops: dict[str, float]
    link: float
    source: str
    chip: dict[str, str]


def _nvidia(name: str, capability: tuple[int, int], cores: int, fpus: int, clock: float, memory: int,
            bandwidth: float, cache: int, shared: tuple[int, int]) -> dict[str, str]:
    """A GPU as XLA's compiler wants it described (its message GpuTargetConfigProto)."""
    major, minor = capability
    return {"config": f"""
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: {shared[0]} shared_memory_per_block_optin: {shared[1]}
  threads_per_core_limit: {1536 if capability == (8, 9) else 2048} core_count: {cores} fpus_per_core: {fpus}
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: {int(bandwidth)} l2_cache_size: {cache} clock_rate_ghz: {clock} device_memory_size: {memory}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  runtime_version: "12.9.0" driver_version: "12.9.0" compile_time_toolkit_version: "12.9.0"
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 7 }}
runtime_version {{ major: 12 minor: 9 patch: 0 }}
device_description_str: "{name}"
"""}


def _tpu(accelerator: str) -> dict[str, str]:
    return {"TPU_ACCELERATOR_TYPE": accelerator, "TPU_WORKER_HOSTNAMES": "localhost", "TPU_SKIP_MDS_QUERY": "1",
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}  # the process that asks may have loaded it, too


DEVICES: dict[str, Device] = {
    "h100": Device(
        "cuda", 80 * _GIB, 3.35e12, {"bfloat16": 989e12, "float16": 989e12, "tf32": 494e12, "float32": 67e12,
                                     "float64": 67e12}, 450e9, "NVIDIA H100 Tensor Core GPU data sheet (SXM)",
        _nvidia("NVIDIA H100 80GB HBM3", (9, 0), 132, 128, 1.98, 84929347584, 3.35232e12, 52428800, (233472, 232448))),
    "h200": Device(
        "cuda", 140 * _GIB, 4.8e12, {"bfloat16": 989e12, "float16": 989e12, "tf32": 494e12, "float32": 67e12,
                                     "float64": 67e12}, 450e9, "NVIDIA H200 Tensor Core GPU data sheet (SXM)",
        _nvidia("NVIDIA H200", (9, 0), 132, 128, 1.98, 150754820096, 4.8e12, 62914560, (233472, 232448))),
    "a100": Device(
        "cuda", 80 * _GIB, 2.039e12, {"bfloat16": 312e12, "float16": 312e12, "tf32": 156e12, "float32": 19.5e12,
                                      "float64": 19.5e12}, 300e9, "NVIDIA A100 Tensor Core GPU data sheet (80 GB SXM)",
        _nvidia("NVIDIA A100-SXM4-80GB", (8, 0), 108, 64, 1.41, 85050326016, 2.039e12, 41943040, (167936, 166912))),
    "l4": Device(
        "cuda", 24 * _GIB, 0.3e12, {"bfloat16": 121e12, "float16": 121e12, "tf32": 60e12, "float32": 30.3e12,
                                    "float64": 0.47e12}, 32e9, "NVIDIA L4 Tensor Core GPU data sheet",
        _nvidia("NVIDIA L4", (8, 9), 58, 128, 2.04, 23609475072, 0.3e12, 50331648, (102400, 101376))),
    "v5e": Device(
        "tpu", 16 * _GIB, 0.819e12, {"bfloat16": 197e12, "float32": 197e12 / 6}, 200e9,
        "Google Cloud TPU v5e documentation", _tpu("v5litepod-4")),
    "v6e": Device(
        "tpu", 32 * _GIB, 1.64e12, {"bfloat16": 918e12, "float32": 918e12 / 6}, 448e9,
        "Google Cloud TPU v6e documentation", _tpu("v6e-4")),
}


@dataclass(frozen=True)
class Target:
    """Several devices of a kind and their topology.

    Attributes:
        name: the requested name: "h100", "h100x8", "v5e:4x4".
        device: kind of the devices.
        shape: number of devices along each axis of the topology.
    """

    name: str
    device: Device
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Returns the number of devices."""
        return math.prod(self.shape)

    @property
    def topology(self) -> str:
        """Returns JAX's name of these devices."""
        if self.device.platform == "cuda":
            return f"1x1x{self.count}"
        # a TPU's smallest topology has four chips; a program for one of them takes the first
        return f"{self.name.split(':')[0]}:{'x'.join(map(str, self.shape)) if self.count > 1 else '2x2'}"


    @property
    def description(self) -> dict[str, str]:
        """Returns the arguments of `jax.experimental.topologies.get_topology_desc` beside the platform."""
        if self.device.platform == "cuda":
            return {"topology": self.topology, "target_config": self.device.chip["config"]}
        return {"topology_name": self.topology}

    def environment(self) -> dict[str, str]:
        """Returns environment variables for a process without devices that compiles for these ones."""
        chip = {name: value for name, value in self.device.chip.items() if name != "config"}
        quiet = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1", "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
                 "TF_CPP_MIN_LOG_LEVEL": "2"}
        return {**{k: v for k, v in os.environ.items() if not k.startswith("XLA_FLAGS")}, **quiet, **chip}


def target(on: str) -> Target:
    """Returns the devices for a name.

    Args:
        on: "h100", "a100", "l4", also several ("h100x8"); "v5e:1x1" ... "v5e:16x16", "v6e:2x2" ...

    Raises:
        MXNetError: there is no such device in the table.

    Example:
        >>> target("v5e:4x4").count
        16
    """
    result = re.fullmatch(r"([a-z0-9]+?)(?:x(\d+)|:(\d+(?:x\d+)*))?", on)
    device = DEVICES.get(result[1]) if result else None
    counts = [int(n) for n in ((result[2] or result[3] or "1").split("x") if result else ())]
    if result is None or device is None or min(counts) < 1 or \
            bool(result[3]) != (device.platform == "tpu") and (result[2] or result[3]):
        raise MXNetError(f"plan: on={on!r} is not a known device; known: {', '.join(DEVICES)}; for several GPUs use "
                         "e.g. h100x8, for TPUs their topology, e.g. v5e:4x4")
    return Target(on, device, tuple(counts))
