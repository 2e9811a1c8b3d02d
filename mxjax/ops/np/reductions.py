"""Reductions of mx.np: sums, products, moments, extremes, truth, averages, percentiles, counts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax.numpy as jnp
import numpy as np
from jax import lax

from ... import level
from ..._xla.capacity import refuse_result
from ...base import MXNetError
from ..common import Array, converted, gives, is_float, no_gradient, normalized, size_of
from ..infer import exact
from ..params import Double, DType, Range, Shape, np_dtype
from ..reduce.reductions import _extreme, first_position, sum_types, total_dtype, without_axes
from ..registry import register

Axes = tuple[int, ...]


def axes_of(name: str, axis: Shape | None, ndim: int) -> Axes:
    """Non-negative axes; None means all, () none.

    Raises:
        MXNetError: an axis is out of range or named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    if not ndim and tuple(axis) in ((0,), (-1,)):
        return ()  # as in NumPy, a number is reduced like an array of one element
    if any(not -ndim <= a < ndim for a in axis):
        raise MXNetError(f"operator {name}: axis={axis} is out of range for an array of {ndim} dimensions")
    axes = tuple(sorted(a % ndim for a in axis))
    if len(set(axes)) < len(axes):
        raise MXNetError(f"operator {name}: axis={axis} contains a repeated axis")
    return axes


def _reduced(name: str, partly: bool = True) -> Callable[..., Any]:
    """The formula of a reduction's shape (FPartialShape); `partly` as in `exact`."""
    return exact(lambda p, x: without_axes(x, axes_of(name, p["axis"], len(x)), p["keepdims"]), partly=partly)


def _precise(*dtypes: Any) -> Any:
    """Returns the dtype to compute in: where there are fractions, the result is rounded once, not each element."""
    return functools.reduce(jnp.promote_types, dtypes, jnp.float32) if any(map(is_float, dtypes)) else dtypes[-1]


def _total(name: str, function: Callable[..., Array], doc: str, aliases: tuple[str, ...] = ()) -> None:
    """Registers a sum or product; booleans are counted in int64, other dtypes stay."""
    def compute(a: Array, *, axis: Shape | None = None, dtype: DType | None = None, keepdims: bool = False,
                initial: Double | None = None) -> Array:
        out, axes = total_dtype(dtype, a), axes_of(name, axis, a.ndim)
        total = function(a, axes, dtype=_precise(a.dtype, out), keepdims=keepdims, initial=initial)
        return converted(total, out) if level.current() == 2 else total.astype(out)
    compute.__doc__ = f"""{doc} over axes (None: all), in `dtype` (default: the array's; int64 for booleans).

    initial: a number to begin with.
    """
    register(name, aliases=aliases, infer_type=sum_types(False), FPartialShape=_reduced(name))(compute)


_total("_np_sum", jnp.sum, "Sum")
_total("_np_prod", jnp.prod, "Product", ("_np_product",))


@register("_npi_mean", infer_type=sum_types(True), FPartialShape=_reduced("_npi_mean"))
def mean(a: Array, *, axis: Shape | None = None, dtype: DType | None = None, keepdims: bool = False,
         initial: Double | None = None) -> Array:
    """Mean over axes (None: all), in `dtype` (default: the array's, float32 for integers); zero for an empty array."""
    out = np_dtype(dtype or (a.dtype if is_float(a.dtype) else "float32"))
    axes = axes_of("_npi_mean", axis, a.ndim)
    count = max(size_of([a.shape[i] for i in axes]), 1)
    total = jnp.sum(a, axes, dtype=_precise(a.dtype, out), keepdims=keepdims)
    return (total / count).astype(out)


def _deviation(name: str, function: Callable[[Array], Array], doc: str) -> None:
    def compute(a: Array, *, axis: Shape | None = None, dtype: DType | None = None, ddof: int = 0,
                keepdims: bool = False) -> Array:
        if a.dtype == jnp.bool_:
            raise MXNetError(f"operator _npi_{name} does not take boolean arrays")
        out, axes = np_dtype(dtype or a.dtype), axes_of(f"_npi_{name}", axis, a.ndim)
        precise, count = a.astype(_precise(a.dtype, out, jnp.float32)), size_of([a.shape[i] for i in axes])
        if ddof < count:
            spread = jnp.var(precise, axes, ddof=ddof, keepdims=keepdims)
        else:  # too few: MXNet divides by 0, or by a negative number that it takes for an unsigned one
            apart = jnp.square(precise - jnp.mean(precise, axes, keepdims=True))
            spread = jnp.sum(apart, axes, keepdims=keepdims) / float((count - ddof) % 2**64)
        return function(spread).astype(out)
    compute.__doc__ = f"{doc} over axes (None: all), divided by count - ddof; in `dtype` (default: the array's)."
    register(f"_npi_{name}", output_names=lambda p: [name], infer_type=gives(lambda p: p["dtype"]),
             FPartialShape=_reduced(f"_npi_{name}", partly=False), FGradient=no_gradient)(compute)


_deviation("var", lambda x: x, "Variance")
_deviation("std", jnp.sqrt, "Standard deviation")


# ------------------------------------------------------------ extremes
def _not_empty(name: str, data: Array, axes: Axes) -> None:
    if any(data.shape[a] == 0 for a in axes):
        raise MXNetError(f"operator {name}: an array of shape {data.shape} has no elements to choose from")


def _limit(name: str, function: Callable[..., Array], alias: str, doc: str) -> None:
    def compute(a: Array, *, axis: Shape | None = None, keepdims: bool = False, initial: Double | None = None) -> Array:
        axes = axes_of(name, axis, a.ndim)
        _not_empty(name, a, axes)
        return _extreme(function, a, axes, keepdims)
    compute.__doc__ = f"{doc} over axes (None: all); all elements equal to it take its whole gradient."
    register(name, aliases=(alias,), FPartialShape=_reduced(name))(compute)


_limit("_np_max", jnp.max, "_np_amax", "Maximum")
_limit("_np_min", jnp.min, "_np_amin", "Minimum")


def _position(name: str, extreme: Callable[..., Array], doc: str) -> None:
    def compute(data: Array, *, axis: int | None = None, keepdims: bool = False) -> Array:
        if data.dtype == jnp.bool_:
            raise MXNetError(f"operator {name} does not take boolean arrays")
        if data.ndim == 0:
            data = data.reshape(1)
            return compute(data, axis=axis).reshape(())
        if axis is not None:
            axis = normalized(axis, data.ndim)
        _not_empty(name, data, tuple(range(data.ndim)) if axis is None else (axis,))
        return first_position(extreme, data, axis, keepdims).astype(jnp.int64)
    compute.__doc__ = f"Position (int64) of the first {doc} along an axis (None: in the flattened array)."
    register(name, x64=True, infer_type=gives("int64"), FPartialShape=exact(lambda p, x: without_axes(
        x, range(len(x)) if p["axis"] is None else (normalized(p["axis"], len(x)),), p["keepdims"]),
        lambda p, x: len(x) > 0, partly=False))(compute)


_position("_npi_argmax", jnp.max, "maximum")
_position("_npi_argmin", jnp.min, "minimum")


# ------------------------------------------------------------ truth
def _truth(name: str, function: Callable[..., Array], doc: str, aliases: tuple[str, ...] = ()) -> None:
    def compute(data: Array, *, axis: Shape | None = None, keepdims: bool = False) -> Array:
        return function(data, axes_of(name, axis, data.ndim), keepdims=keepdims)
    compute.__doc__ = f"Whether {doc} along axes (None: all) are nonzero."
    register(name, aliases=aliases, infer_type=gives("bool"), FPartialShape=_reduced(name))(compute)


_truth("_np_all", jnp.all, "all elements")
_truth("_np_any", jnp.any, "any elements", ("_np_sometrue",))


# ------------------------------------------------------------ averages, percentiles, counts
@register("_npi_average", num_outputs=2, num_visible=lambda p: 1 + p["returned"],
          inputs=lambda p: ["a", "weights"] if p["weighted"] else ["a"])
def average(a: Array, weights: Array | None = None, *, axis: Shape | None = None, returned: bool = False,
            weighted: bool = True) -> tuple[Array, Array]:
    """Weighted mean over axes (None: all), and the sum of the weights.

    weights: the shape of a, or a vector for the one axis.
    """
    axes = axes_of("_npi_average", axis, a.ndim)
    if weights is None:
        count = size_of([a.shape[i] for i in axes])
        return jnp.mean(a, axes).astype(a.dtype), jnp.asarray(count, a.dtype)
    if weights.shape != a.shape:
        if len(axes) != 1 or weights.shape != (a.shape[axes[0]],):
            raise MXNetError(f"operator _npi_average: weights of shape {weights.shape} must have the shape of a, "
                             f"{a.shape}, or be a vector along a single axis; got axis={axis}")
        total = jnp.sum(weights)
        weights = weights.reshape([-1 if i == axes[0] else 1 for i in range(a.ndim)])
    else:
        total = jnp.sum(weights, axes)
    divisor = lax.stop_gradient(total)  # as in MXNet: only the average is differentiated
    return (jnp.sum(a * weights, axes) / total).astype(a.dtype), divisor.astype(a.dtype)


class PointError(MXNetError, ValueError):
    """Points that cannot be interpolated between: MXNet's error and a ValueError."""


def _check_points(xp: tuple, fp: tuple, period: float | None) -> None:
    """Raises an error for points that `interp` cannot use."""
    if len(xp) != 1 or xp != fp:
        raise PointError(f"operator _npi_interp: xp and fp must be vectors of the same length, got shapes {xp} and "
                         f"{fp}")
    if not xp[0]:
        raise PointError("operator _npi_interp: array of sample points is empty")
    if period == 0:
        raise MXNetError("operator _npi_interp: period must be a non-zero value")


@register("_npi_interp", FGradient=no_gradient, x64=True, infer_type=gives("float64"),
          inputs=lambda p: ["xp", "fp"] if p["x_is_scalar"] else ["xp", "fp", "x"])
def interp(xp: Array, fp: Array, x: Array | None = None, *, left: Double | None = None, right: Double | None = None,
           period: Double | None = None, x_scalar: Double = 0.0, x_is_scalar: bool = False) -> Array:
    """Interpolates linearly between the points (xp, fp): float64 of the shape of x.

    left, right: results below and above xp; default the ends of fp.  period: of x and xp, which then need not be
    increasing.
    """
    _check_points(xp.shape, fp.shape, period)
    place = jnp.asarray(x_scalar, jnp.float64) if x is None else x.astype(jnp.float64)
    return jnp.interp(place, xp.astype(jnp.float64), fp.astype(jnp.float64), left, right, period)


_PERCENTS = "operator _npi_percentile: percentiles must be in [0, 100], got {}"


def _check_percent(params: dict[str, Any]) -> Exception | None:
    q = params["q_scalar"]
    return ValueError(_PERCENTS.format(q)) if q is not None and not 0 <= q <= 100 else None


def _refuse_percents(params: dict[str, Any], inputs: Any, outputs: Any) -> Exception | None:
    q = np.asarray(inputs[1]) if len(inputs) > 1 else np.zeros(0)
    return ValueError(_PERCENTS.format(q.tolist())) if np.any((q < 0) | (q > 100)) else None


@register("_npi_percentile", FGradient=no_gradient, inputs=lambda p: ["a", "q"] if p["q_scalar"] is None else ["a"],
          infer_type=lambda p, ins, outs: outs.__setitem__(0, ins[0] if ins[0] == "float64" else "float32"),
          FCheck=_check_percent, FRefuse=_refuse_percents, refuses_calls_alone=True, x64=True)
def percentile(a: Array, q: Array | None = None, *, axis: Shape | None = None,
               interpolation: Literal["linear", "lower", "higher", "midpoint", "nearest"] = "linear",
               keepdims: bool = False, q_scalar: Double | None = None) -> Array:
    """The q-th percentiles (0 to 100) over axes (None: all), float32 (float64 for such data).

    q: a number (`q_scalar`) or an array, whose shape then leads the result's.  "nearest" selects the upper of two
    equally near neighbours.
    """
    out = a.dtype if a.dtype == jnp.float64 else jnp.dtype("float32")
    axes = axes_of("_npi_percentile", axis, a.ndim)
    _not_empty("_npi_percentile", a, axes)
    percents = jnp.asarray(q_scalar, jnp.float64) if q is None else q
    if percents.ndim > 1:
        raise MXNetError(f"operator _npi_percentile: q must be a number or a vector, got shape {percents.shape}")
    last = size_of([a.shape[i] for i in axes]) - 1
    place = (percents * last / 100.0).astype(jnp.float32)  # as exact as MXNet's, whatever the data
    if interpolation == "midpoint":
        place = (jnp.floor(place) + jnp.ceil(place)) / 2
    elif interpolation != "linear":
        place = {"lower": jnp.floor, "higher": jnp.ceil, "nearest": lambda x: jnp.floor(x + 0.5)}[interpolation](place)
    below = jnp.floor(place)
    weight = (place - below).reshape(place.shape + (1,) * (a.ndim - len(axes)))
    others = [i for i in range(a.ndim) if i not in axes]
    ordered = jnp.sort(jnp.moveaxis(a, axes, range(len(axes))).reshape(-1, *[a.shape[i] for i in others]), axis=0)
    result, above = (ordered[jnp.minimum(below.astype(jnp.int32) + k, last)].astype(out) for k in (0, 1))
    if interpolation in ("linear", "midpoint"):
        result = (result * (1 - weight) + above * weight).astype(out)
    return jnp.expand_dims(result, tuple(i + place.ndim for i in axes)) if keepdims else result


def _bincount_types(params: dict[str, Any], ins: list, outs: list) -> None:
    outs[0] = outs[0] or (ins[1] if params["has_weights"] else "int64")


@register("_npi_bincount", eager=True, FGradient=no_gradient, infer_type=_bincount_types,
          inputs=lambda p: ["data", "weights"] if p["has_weights"] else ["data"])
def bincount(data: Array, weights: Array | None = None, *, minlength: Annotated[int, Range(0)] = 0,
             has_weights: bool = False) -> np.ndarray:
    """Counts the occurrences of 0, 1, 2, ... in a vector of integers, or sums their weights.

    The result has max(minlength, largest number + 1) elements of the dtype of the data (of the weights).
    """
    if data.ndim != 1 or not jnp.issubdtype(data.dtype, jnp.integer):
        raise MXNetError(f"operator _npi_bincount takes a vector of integers, got {data.dtype} of shape {data.shape}")
    if weights is not None and weights.shape != data.shape:
        raise MXNetError(f"operator _npi_bincount: data has shape {data.shape}, but weights have shape {weights.shape}")
    numbers = np.asarray(data)
    if numbers.size and numbers.min() < 0:
        raise MXNetError(f"operator _npi_bincount: data must not contain negative numbers, got {numbers.min()}")
    size = max(minlength, int(numbers.max()) + 1 if numbers.size else 0)
    dtype = data.dtype if weights is None else weights.dtype
    refuse_result((2, size), dtype)
    if weights is None:  # on the host, where the numbers are: XLA would make several copies
        return np.bincount(numbers, minlength=size).astype(dtype, copy=False)
    counts = np.zeros(size, dtype)
    np.add.at(counts, numbers, np.asarray(weights))
    return counts
