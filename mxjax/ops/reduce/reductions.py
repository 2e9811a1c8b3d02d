"""Reductions over axes: sums, products, extremes, norms, positions of extremes, moments, running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...base import MXNetError
from ..by_device import by_device
from ..common import Array, absolute, accumulation, axes_of, in_float, is_float, normalized, size_of
from ..infer import exact
from ..params import DType, Shape, np_dtype
from ..registry import register

Axes = tuple[int, ...]


def _axes(name: str, axis: Shape | None, ndim: int, exclude: bool = False) -> Axes:
    """The axes to reduce; raises MXNetError when one is named twice or out of range."""
    axes = axes_of(axis, ndim, exclude)
    if axis and len({a % ndim for a in axis}) < len(axis):
        raise MXNetError(f"operator {name}: axis={axis} contains a repeated axis")
    return axes


def _at_least_1d(result: Array) -> Array:
    """Outside of NumPy semantics there are no arrays without dimensions: a full reduction has shape (1,)."""
    return result.reshape(1) if result.ndim == 0 else result


def without_axes(x: tuple, axes: Sequence[int], keepdims: bool) -> tuple:
    """A shape whose axes are reduced."""
    return tuple(1 if i in axes else n for i, n in enumerate(x) if keepdims or i not in axes)


def _reduced(name: str) -> Callable[..., Any]:
    """The formula of a reduction's shape (FPartialShape)."""
    def shape(p: dict[str, Any], x: tuple) -> tuple:
        return without_axes(x, _axes(name, p["axis"], len(x), p.get("exclude", False)), p["keepdims"]) or (1,)
    return exact(shape)


def _reduction(name: str, function: Callable[..., Array], doc: str, aliases: tuple[str, ...] = ()) -> None:
    """Registers a reduction out of `function(data, axes, keepdims)`; the result has the dtype of the data."""
    def compute(data: Array, *, axis: Shape | None = None, keepdims: bool = False, exclude: bool = False) -> Array:
        axes = _axes(name, axis, data.ndim, exclude)
        return _at_least_1d(function(data, axes, keepdims).astype(data.dtype))
    compute.__doc__ = f"""{doc} over axes.

    axis: the axes, all by default (also for an empty tuple); with `exclude` all others; `keepdims` leaves them with
    size 1. Reducing everything gives shape (1,).
    """
    register(name, aliases=aliases, FPartialShape=_reduced(name))(compute)


def _accumulated(function: Callable[..., Array]) -> Callable[..., Array]:
    """A sum or product in the dtype of the data; halves are rounded once, at the end."""
    return lambda x, axes, keepdims: function(x, axes, dtype=accumulation(x.dtype), keepdims=keepdims)


def _mean(data: Array, axes: Axes, keepdims: bool) -> Array:
    if is_float(data.dtype):
        return jnp.mean(data, axes, keepdims=keepdims)
    total = jnp.sum(data, axes, dtype=data.dtype, keepdims=keepdims)
    count = data.size // max(total.size, 1) or 1
    divisor = np.array(count).astype(data.dtype)  # it wraps around in MXNet, too
    return lax.div(total, divisor if divisor else np.array(min(count, jnp.iinfo(data.dtype).max), data.dtype))


@partial(jax.custom_jvp, nondiff_argnums=(0, 2, 3))
def _extreme(function: Callable[..., Array], data: Array, axes: Axes, keepdims: bool) -> Array:
    """Maximum or minimum; all elements equal to it take its whole gradient, as in MXNet."""
    result = function(data, axes, keepdims=keepdims)
    if not is_float(data.dtype):
        return result
    # XLA's reduction on a CPU (jax 0.10 to 0.12) loses NaNs of larger arrays
    return jnp.where(jnp.any(jnp.isnan(data), axes, keepdims=keepdims), jnp.nan, result)


@_extreme.defjvp
def _extreme_jvp(function: Callable[..., Array], axes: Axes, keepdims: bool, primals: tuple, tangents: tuple) -> tuple:
    data, = primals
    tangent, = tangents
    top = _extreme(function, data, axes, True)
    result = top if keepdims else top.reshape([n for i, n in enumerate(data.shape) if i not in axes])
    return result, jnp.sum(jnp.where(data == top, tangent, 0), axes, keepdims=keepdims)


for _name, _function, _doc, *_aliases in [
    ("sum", _accumulated(jnp.sum), "Sum", "sum_axis", "_sparse_sum"),
    ("mean", _mean, "Mean", "_sparse_mean"),
    ("prod", _accumulated(jnp.prod), "Product"),
    ("nansum", _accumulated(jnp.nansum), "Sum, NaN taken as 0,"),
    ("nanprod", _accumulated(jnp.nanprod), "Product, NaN taken as 1,"),
    ("max", partial(_extreme, jnp.max), "Maximum", "max_axis"),
    ("min", partial(_extreme, jnp.min), "Minimum", "min_axis"),
]:
    _reduction(_name, _function, _doc, tuple(_aliases))


@register("norm", aliases=("_sparse_norm",), FPartialShape=exact(_reduced("norm"), lambda p, x: p["ord"] in (1, 2)))
def norm(data: Array, *, ord: int = 2, axis: Shape | None = None,
         out_dtype: DType | None = None, keepdims: bool = False) -> Array:
    """The sum of absolute values (ord=1) or Euclidean norm (ord=2) over axes, all by default.

    out_dtype: dtype of the result, that of the data by default.
    """
    if ord not in (1, 2):
        raise MXNetError(f"operator norm: ord must be 1 or 2, got {ord}")
    axes = _axes("norm", axis, data.ndim)

    def length(x: Array) -> Array:
        if ord == 1:
            return jnp.sum(absolute(x), axes, keepdims=keepdims)
        wide = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
        return jnp.sqrt(jnp.sum(jnp.square(wide), axes, keepdims=keepdims))
    result = in_float(length, data) if out_dtype is None else length(data.astype(np_dtype(out_dtype)))
    return _at_least_1d(result.astype(np_dtype(out_dtype or data.dtype)))


_EXACT = 1 << 24  # whole numbers that float32 holds


def first_position(extreme: Callable[..., Array], data: Array, axis: int | None, keepdims: bool = False) -> Array:
    """Position of the first `jnp.max` or `jnp.min` along an axis (None: in the flattened array); NaN is the extreme."""
    def of_pairs(data: Array) -> Array:
        return {jnp.max: jnp.argmax, jnp.min: jnp.argmin}[extreme](data, axis, keepdims=keepdims).astype(int)

    def of_values(data: Array) -> Array:  # two loops that are vectorized; XLA's one over pairs takes four times as long
        along, values = (0, data.reshape(-1)) if axis is None else (axis, data)
        places = lax.broadcasted_iota(jnp.float32 if values.shape[along] < _EXACT else int, values.shape, along)
        result = values == extreme(values, along, keepdims=True)
        if is_float(values.dtype):
            result |= jnp.isnan(values)
        first = jnp.min(jnp.where(result, places, values.shape[along]), along, keepdims=keepdims).astype(int)
        return first.reshape((1,) * data.ndim) if keepdims and axis is None else first
    narrow = is_float(data.dtype) and data.dtype.itemsize < 4  # XLA's minimum of float16 on CPUs forgets NaN
    return by_device(data, cpu=of_pairs if narrow else of_values, default=of_pairs)


def _position(name: str, extreme: Callable[..., Array], doc: str) -> None:
    def compute(data: Array, *, axis: int | None = None, keepdims: bool = False) -> Array:
        if axis is not None:
            axis = normalized(axis, data.ndim)
        return _at_least_1d(first_position(extreme, data, axis, keepdims)).astype(data.dtype)
    compute.__doc__ = f"""Position of the first {doc} along an axis (by default in the flattened array).

    The positions have the dtype of the data; NaN counts as the extreme.
    """
    register(name, FPartialShape=exact(lambda p, x: without_axes(
        x, range(len(x)) if p["axis"] is None else (normalized(p["axis"], len(x)),), p["keepdims"]) or (1,),
        partly=False))(compute)


_position("argmax", jnp.max, "maximum")
_position("argmin", jnp.min, "minimum")


@register("argmax_channel", FPartialShape=exact(lambda p, x: x[:1] + x[2:], lambda p, x: len(x) > 1))
def argmax_channel(data: Array) -> Array:
    """The index of the maximum along axis 1.  data: (batch, channel, ...) -> (batch, ...), the same dtype."""
    return first_position(jnp.max, data, normalized(1, data.ndim)).astype(data.dtype)


@register("moments", num_outputs=2, FPartialShape=exact(
    lambda p, x: without_axes(x, _axes("moments", p["axes"], len(x)), p["keepdims"]) or (1,), lambda p, x: p["axes"]))
def moments(data: Array, *, axes: Shape | None = None, keepdims: bool = False) -> tuple[Array, Array]:
    """Mean and (biased) variance over the given axes."""
    if not axes:
        raise MXNetError("operator moments: axes must contain at least one axis; pass all axes for global moments")
    over = _axes("moments", axes, data.ndim)
    if is_float(data.dtype):
        mean, variance = jnp.mean(data, over, keepdims=keepdims), jnp.var(data, over, keepdims=keepdims)
    else:
        mean = _mean(data, over, keepdims)
        variance = _mean(jnp.square(data - _mean(data, over, True)), over, keepdims)
    return _at_least_1d(mean), _at_least_1d(variance)


def sum_types(floats: bool) -> Callable[..., None]:
    """The dtype asked for; else that of the data, booleans counted in int64 (or, where `floats`, all in float32)."""
    def rule(params: dict[str, Any], ins: list, outs: list) -> None:
        given = params["dtype"]
        if given is None and ins[0] is not None:
            given = ins[0]
            if floats and not is_float(np_dtype(given)):
                given = "float32"
            elif given == "bool":
                given = "int64"
        outs[0] = given or outs[0]
    return rule


def total_dtype(dtype: str | None, data: Array) -> Any:
    """Returns the dtype of a sum: the one asked for, else int64 for booleans, else that of the data."""
    return np_dtype(dtype or ("int64" if data.dtype == jnp.bool_ else data.dtype))


@register("_np_cumsum", aliases=("cumsum",), infer_type=sum_types(False), FPartialShape=exact(
    lambda p, x: (size_of(x),) if p["axis"] is None else x,
    lambda p, x: p["axis"] is None or -len(x) <= p["axis"] < len(x)))
def cumsum(a: Array, *, axis: int | None = None,
           dtype: DType | None = None) -> Array:
    """Running sums along an axis (by default of the flattened array), in `dtype`.

    dtype: default: the array's; int64 for booleans.
    """
    out = total_dtype(dtype, a)
    if out != jnp.float16:
        return jnp.cumsum(a, axis, dtype=jax.dtypes.canonicalize_dtype(out))
    rows = jnp.moveaxis(a.ravel() if axis is None else a, axis or 0, 0).astype(out)  # rounded one after the other
    def step(total: Array, row: Array) -> tuple[Array, Array]:
        total = total + row
        return total, total
    sums = lax.scan(step, jnp.zeros(rows.shape[1:], out), rows)[1]
    return jnp.moveaxis(sums, 0, axis or 0)


@register("_square_sum")
def square_sum(data: Array, *, axis: Shape | None = None, keepdims: bool = False, exclude: bool = False) -> Array:
    """The sum of the squares over axes."""
    return jnp.sum(jnp.square(data), axis=axes_of(axis, data.ndim, exclude), keepdims=keepdims)
