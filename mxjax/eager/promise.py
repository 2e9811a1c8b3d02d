"""Promises: pending values. Shape and dtype are known immediately, the buffer later."""

from __future__ import annotations

import math
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .._xla.capacity import refuse_result
from .._xla.process import check, starts
from .._xla.transfer import moved, to_device
from .._xla.x64 import needs_x64, x64_mode
from ..base import MXNetError
from ..context import Context, default_device
from ..kernel.promise import HostValue, Promise, as_buffer, identity, on_devices

__all__ = ["HostValue", "Promise", "apart", "as_buffer", "identity", "lost", "on_default_device", "on_devices",
           "on_one_device", "put", "zeros"]

_ON_HOST = 1 << 18  # elements of zeros up to which a copy to a device is cheaper than compilation


def lost(shape: tuple[int, ...], dtype: np.dtype) -> Promise:
    """Returns the promise of a value that was donated to a program that failed; reading it raises."""
    def fail(_: object) -> jax.Array:
        raise MXNetError("this array's value is lost: its memory was donated to a program that failed before it wrote "
                         "the new value (or is still running, if a signal handler reads it); assign a new value to the "
                         "array")
    return Promise(shape, dtype, fail)


def zeros(shape: tuple[int, ...], dtype: np.dtype, ctx: Context) -> Promise:
    """Returns the promise of zeros, which need no memory until they are read; they may be created sharded."""
    def make(sharding: jax.sharding.Sharding | None) -> jax.Array:
        with x64_mode(dtype):
            if sharding is not None:
                return jnp.zeros(shape, dtype, device=sharding)
            if ctx.device_type.startswith("cpu") or math.prod(shape) <= _ON_HOST:
                refuse_result(shape, dtype)
                return put(np.zeros(shape, dtype), ctx)
            return jnp.zeros(shape, dtype, device=ctx.jax_device)
    return Promise(shape, dtype, make)


def on_one_device(value: jax.Array) -> jax.Array:
    """Returns a copy of a value of a mesh on one device of this process.

    If several processes have shards, all of them must call this.
    """
    with x64_mode(value):
        if not value.is_fully_replicated:  # by a program: device_put would keep the gathered array besides the shards
            mesh = cast(NamedSharding, value.sharding).mesh
            value = jax.jit(jnp.copy, out_shardings=NamedSharding(mesh, PartitionSpec()))(value)
        return jnp.copy(value.addressable_data(0))


def apart(value: jax.Array) -> jax.Array:
    """Returns a copy for a program to overwrite instead of a shared buffer.

    Otherwise another program without donation would have to be compiled, which takes seconds for a
    training step and needs the same memory.
    """
    with x64_mode(value):
        return moved(value, value.sharding if value.committed else None, may_alias=False)


def on_default_device(ctx: Context) -> bool:
    """Returns whether a context's device is JAX's default device."""
    return ctx.jax_device == default_device()


def put(array: np.ndarray, ctx: Context) -> jax.Array:
    """Copies a NumPy array, which must not change afterwards, to a buffer on a context."""
    check()
    starts()
    device = None if on_default_device(ctx) else ctx.jax_device
    if not needs_x64(array.dtype):
        return to_device(array, device)
    with x64_mode(True):
        return to_device(array, device)
