"""What stands for an array of which nobody reads the numbers."""

from __future__ import annotations

import jax
import numpy as np

from .._support.bounded import Bounded

__all__ = ["ShapeOnly", "shape_only"]


class ShapeOnly:
    """Stands for an argument that a backward pass does not read: only its shape and dtype are kept.

    One is made for each shape and dtype (`shape_only`), so that they are compared by identity.
    """

    __slots__ = ("shape", "dtype")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype


jax.tree_util.register_static(ShapeOnly)
_absent: dict[tuple, ShapeOnly] = Bounded(4096)


def shape_only(shape: tuple[int, ...], dtype: np.dtype) -> ShapeOnly:
    """The `ShapeOnly` of this shape and dtype."""
    found = _absent.get((shape, dtype))
    if found is None:
        found = _absent.setdefault((shape, dtype), ShapeOnly(shape, dtype))
    return found
