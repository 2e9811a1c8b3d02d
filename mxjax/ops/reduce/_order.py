"""The permutation that sorts, by one pass over integers.

XLA on a CPU sorts a single array of integers several times faster than floats or pairs, whose comparison it calls
for each two values. So a value and its position become one 64-bit integer: the value's bits, made to compare as
integers do, above the position's.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from ..._xla.x64 import x64_mode
from ..common import Array, is_float

__all__ = ["keys", "order"]


def order(data: Array, descending: bool = False) -> Array:
    """The positions (int32) that sort the last axis; equal values keep their order, NaN counts as the largest."""
    data = lax.stop_gradient(data)
    if data.dtype.itemsize > 4:
        return jnp.argsort(data, -1, stable=True, descending=descending).astype(jnp.int32)
    upper = keys(data, descending)
    with x64_mode(True):
        upper = upper.astype(jnp.int64)
        places = lax.broadcasted_iota(jnp.int64, upper.shape, upper.ndim - 1)
        both = lax.bitwise_or(lax.shift_left(upper, lax.full_like(upper, 32)), places)
        return lax.sort(both, dimension=upper.ndim - 1, is_stable=False).astype(jnp.int32)  # the lower half


def keys(data: Array, descending: bool = False) -> Array:
    """Integers (int32) whose ascending order is that of the data along its last axis."""
    if data.dtype.itemsize <= 4:
        return ~_as_int32(data) if descending else _as_int32(data)
    places = order(data, descending)
    ordered = jnp.take_along_axis(data, places, -1)
    ranks = jnp.pad(jnp.cumsum(ordered[..., 1:] != ordered[..., :-1], -1), [(0, 0)] * (data.ndim - 1) + [(1, 0)])
    return jnp.put_along_axis(places, places, ranks.astype(jnp.int32), -1, inplace=False)


def _as_int32(data: Array) -> Array:
    """Integers in the same order."""
    if data.dtype == jnp.uint32:
        return lax.bitcast_convert_type(data ^ jnp.uint32(1 << 31), jnp.int32)
    if not is_float(data.dtype):
        return data.astype(jnp.int32)
    data = data.astype(jnp.float32)
    data = jnp.where(jnp.isnan(data), jnp.nan, jnp.where(data == 0, 0, data))  # one NaN, one zero
    bits = lax.bitcast_convert_type(data, jnp.int32)
    return jnp.where(bits < 0, bits ^ jnp.int32(0x7FFFFFFF), bits)  # magnitudes of negative numbers run backwards
