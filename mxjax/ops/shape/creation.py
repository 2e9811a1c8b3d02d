"""Operators that create arrays, from parameters or like another array."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from ...base import MXNetError
from ...util import is_np_shape
from ..common import Array, converted, normalized
from ..infer import elementwise, exact, mark, unify
from ..params import DTYPES, Double, DoubleScalar, DType, Shape, np_dtype
from ..registry import register


def made_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    """The outputs have the shape in the parameters, where 0 and -1 are unknown dimensions (FInferShape).

    Without dimensions it is unknown as a whole, outside of `np_shape`.
    """
    if params["shape"] or params["shape"] == () and is_np_shape():
        outs[:] = [unify(out, tuple(n if n > 0 else None for n in params["shape"])) for out in outs]


mark(made_shapes, exact=True)


def shape_known(params: dict[str, Any]) -> bool:
    """Returns whether the parameters alone determine the whole shape (FShapeKnown)."""
    shape = params["shape"]
    return shape is not None and all(n > 0 for n in shape) and (shape != () or is_np_shape())


MADE: dict[str, Any] = {"infer_shape": made_shapes, "FShapeKnown": shape_known}


@register("_zeros", **MADE)
def zeros(*, shape: Shape | None = (), ctx: str = "", dtype: DType = "float32") -> Array:
    """An array of zeros."""
    return jnp.zeros(shape or (), np_dtype(dtype))


@register("_zeros_without_dtype", **MADE)
def zeros_without_dtype(*, shape: Shape | None = None, ctx: str = "", dtype: int = -1) -> Array:
    """An array of zeros; dtype: MXNet's number of it, -1 for float32."""
    return jnp.zeros(shape or (), DTYPES.get(dtype, jnp.float32))


@register("_ones", **MADE)
def ones(*, shape: Shape | None = (), ctx: str = "", dtype: DType = "float32") -> Array:
    """An array of ones."""
    return jnp.ones(shape or (), np_dtype(dtype))


@register("_full", aliases=("_npi_full",), **MADE)
def full(*, shape: Shape | None = None, ctx: str = "", dtype: DType = "float32", value: DoubleScalar) -> Array:
    """An array filled with one value."""
    return jnp.full(shape or (), converted(value, np_dtype(dtype)))


@register("_eye")
def eye(*, N: int, M: int = 0, k: int = 0, ctx: str = "", dtype: DType = "float32") -> Array:
    """Ones on the k-th diagonal of an N x M matrix (M = 0: square), zeros elsewhere."""
    return jnp.eye(N, M or N, k, np_dtype(dtype))


def _length(start: float, stop: float, step: float, repeat: int) -> int:
    if step == 0 or repeat < 1 or (stop - start) * step <= 0:
        raise MXNetError(f"operator _arange: the range (start, stop, step) = ({start}, {stop}, {step}) with "
                         f"repeat={repeat} is invalid")
    return math.ceil((stop - start) / step) * repeat


def _progression(start: float, step: float, repeat: int, count: int, dtype: Any) -> Array:
    """start, start + step, ..., each `repeat` times: `count` numbers, each computed on its own without adding up.

    For integers start and step are cut to whole numbers first, as in MXNet.
    """
    wide = jnp.float64 if dtype == jnp.float64 else jnp.float32
    if jnp.issubdtype(dtype, jnp.integer):
        start, step, wide = int(start), int(step), jnp.int64 if jnp.dtype(dtype).itemsize == 8 else jnp.int32
    index = lax.div(jnp.arange(count), repeat)  # as in C, also where repeat is negative
    return converted(jnp.asarray(start, wide) + index.astype(wide) * jnp.asarray(step, wide), dtype)


def _arange_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    if not params["infer_range"] and params["stop"] is not None:
        outs[0] = unify(outs[0], (_length(params["start"], params["stop"], params["step"], params["repeat"]),))


mark(_arange_shapes, exact=True)


@register("_arange", infer_shape=_arange_shapes, FShapeKnown=lambda p: not (p["infer_range"] and p["stop"] is None),
          hidden=("shape",))
def arange(*, start: Double, stop: Double | None = None, step: Double = 1.0, repeat: int = 1, infer_range: bool = False,
           ctx: str = "", dtype: DType = "float32", shape: Shape | None = None) -> Array:
    """Evenly spaced values from start up to stop (exclusive), each `repeat` times; without stop, from 0 to start.

    With `infer_range` and no stop, the graph determines the shape.
    """
    if shape is not None and infer_range and stop is None:
        return _progression(start, step, repeat, math.prod(shape), np_dtype(dtype)).reshape(shape)
    if stop is None:
        start, stop = 0.0, start
    return _progression(start, step, repeat, _length(start, stop, step, repeat), np_dtype(dtype))


@register("_linspace", aliases=("_npi_linspace",), x64=True)
def linspace(*, start: Double, stop: Double, num: int, endpoint: bool = True, ctx: str = "",
             dtype: DType = "float32") -> Array:
    """`num` evenly spaced numbers from start to stop, which is the last one unless `endpoint` is False.

    They are computed in float64; integers drop the fraction.
    """
    if num < 0:
        raise MXNetError(f"operator _linspace: num must not be negative, got {num}")
    parts = num - 1 if endpoint else num
    step = (stop - start) / parts if parts > 0 else 0.0
    return converted(_progression(start, step, 1, num, jnp.dtype("float64")), np_dtype(dtype))


@register("zeros_like", aliases=("_sparse_zeros_like",), infer_shape=elementwise)
def zeros_like(data: Array) -> Array:
    """Zeros with the shape and dtype of the data."""
    return jnp.zeros_like(data)


@register("ones_like", infer_shape=elementwise)
def ones_like(data: Array) -> Array:
    """Ones with the shape and dtype of the data."""
    return jnp.ones_like(data)


@register("_contrib_arange_like", aliases=("_npx_arange_like",), FPartialShape=exact(
    lambda p, x: x if p["axis"] is None else (x[normalized(p["axis"], len(x))],), lambda p, x: p["repeat"] > 0))
def arange_like(data: Array, *, start: Double = 0.0, step: Double = 1.0, repeat: int = 1, ctx: str = "",
                axis: int | None = None) -> Array:
    """Evenly spaced values in the shape and dtype of the data, or as a vector of the length of one of its axes."""
    if not repeat:
        raise MXNetError("operator arange_like: repeat must not be 0")
    if axis is not None:
        return _progression(start, step, repeat, data.shape[normalized(axis, data.ndim)], data.dtype)
    return _progression(start, step, repeat, data.size, data.dtype).reshape(data.shape)
