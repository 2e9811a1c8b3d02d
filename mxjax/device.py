"""`mx.device`: MXNet 2's names of `mx.context`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from . import level
from .context import Device, cpu, cpu_pinned, current_device, gpu, gpu_memory_info, num_gpus, num_tpus, tpu

__all__ = ["Device", "cpu", "cpu_pinned", "current_device", "gpu", "gpu_memory_info", "num_gpus", "num_tpus", "tpu"]


def with_device(function: Callable[..., Any], old: str = "ctx") -> Callable[..., Any]:
    """Makes a function accept a device by the name `device`, too; at level 2 its signature shows it.

    Args:
        function: has a parameter `old`.
        old: the parameter's name in MXNet 1.x.
    """
    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> Any:
        if "device" in kwargs:
            if old in kwargs:
                raise TypeError(f"{function.__name__} got both device and {old}, which are the same")
            kwargs[old] = kwargs.pop("device")
        return function(*args, **kwargs)
    if level.current() == 2:
        signature = inspect.signature(function)
        wrapped: Any = call  # functions take attributes
        wrapped.__signature__ = signature.replace(parameters=[
            p.replace(name="device") if p.name == old else p for p in signature.parameters.values()])
    return call
