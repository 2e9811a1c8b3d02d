"""`mx.device`: MXNet 2's names of `mx.context`."""

from .context import Device, cpu, cpu_pinned, current_device, gpu, gpu_memory_info, num_gpus, num_tpus, tpu

__all__ = ["Device", "cpu", "cpu_pinned", "current_device", "gpu", "gpu_memory_info", "num_gpus", "num_tpus", "tpu"]
