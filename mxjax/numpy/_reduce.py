"""Functions that reduce: sums, moments, extremes, truth, averages, percentiles, counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import MXNetError
from ._dispatch import IMPERATIVE, call, is_number

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "average", "bincount", "cumsum", "histogram", "max",
           "mean", "min", "percentile", "prod", "product", "quantile", "sometrue", "std", "sum", "var"]


def _counted(a: Any, dtype: Any) -> Any:
    """The dtype to sum in: int64 for booleans."""
    return "int64" if dtype is None and isinstance(a, IMPERATIVE.kind) and a._chunk.dtype == np.bool_ else dtype


def sum(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: float | None = None,
        out: Any = None) -> Any:
    """Sum over axes.

    Args:
        a: ndarray.
        axis: int or tuple of ints; None: all.
        dtype: of the result; default that of `a`, int64 for booleans.
        keepdims: keep reduced axes with size 1.
        initial: a number to begin with.
        out: ndarray to write to.
    """
    return call("_np_sum", [a], out, axis=axis, dtype=_counted(a, dtype), keepdims=keepdims, initial=initial)


def _refuse(initial: Any) -> None:
    """Raises MXNetError for a number to begin with, which MXNet's functions name but do not take."""
    if initial is not None:
        raise MXNetError("initial is not supported")


def prod(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: None = None,
         out: Any = None) -> Any:
    """Product over axes; arguments as in `sum`, but for `initial`, which is not supported."""
    _refuse(initial)
    return call("_np_prod", [a], out, axis=axis, dtype=_counted(a, dtype), keepdims=keepdims)


def product(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: None = None,
            out: Any = None) -> Any:
    """As `prod`."""
    return prod(a, axis, dtype, keepdims, initial, out)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Running sums along an axis (None: of the flattened array); `dtype` as in `sum`."""
    return call("_np_cumsum", [a], out, axis=axis, dtype=_counted(a, dtype))


def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Mean over axes (None: all), in `dtype` (default: the array's, float32 for integers)."""
    return call("_npi_mean", [a], out, axis=axis, dtype=dtype, keepdims=keepdims)


def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """Standard deviation over axes (None: all); the squares are divided by the count less `ddof`."""
    return call("_npi_std", [a], out, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)


def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """Variance over axes (None: all); the squares are divided by the count less `ddof`."""
    return call("_npi_var", [a], out, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)


def max(a: Any, axis: Any = None, keepdims: bool = False, initial: None = None, out: Any = None) -> Any:
    """Maximum over axes (None: all); `initial` is not supported."""
    _refuse(initial)
    return call("_np_max", [a], out, axis=axis, keepdims=keepdims)


def min(a: Any, axis: Any = None, keepdims: bool = False, initial: None = None, out: Any = None) -> Any:
    """Minimum over axes (None: all); `initial` is not supported."""
    _refuse(initial)
    return call("_np_min", [a], out, axis=axis, keepdims=keepdims)


def amax(a: Any, axis: Any = None, keepdims: bool = False, initial: None = None, out: Any = None) -> Any:
    """As `max`."""
    return max(a, axis, keepdims, initial, out)


def amin(a: Any, axis: Any = None, keepdims: bool = False, initial: None = None, out: Any = None) -> Any:
    """As `min`."""
    return min(a, axis, keepdims, initial, out)


def all(a: Any, axis: Any = None, keepdims: bool = False, out: Any = None) -> Any:
    """Whether all elements along axes (None: all) are nonzero."""
    return call("_np_all", [a], out, axis=axis, keepdims=keepdims)


def any(a: Any, axis: Any = None, keepdims: bool = False, out: Any = None) -> Any:
    """Whether any element along axes (None: all) is nonzero."""
    return call("_np_any", [a], out, axis=axis, keepdims=keepdims)


def sometrue(a: Any, axis: Any = None, keepdims: bool = False, out: Any = None) -> Any:
    """As `any`."""
    return any(a, axis, keepdims, out)


def argmax(a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Position (int64) of the first maximum along an axis (None: in the flattened array)."""
    return call("_npi_argmax", [a], out, axis=axis)


def argmin(a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Position (int64) of the first minimum along an axis (None: in the flattened array)."""
    return call("_npi_argmin", [a], out, axis=axis)


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, out: Any = None) -> Any:
    """Weighted mean over axes (None: all); with `returned` also the sum of the weights.

    weights: ndarray of the shape of a, or a vector along the one axis; default all equal.
    """
    inputs = [a] if weights is None else [a, weights]
    return call("_npi_average", inputs, out, axis=axis, returned=returned, weighted=weights is not None)


def percentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = None,
               interpolation: str = "linear", keepdims: bool = False) -> Any:
    """The q-th percentiles over axes (None: all).

    Args:
        a: ndarray.
        q: a number, or an ndarray of them, in [0, 100].
        interpolation: "linear", "lower", "higher", "midpoint" or "nearest", between two elements.
    """
    if overwrite_input is not None:
        raise NotImplementedError("overwrite_input is not supported yet")
    params = {"axis": axis, "interpolation": interpolation, "keepdims": keepdims}
    if is_number(q):
        return call("_npi_percentile", [a], out, q_scalar=q, **params)
    return call("_npi_percentile", [a, q], out, **params)


def quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = None,
             interpolation: str = "linear", keepdims: bool = False) -> Any:
    """As `percentile`, with q in [0, 1]."""
    return percentile(a, q * 100, axis, out, overwrite_input, interpolation, keepdims)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each of 0, 1, 2, ... is in a vector of integers, or the sum of its `weights`.

    Raises:
        ValueError: `minlength` is negative.
    """
    if minlength < 0:
        raise ValueError("Minlength value should greater than 0")
    inputs = [x] if weights is None else [x, weights]
    return call("_npi_bincount", inputs, minlength=minlength, has_weights=weights is not None)


def histogram(a: Any, bins: Any = 10, range: tuple[float, float] | None = None, normed: bool | None = None,
              weights: Any = None, density: bool | None = None) -> Any:
    """Counts of the values per bin, and the bins' edges.

    Args:
        a: ndarray.
        bins: how many bins `range` has, or an ndarray of edges.

    Raises:
        NotImplementedError: normed, weights, density; a number of bins without a range; edges of another type.
    """
    unsupported = {"normed": normed is True, "weights": weights is not None, "density": density is True,
                   "automatic range": is_number(bins) and range is None,
                   "array_like bins": isinstance(bins, (list, tuple)), "string bins": isinstance(bins, str)}
    for what, given in unsupported.items():
        if given:
            raise NotImplementedError(f"{what} is not supported yet")
    if is_number(bins):
        return call("_npi_histogram", [a], bin_cnt=bins, range=range)
    return call("_npi_histogram", [a, bins])
