"""Operators of mx.np that make arrays: constants, ranges, identity matrices, windows, index grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...base import MXNetError
from ..common import Array, converted, gives
from ..infer import exact, first, mark, unify
from ..params import Double, DoubleScalar, DType, Shape, np_dtype
from ..registry import register
from ..shape.creation import _length, _progression


def _made_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    """The output has the shape in the parameters, whose negative numbers are unknown dimensions (FInferShape)."""
    outs[:] = [unify(out, tuple(None if n is None or n < 0 else n for n in params["shape"])) for out in outs]


mark(_made_shapes, exact=True)

MADE: dict[str, Any] = {"infer_shape": _made_shapes,
                        "FShapeKnown": lambda p: all(n is not None and n >= 0 for n in p["shape"])}


@register("_npi_zeros", **MADE)
def zeros(*, shape: Shape = (), ctx: str = "", dtype: DType = "float32") -> Array:
    """An array of zeros."""
    return jnp.zeros(shape, np_dtype(dtype))


@register("_npi_ones", **MADE)
def ones(*, shape: Shape = (), ctx: str = "", dtype: DType = "float32") -> Array:
    """An array of ones."""
    return jnp.ones(shape, np_dtype(dtype))


@register("_npi_identity", FPartialShape=exact(lambda p: p["shape"], lambda p: len(p["shape"]) == 2), **MADE)
def identity(*, shape: Shape = (), ctx: str = "", dtype: DType = "float32") -> Array:
    """The identity matrix of this (square) shape."""
    return jnp.eye(*shape, dtype=np_dtype(dtype))


@register("_npi_eye")
def eye(*, N: int, M: int | None = None, k: int = 0, ctx: str = "", dtype: DType = "float32") -> Array:
    """Ones on the k-th diagonal of an N x M matrix (M None: square), zeros elsewhere."""
    return jnp.eye(N, N if M is None else M, k, np_dtype(dtype))


@register("_npi_tri")
def tri(*, N: int, M: int | None = None, k: int = 0, ctx: str = "", dtype: DType = "float32") -> Array:
    """Ones on and below the k-th diagonal of an N x M matrix (M None: square), zeros above."""
    return jnp.tri(N, M, k, np_dtype(dtype))


def _triangle(name: str, places: Callable[..., Any], doc: str) -> None:
    """Registers `name`: the rows and columns of a triangle's elements, two int64 vectors."""
    def indices(*, n: int, k: int = 0, m: int | None = None, ctx: str = "") -> tuple[Array, Array]:
        rows, columns = places(n, k, m)
        return rows.astype(np.int64), columns.astype(np.int64)
    indices.__doc__ = f"The rows and the columns of the elements on and {doc} the k-th diagonal of an n x m matrix."
    register(name, num_outputs=2, x64=True, infer_type=gives(("int64", "int64")))(indices)


_triangle("_npi_tril_indices", np.tril_indices, "below")
_triangle("_npi_triu_indices", np.triu_indices, "above")


@register("_npi_full_like", FPartialShape=exact(first))
def full_like(a: Array, *, fill_value: DoubleScalar, ctx: str = "", dtype: DType | None = None) -> Array:
    """An array filled with one value, in the shape of a, and in its dtype unless another is given."""
    return jnp.full(a.shape, converted(fill_value, np_dtype(dtype or a.dtype)))


@register("_npi_arange")
def arange(*, start: Double, stop: Double | None = None, step: Double = 1.0, repeat: int = 1, infer_range: bool = False,
           ctx: str = "", dtype: DType = "float32") -> Array:
    """Evenly spaced values from start up to stop (exclusive); empty if stop is not ahead of start."""
    if stop is None:
        start, stop = 0.0, start
    count = _length(start, stop, step, repeat) if (stop - start) * step > 0 else 0
    return _progression(start, step, repeat, count, np_dtype(dtype))


@register("_npi_logspace")
def logspace(*, start: Double, stop: Double, num: int, endpoint: bool = True, base: Double = 10.0, ctx: str = "",
             dtype: DType = "float32") -> Array:
    """`num` numbers from base**start to base**stop whose logarithms are evenly spaced."""
    if num < 0:
        raise MXNetError(f"operator _npi_logspace: num must not be negative, got {num}")
    return converted(jnp.logspace(start, stop, num, endpoint, base), np_dtype(dtype))


@register("_npi_indices")
def indices(*, dimensions: Shape, dtype: DType = "int32", ctx: str = "") -> Array:
    """The coordinates of all elements of an array with the given dimensions, along a new first axis."""
    return jnp.indices(dimensions, np_dtype(dtype))


def _window(name: str, function: Callable[[int], Array], formula: str) -> None:
    def compute(*, M: int | None = None, ctx: str = "", dtype: DType = "float32") -> Array:
        count = M or 0
        return function(count).astype(np_dtype(dtype)) if count > 0 else jnp.zeros(0, np_dtype(dtype))
    compute.__doc__ = f"The {name} window of M points: {formula}, n = 0 ... M - 1."
    register(f"_npi_{name}")(compute)


_window("hanning", jnp.hanning, "0.5 - 0.5 cos(2πn / (M - 1))")
_window("hamming", jnp.hamming, "0.54 - 0.46 cos(2πn / (M - 1))")
_window("blackman", jnp.blackman, "0.42 - 0.5 cos(2πn / (M - 1)) + 0.08 cos(4πn / (M - 1))")
