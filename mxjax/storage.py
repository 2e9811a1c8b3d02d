"""Memory in use, per context."""

from __future__ import annotations

import jax

from .context import Context, current_context

__all__ = ["live_bytes", "memory_info"]


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
    total = 0
    for array in jax.live_arrays():
        if not array.is_deleted() and device in array.devices():
            total += sum(s.data.nbytes for s in array.addressable_shards if s.device == device) \
                if len(array.devices()) > 1 else array.nbytes
    return total


def memory_info(ctx: Context | None = None) -> dict[str, int]:
    """What the device's allocator tells (bytes in use, peak, limit ...); on the host only "bytes_in_use"."""
    device = (ctx or current_context()).jax_device
    return dict(device.memory_stats() or {"bytes_in_use": live_bytes(ctx)})
