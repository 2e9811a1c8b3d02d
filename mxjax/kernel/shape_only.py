"""Placeholders for arrays whose numbers are not read."""

from __future__ import annotations

import jax
import numpy as np

from .._support.bounded import Bounded

__all__ = ["ShapeOnly", "shape_only"]


class ShapeOnly:
    """A placeholder for an argument that a backward pass does not read, with only its shape and dtype.

    There is one instance per shape and dtype (`shape_only`), so instances are compared by identity.
    """

    __slots__ = ("shape", "dtype")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype


jax.tree_util.register_static(ShapeOnly)
_absent: dict[tuple, ShapeOnly] = Bounded(4096)


def shape_only(shape: tuple[int, ...], dtype: np.dtype) -> ShapeOnly:
    """Returns the `ShapeOnly` of this shape and dtype."""
    value = _absent.get((shape, dtype))
    if value is None:
        value = _absent.setdefault((shape, dtype), ShapeOnly(shape, dtype))
    return value
