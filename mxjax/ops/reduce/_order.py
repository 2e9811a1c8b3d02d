"""The permutation that sorts, by one pass over integers.

XLA on a CPU sorts a single array of integers several times faster than floats or pairs, whose comparison it calls
for each two values. So a value and its position become one 64-bit integer: the value's bits, made to compare as
integers do, above the position's.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from ..common import Array, is_float

__all__ = ["order"]


def order(data: Array, descending: bool = False) -> Array:
    """The positions (int32) that sort the last axis; equal values keep their order, NaN counts as the largest."""
    data = lax.stop_gradient(data)
    if data.dtype.itemsize > 4:
        return jnp.argsort(data, -1, stable=True, descending=descending).astype(jnp.int32)
    keys = _as_int32(data)
    with jax.enable_x64(True):
        keys = (~keys if descending else keys).astype(jnp.int64)
        places = lax.broadcasted_iota(jnp.int64, keys.shape, keys.ndim - 1)
        both = lax.bitwise_or(lax.shift_left(keys, lax.full_like(keys, 32)), places)
        return lax.sort(both, dimension=keys.ndim - 1, is_stable=False).astype(jnp.int32)  # the lower half


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
