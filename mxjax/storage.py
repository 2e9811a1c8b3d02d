"""Memory in use, per context."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ._xla.devices import JaxDevice
from ._xla.process import live_arrays
from .context import Context, current_context

__all__ = ["live_bytes", "memory_info", "used"]


def live_bytes(ctx: Context | None = None) -> int:
    """Bytes of all live arrays on a context's device (arrays of JAX code included).

    Args:
        ctx: default the current context. Contexts that share a device share the figure.

    Example:
        >>> before = mx.storage.live_bytes()
        >>> a = mx.nd.zeros((1024, 1024))
        >>> mx.storage.live_bytes() - before
        4194304
    """
    device = (ctx or current_context()).jax_device
    return _live([device])[device]


def used(devices: Sequence[JaxDevice]) -> dict[JaxDevice, int]:
    """Returns the bytes in use on each device from its allocator, or (on CPUs) of all live arrays."""
    reported = {device: (device.memory_stats() or {}).get("bytes_in_use") for device in devices}
    return {**_live([device for device, size in reported.items() if size is None]),
            **{device: size for device, size in reported.items() if size is not None}}


def _live(devices: Sequence[JaxDevice]) -> dict[JaxDevice, int]:
    result = dict.fromkeys(devices, 0)
    for array in live_arrays() if result else ():
        if not array.is_deleted():
            part = math.prod(array.sharding.shard_shape(array.shape))  # of a shard's data JAX would make another array
            for device in array.devices() & result.keys():
                result[device] += part * array.dtype.itemsize
    return result


def memory_info(ctx: Context | None = None) -> dict[str, int]:
    """Returns the device's allocator's figures (bytes in use, peak, limit ...); on the host only "bytes_in_use"."""
    device = (ctx or current_context()).jax_device
    return dict(device.memory_stats() or {"bytes_in_use": live_bytes(ctx)})
