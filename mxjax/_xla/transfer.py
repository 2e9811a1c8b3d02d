"""Transfers of host arrays to devices: like `jax.device_put` without most of its Python overhead,
and in parts for large arrays.

That overhead is 25 of its 30 us. `jax.numpy.asarray` takes 17 us, and compiles a program for each
new shape.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.bounded import Bounded
from ..context import default_device
from .devices import JaxDevice
from .process import forked, not_in_fork
from .tracing import EVALUATES, find_top_trace, settings
from .x64 import X64_DTYPES, x64_mode

__all__ = ["moved", "to_device"]

_PLAIN = frozenset(map(np.dtype, ("bool", "i1", "i2", "i4", "u1", "u2", "u4", "f2", "f4")))  # dtypes that JAX keeps
_COPIED, _LINE = 1 << 14, 64  # bytes that XLA copies at once; where it takes memory over
_IN_PARTS = frozenset({"gpu"})  # platforms to which one thread copies one array: 77 MB at 5 GB/s, in 16 parts at 22
_PART, _MOST_PARTS = 4 << 20, 16  # bytes of a part, about; parts
_LARGEST = 512 << 20  # bytes of an array beyond which the parts' own room would be too much
_BEFORE = 2  # arrays of a shape that go as they are, before a program that joins parts is compiled for it


def to_device(array: np.ndarray, device: JaxDevice | None = None) -> jax.Array:
    """Copies an array to a buffer on a device; the array must not change afterwards.

    Args:
        array: a NumPy array.
        device: the device to which the buffer is committed; None: the default device, uncommitted.

    Raises:
        MXNetError: this is a forked child and the device is not a CPU.
    """
    if forked():
        array = _for_child(array, device)
    elif array.nbytes >= 2 * _PART:
        joined = _in_parts(array, device, functools.partial(to_device, device=device))
        if joined is not None:
            return joined
    plain = type(array) is np.ndarray and find_top_trace(None) is EVALUATES and (
        array.dtype in _PLAIN or array.dtype in X64_DTYPES and settings.jax_enable_x64)
    put = _fast_put() if plain else None  # outside of transformations, where its result can be checked
    if put is None:
        return jax.device_put(array, device)
    try:
        return put(array, device)
    except jax.errors.JaxRuntimeError:  # a user's `jax.transfer_guard`, to which this looks like no wish of anybody's
        return jax.device_put(array, device)


def moved(value: jax.Array | np.ndarray, device: Any = None, may_alias: bool | None = None) -> jax.Array:
    """Moves a buffer to another device or sharding: `jax.device_put`, if XLA may be used.

    Outside JAX's 64-bit mode, `jax.device_put` would transfer 64-bit buffers to another platform as
    32 bits under their old dtype.
    """
    if not forked():
        if value.nbytes >= 2 * _PART and isinstance(device, jax.Device):
            joined = _in_parts(value, device, lambda part: jax.device_put(part, device))
            if joined is not None:
                return joined
        with x64_mode(value, settings.jax_enable_x64):
            return jax.device_put(value, device, may_alias=may_alias)
    return to_device(np.array(value), next(iter(device.device_set)) if hasattr(device, "device_set") else device)


def _in_parts(value: jax.Array | np.ndarray, device: JaxDevice | None,
              put: Callable[[np.ndarray], jax.Array]) -> jax.Array | None:
    """Copies a large array of the host to an accelerator by several threads; None if one copy is faster.

    Args:
        value: array of the host.
        device: where; None: the default one.
        put: function that copies a part.
    """
    if value.nbytes > _LARGEST or value.dtype in X64_DTYPES or (device or default_device()).platform not in _IN_PARTS:
        return None
    flat = _lying(value)
    if flat is None:
        return None
    key = value.shape, value.dtype
    way = _ways.get(key, 0)
    if way == _BEFORE:
        way = jax.jit(lambda *parts: jnp.concatenate(parts).reshape(key[0]))
    elif isinstance(way, int):
        _ways[key] = way + 1
        return None
    _ways[key] = way
    with contextlib.suppress(jax.errors.JaxRuntimeError):  # for example no memory for the parts beside the whole
        return way(*map(put, np.array_split(flat, min(_MOST_PARTS, value.nbytes // _PART))))
    return None


_ways: dict[tuple, Any] = Bounded(64)  # by shape and dtype: number of plain copies, or the function that joins parts


def _lying(value: jax.Array | np.ndarray) -> np.ndarray | None:
    """The numbers as they lie in the host's memory, one after the other; None where they do not, or not yet.

    A buffer's are a view that JAX does not keep: as long as there is one, the buffer's memory is not used again.
    """
    if find_top_trace(None) is not EVALUATES:
        return None
    if not isinstance(value, np.ndarray):
        if {d.platform for d in value.devices()} != {"cpu"} or len(value.devices()) > 1 or \
                not value.is_ready():  # pyright: ignore[reportAttributeAccessIssue]  JAX's stubs omit it
            return None
        try:
            value = np.from_dlpack(value)  # pyright: ignore[reportArgumentType]  JAX's and NumPy's stubs differ
        except (BufferError, TypeError, ValueError):  # NumPy has no such dtype
            return None
    elif type(value) not in (np.ndarray, np.memmap) or not value.dtype.isnative:
        return None
    return value.reshape(-1) if value.flags.c_contiguous else None


def _for_child(array: np.ndarray, device: JaxDevice | None) -> np.ndarray:
    """Returns the array if XLA uses its memory in place; threads copy large arrays that it would copy."""
    device = device or default_device()
    if device.platform != "cpu":
        raise not_in_fork(f"cannot transfer an array to {device}")
    if array.flags.c_contiguous and (array.nbytes < _COPIED or array.ctypes.data % _LINE == 0):
        return array
    room = np.empty(array.nbytes + _LINE, np.uint8)
    start = -room.ctypes.data % _LINE
    lies = room[start:start + array.nbytes].view(array.dtype).reshape(array.shape)
    lies[...] = array
    return lies


@functools.cache
def _fast_put() -> Callable[[np.ndarray, JaxDevice | None], jax.Array] | None:
    """Returns the function that `jax.device_put` ends in.

    None where a release of JAX has it elsewhere, or it does otherwise.
    """
    try:
        from jax._src.core import ShapedArray
        from jax._src.interpreters.pxla import batched_device_put
    except ImportError:
        return None

    @functools.cache
    def sharding(device: JaxDevice) -> Any:
        return jax.sharding.SingleDeviceSharding(device)

    def put(array: np.ndarray, device: JaxDevice | None) -> jax.Array:
        where = default_device() if device is None else device
        return batched_device_put(ShapedArray(array.shape, array.dtype), sharding(where), [array], [where],
                                  committed=device is not None)
    probe = np.arange(6, dtype="i4").reshape(2, 3).T
    with contextlib.suppress(Exception), jax.transfer_guard("allow"):
        for device in (None, default_device()):
            made, expected = put(probe, device), jax.device_put(probe, device)
            if made.aval != expected.aval or made.sharding != expected.sharding or \
                    made.committed != expected.committed or made.tolist() != probe.tolist():
                return None
        return put
    return None
