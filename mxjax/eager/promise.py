"""Promises: values that are not there yet. Shape and dtype are known at once, the buffer later."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .._xla.capacity import refuse_result
from .._xla.process import check, starts
from .._xla.transfer import moved, to_device
from ..base import MXNetError
from ..context import Context, default_device
from ..kernel.kernel import WIDE_DTYPES, is_wide

__all__ = ["Promise", "apart", "identity", "lost", "on_default_device", "on_one_device", "put", "zeros"]

_ON_HOST = 1 << 18  # elements of zeros that are cheaper to bring to a device than to compile a program for


def _by_subclass(sharding: jax.sharding.Sharding | None) -> jax.Array:
    raise NotImplementedError("a subclass makes the value")


class Promise:
    """A value that is not there yet; `get` returns its buffer, and raises what making it raised.

    Subclasses are made by host work (`HostPromise`), by a trace (`TracePromise`), and by a recorded call that waits
    (`CallPromise`).

    Args:
        shape, dtype: of the value.
        make: function(sharding or None) -> the buffer, where no subclass makes it; called once.
    """

    __slots__ = ("shape", "dtype", "value", "make")
    value: jax.Array | None
    stays = False  # whether a buffer that somebody looked at is a copy, which does not replace the promise

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype,
                 make: Callable[[jax.sharding.Sharding | None], jax.Array] = _by_subclass) -> None:
        self.shape, self.dtype, self.value, self.make = shape, dtype, None, make

    def get(self) -> jax.Array:
        """Returns the buffer; finishes the work if need be."""
        value = self.value
        if value is None:
            self.force()
            value = cast(jax.Array, self.value)
        return value

    def force(self) -> None:
        """Finishes the work and sets `value`."""
        self.value = self.make(None)

    def held(self) -> Any:
        """Returns the buffer, or None where it is not there."""
        return self.value

    def follows(self, old: Any) -> None:
        """Notes that an array which had the value `old` has this one from now on."""

    def join(self, trace: Any) -> None:
        """Prepares for being an argument of a call in this trace."""


def lost(shape: tuple[int, ...], dtype: np.dtype) -> Promise:
    """Returns the promise of a value that was given to a program which failed while it ran: looking at it raises."""
    def fail(_: object) -> jax.Array:
        raise MXNetError("this array's value is lost: its memory was given to a program that was to write the new one "
                         "over it, and that failed (or has not come back, where a signal handler looks); assign a new "
                         "value to the array")
    return Promise(shape, dtype, fail)


def zeros(shape: tuple[int, ...], dtype: np.dtype, ctx: Context) -> Promise:
    """Returns the promise of zeros, which take no memory before somebody looks; they may be made in parts."""
    def make(sharding: jax.sharding.Sharding | None) -> jax.Array:
        with jax.enable_x64(dtype in WIDE_DTYPES):
            if sharding is not None:
                return jnp.zeros(shape, dtype, device=sharding)
            if ctx.device_type.startswith("cpu") or math.prod(shape) <= _ON_HOST:
                refuse_result(shape, dtype)
                return put(np.zeros(shape, dtype), ctx)
            return jnp.zeros(shape, dtype, device=ctx.jax_device)
    return Promise(shape, dtype, make)


def identity(value: object) -> int:
    """Returns the identity of a buffer, or of what is to become one."""
    held = value.held() if isinstance(value, Promise) else value
    return id(value if held is None else held)


def on_one_device(value: jax.Array) -> jax.Array:
    """Returns a copy of a value of a mesh on one device of this process.

    Of parts that several processes have it is made by all of them: all have to call this.
    """
    with jax.enable_x64(value.dtype in WIDE_DTYPES):
        if not value.is_fully_replicated:  # by a program: device_put would keep what it puts together beside the parts
            mesh = cast(NamedSharding, value.sharding).mesh
            value = jax.jit(jnp.copy, out_shardings=NamedSharding(mesh, PartitionSpec()))(value)
        return jnp.copy(value.addressable_data(0))


def apart(value: jax.Array) -> jax.Array:
    """Returns a copy, for a program to write over in place of a buffer that somebody holds.

    Otherwise another program would have to be compiled, which does not write over it: of a training step that takes
    seconds, and the memory is the same.
    """
    with jax.enable_x64(value.dtype in WIDE_DTYPES):
        return moved(value, value.sharding if value.committed else None, may_alias=False)


def on_default_device(ctx: Context) -> bool:
    """Returns whether a context's device is the one JAX computes on by itself."""
    return ctx.jax_device == default_device()


def put(array: np.ndarray, ctx: Context) -> jax.Array:
    """Returns a NumPy array (not changed by anybody afterwards) as a buffer on a context."""
    check()
    starts()
    device = None if on_default_device(ctx) else ctx.jax_device
    if not is_wide(array.dtype):
        return to_device(array, device)
    with jax.enable_x64(True):
        return to_device(array, device)
