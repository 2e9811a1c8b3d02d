"""Shape manipulation, slicing, joining and matrix products."""

from __future__ import annotations

import jax.numpy as jnp

from ._common import Array
from .registry import register


@register("Concat", aliases=("concat",))
def concat(*data: Array, dim: int = 1) -> Array:
    """Joins arrays along axis `dim`; the other axes agree."""
    return jnp.concatenate(data, axis=dim)
