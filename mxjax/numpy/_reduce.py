"""Reductions: sums, moments, extremes, logical reductions, averages, percentiles, counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import MXNetError
from ..ops.params import DTypeLike
from ._dispatch import IMPERATIVE, ArrayOrSymbol, Axes, Operand, call, is_number

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "average", "bincount", "cumsum", "histogram", "max",
           "mean", "median", "min", "percentile", "prod", "product", "quantile", "sometrue", "std", "sum", "var"]


def _counted(a: Any, dtype: DTypeLike) -> Any:
    """The dtype to sum in: int64 for booleans."""
    return "int64" if dtype is None and isinstance(a, IMPERATIVE.kind) and a.chunk.dtype == np.bool_ else dtype


def sum(a: ArrayOrSymbol, axis: Axes = None, dtype: DTypeLike = None, keepdims: bool = False,
        initial: float | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Sum over axes.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        dtype: dtype of the result; defaults to that of `a`, int64 for booleans.
        keepdims: keep reduced axes with size 1.
        initial: start value of the sum.
        out: ndarray to write to.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        TypeError: `a` is not an ndarray or symbol.
        MXNetError: an axis is out of range.

    Example:
        >>> a = mx.np.array([[1, 2], [3, 4]])
        >>> mx.np.sum(a)
        array(10.)
        >>> mx.np.sum(a, axis=1, keepdims=True)
        array([[3.],
               [7.]])
    """
    return call("_np_sum", [a], out, axis=axis, dtype=_counted(a, dtype), keepdims=keepdims, initial=initial)


def _refuse(initial: float | None) -> None:
    """Raises MXNetError for a number to begin with, which MXNet's functions name but do not take."""
    if initial is not None:
        raise MXNetError("initial is not supported")


def prod(a: ArrayOrSymbol, axis: Axes = None, dtype: DTypeLike = None, keepdims: bool = False, initial: None = None,
         out: ArrayOrSymbol | None = None) -> Any:
    """Product over axes.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        dtype: dtype of the result; defaults to that of `a`, int64 for booleans.
        keepdims: keep reduced axes with size 1.
        initial: only None.
        out: ndarray to write to.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        TypeError: `a` is not an ndarray or symbol.
        MXNetError: `initial` is given, or an axis is out of range.

    Example:
        >>> mx.np.prod(mx.np.array([[1, 2], [3, 4]]), axis=0)
        array([3., 8.])
    """
    _refuse(initial)
    return call("_np_prod", [a], out, axis=axis, dtype=_counted(a, dtype), keepdims=keepdims)


def product(a: ArrayOrSymbol, axis: Axes = None, dtype: DTypeLike = None, keepdims: bool = False, initial: None = None,
            out: ArrayOrSymbol | None = None) -> Any:
    """An alias of `prod`.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        dtype: dtype of the result; defaults to that of `a`, int64 for booleans.
        keepdims: keep reduced axes with size 1.
        initial: only None.
        out: ndarray to write to.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        MXNetError: `initial` is given, or an axis is out of range.

    Example:
        >>> mx.np.product(mx.np.array([2, 3, 4]))
        array(24.)
    """
    return prod(a, axis, dtype, keepdims, initial, out)


def cumsum(a: ArrayOrSymbol, axis: int | None = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None) -> Any:
    """Running sums along an axis.

    Args:
        a: ndarray or symbol.
        axis: the axis; None for the flattened array.
        dtype: dtype of the result; defaults to that of `a`, int64 for booleans.
        out: ndarray to write to.

    Returns:
        The sums, of the shape of `a`, or a vector if `axis` is None.

    Raises:
        MXNetError: the axis is out of range.

    Example:
        >>> mx.np.cumsum(mx.np.array([[1, 2], [3, 4]]), axis=0)
        array([[1., 2.],
               [4., 6.]])
    """
    return call("_np_cumsum", [a], out, axis=axis, dtype=_counted(a, dtype))


def mean(a: ArrayOrSymbol, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None,
         keepdims: bool = False) -> Any:
    """Mean over axes.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        dtype: dtype of the result; defaults to that of `a`, float32 for integers.
        out: ndarray to write to.
        keepdims: keep reduced axes with size 1.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        TypeError: `a` is not an ndarray or symbol.
        MXNetError: an axis is out of range.

    Example:
        >>> mx.np.mean(mx.np.array([[1, 2], [3, 6]]), axis=1)
        array([1.5, 4.5])
    """
    return call("_npi_mean", [a], out, axis=axis, dtype=dtype, keepdims=keepdims)


def std(a: ArrayOrSymbol, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None, ddof: int = 0,
        keepdims: bool = False) -> Any:
    """Standard deviation over axes: the square root of `var`.

    Args:
        a: ndarray or symbol; integers need a `dtype`.
        axis: int or tuple of ints; None for all axes.
        dtype: dtype of the result; defaults to that of `a`.
        out: ndarray to write to.
        ddof: the sum of squares is divided by the number of elements minus `ddof`.
        keepdims: keep reduced axes with size 1.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        TypeError: `a` is not an ndarray or symbol.
        MXNetError: an axis is out of range.

    Example:
        >>> mx.np.std(mx.np.array([[1, 3], [2, 6]]), axis=1)
        array([1., 2.])
    """
    return call("_npi_std", [a], out, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)


def var(a: ArrayOrSymbol, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None, ddof: int = 0,
        keepdims: bool = False) -> Any:
    """Variance over axes: the mean of the squared deviations from the mean.

    Args:
        a: ndarray or symbol; integers need a `dtype`.
        axis: int or tuple of ints; None for all axes.
        dtype: dtype of the result; defaults to that of `a`.
        out: ndarray to write to.
        ddof: the sum of squares is divided by the number of elements minus `ddof`.
        keepdims: keep reduced axes with size 1.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        TypeError: `a` is not an ndarray or symbol.
        MXNetError: an axis is out of range.

    Example:
        >>> a = mx.np.array([1, 2, 3])
        >>> mx.np.var(a, ddof=1)
        array(1.)
    """
    return call("_npi_var", [a], out, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)


def max(a: ArrayOrSymbol, axis: Axes = None, keepdims: bool = False, initial: None = None,
        out: ArrayOrSymbol | None = None) -> Any:
    """Maximum over axes.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        keepdims: keep reduced axes with size 1.
        initial: only None.
        out: ndarray to write to.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        MXNetError: `initial` is given, there are no elements to reduce, or an axis is out of range.

    Example:
        >>> mx.np.max(mx.np.array([[1, 5], [4, 2]]), axis=0)
        array([4., 5.])
    """
    _refuse(initial)
    return call("_np_max", [a], out, axis=axis, keepdims=keepdims)


def min(a: ArrayOrSymbol, axis: Axes = None, keepdims: bool = False, initial: None = None,
        out: ArrayOrSymbol | None = None) -> Any:
    """Minimum over axes.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        keepdims: keep reduced axes with size 1.
        initial: only None.
        out: ndarray to write to.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        MXNetError: `initial` is given, there are no elements to reduce, or an axis is out of range.

    Example:
        >>> mx.np.min(mx.np.array([[1, 5], [4, 2]]), axis=0)
        array([1., 2.])
    """
    _refuse(initial)
    return call("_np_min", [a], out, axis=axis, keepdims=keepdims)


def amax(a: ArrayOrSymbol, axis: Axes = None, keepdims: bool = False, initial: None = None,
         out: ArrayOrSymbol | None = None) -> Any:
    """An alias of `max`.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        keepdims: keep reduced axes with size 1.
        initial: only None.
        out: ndarray to write to.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        MXNetError: `initial` is given, there are no elements to reduce, or an axis is out of range.

    Example:
        >>> mx.np.amax(mx.np.array([1, 5, 3]))
        array(5.)
    """
    return max(a, axis, keepdims, initial, out)


def amin(a: ArrayOrSymbol, axis: Axes = None, keepdims: bool = False, initial: None = None,
         out: ArrayOrSymbol | None = None) -> Any:
    """An alias of `min`.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        keepdims: keep reduced axes with size 1.
        initial: only None.
        out: ndarray to write to.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        MXNetError: `initial` is given, there are no elements to reduce, or an axis is out of range.

    Example:
        >>> mx.np.amin(mx.np.array([1, 5, 3]))
        array(1.)
    """
    return min(a, axis, keepdims, initial, out)


def all(a: ArrayOrSymbol, axis: Axes = None, keepdims: bool = False, out: ArrayOrSymbol | None = None) -> Any:
    """Returns whether all elements along axes are nonzero.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        keepdims: keep reduced axes with size 1.
        out: ndarray to write to.

    Returns:
        An ndarray of booleans without the reduced axes.

    Raises:
        MXNetError: an axis is out of range.

    Example:
        >>> mx.np.all(mx.np.array([[1, 0], [1, 1]]), axis=1)
        array([False,  True])
    """
    return call("_np_all", [a], out, axis=axis, keepdims=keepdims)


def any(a: ArrayOrSymbol, axis: Axes = None, keepdims: bool = False, out: ArrayOrSymbol | None = None) -> Any:
    """Returns whether any element along axes is nonzero.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        keepdims: keep reduced axes with size 1.
        out: ndarray to write to.

    Returns:
        An ndarray of booleans without the reduced axes.

    Raises:
        MXNetError: an axis is out of range.

    Example:
        >>> mx.np.any(mx.np.array([[1, 0], [0, 0]]), axis=1)
        array([ True, False])
    """
    return call("_np_any", [a], out, axis=axis, keepdims=keepdims)


def sometrue(a: ArrayOrSymbol, axis: Axes = None, keepdims: bool = False, out: ArrayOrSymbol | None = None) -> Any:
    """An alias of `any`.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        keepdims: keep reduced axes with size 1.
        out: ndarray to write to.

    Returns:
        An ndarray of booleans without the reduced axes.

    Raises:
        MXNetError: an axis is out of range.

    Example:
        >>> mx.np.sometrue(mx.np.array([0, 0, 3]))
        array(True)
    """
    return any(a, axis, keepdims, out)


def argmax(a: ArrayOrSymbol, axis: int | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """The index of the first maximum along an axis.

    Args:
        a: ndarray or symbol.
        axis: the axis; None for the flattened array.
        out: ndarray to write to.

    Returns:
        An int64 ndarray of indices, without the axis.

    Raises:
        MXNetError: the axis is not an int, or is out of range.

    Example:
        >>> mx.np.argmax(mx.np.array([[1, 5, 5], [9, 2, 3]]), axis=1)
        array([1, 0], dtype=int64)
    """
    return call("_npi_argmax", [a], out, axis=axis)


def argmin(a: ArrayOrSymbol, axis: int | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """The index of the first minimum along an axis.

    Args:
        a: ndarray or symbol.
        axis: the axis; None for the flattened array.
        out: ndarray to write to.

    Returns:
        An int64 ndarray of indices, without the axis.

    Raises:
        MXNetError: the axis is not an int, or is out of range.

    Example:
        >>> mx.np.argmin(mx.np.array([[1, 5, 5], [9, 2, 3]]), axis=1)
        array([0, 1], dtype=int64)
    """
    return call("_npi_argmin", [a], out, axis=axis)


def average(a: ArrayOrSymbol, axis: Axes = None, weights: ArrayOrSymbol | None = None, returned: bool = False,
            out: ArrayOrSymbol | None = None) -> Any:
    """Weighted mean over axes.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        weights: ndarray of the shape of `a`, or a vector along a single axis; by default all are equal.
        returned: whether to return the sum of the weights as well.
        out: ndarray to write to.

    Returns:
        An ndarray without the reduced axes; with `returned` a list of the ndarray and the sum of the weights.

    Raises:
        MXNetError: the weights have another shape.

    Example:
        >>> mx.np.average(mx.np.array([[1, 2], [3, 4]]), axis=1, weights=mx.np.array([3, 1]))
        array([1.25, 3.25])
    """
    inputs = [a] if weights is None else [a, weights]
    return call("_npi_average", inputs, out, axis=axis, returned=returned, weighted=weights is not None)


def percentile(a: ArrayOrSymbol, q: Operand, axis: Axes = None, out: ArrayOrSymbol | None = None,
               overwrite_input: bool | None = None, interpolation: str = "linear", keepdims: bool = False) -> Any:
    """The q-th percentiles over axes.

    Args:
        a: ndarray or symbol.
        q: a number or an ndarray of numbers in [0, 100].
        axis: int or tuple of ints; None for all axes.
        out: ndarray to write to.
        overwrite_input: only None.
        interpolation: "linear", "lower", "higher", "midpoint" or "nearest", between two elements.
        keepdims: keep reduced axes with size 1.

    Returns:
        An ndarray without the reduced axes; the axes of `q` come first.

    Raises:
        NotImplementedError: `overwrite_input` is given.
        ValueError: a percentile is not in [0, 100].
        MXNetError: an unknown interpolation.

    Example:
        >>> a = mx.np.array([[1, 2, 3], [4, 6, 8]])
        >>> mx.np.percentile(a, 50, axis=1)
        array([2., 6.])
        >>> mx.np.percentile(a, mx.np.array([0, 100]))
        array([1., 8.])
    """
    if overwrite_input is not None:
        raise NotImplementedError("overwrite_input is not supported yet")
    params = {"axis": axis, "interpolation": interpolation, "keepdims": keepdims}
    if is_number(q):
        return call("_npi_percentile", [a], out, q_scalar=q, **params)
    return call("_npi_percentile", [a, q], out, **params)


def quantile(a: ArrayOrSymbol, q: Any, axis: Axes = None, out: ArrayOrSymbol | None = None,
             overwrite_input: bool | None = None, interpolation: str = "linear", keepdims: bool = False) -> Any:
    """The q-th quantiles over axes: `percentile` with q in [0, 1].

    Args:
        a: ndarray or symbol.
        q: a number or an ndarray of numbers in [0, 1].
        axis: int or tuple of ints; None for all axes.
        out: ndarray to write to.
        overwrite_input: only None.
        interpolation: "linear", "lower", "higher", "midpoint" or "nearest", between two elements.
        keepdims: keep reduced axes with size 1.

    Returns:
        An ndarray without the reduced axes; the axes of `q` come first.

    Raises:
        NotImplementedError: `overwrite_input` is given.
        ValueError: a quantile is not in [0, 1].
        MXNetError: an unknown interpolation.

    Example:
        >>> mx.np.quantile(mx.np.array([1, 2, 3, 5]), 0.5)
        array(2.5)
    """
    return percentile(a, q * 100, axis, out, overwrite_input, interpolation, keepdims)


def median(a: ArrayOrSymbol, axis: Axes = None, out: ArrayOrSymbol | None = None, overwrite_input: bool | None = None,
           keepdims: bool = False) -> Any:
    """Median over axes: the middle element, or the mean of the two middle elements.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        out: ndarray to write to.
        overwrite_input: only None.
        keepdims: keep reduced axes with size 1.

    Returns:
        An ndarray without the reduced axes; float32 for integers.

    Raises:
        NotImplementedError: `overwrite_input` is given.

    Example:
        >>> mx.np.median(mx.np.array([[1, 2, 30], [4, 5, 6]]), axis=1)
        array([2., 5.])
    """
    return quantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


def bincount(x: ArrayOrSymbol, weights: ArrayOrSymbol | None = None, minlength: int = 0) -> Any:
    """Counts the occurrences of 0, 1, 2, ... in a vector of integers, or sums their `weights`.

    Args:
        x: vector of non-negative integers.
        weights: a number for each element; defaults to 1.
        minlength: minimum length of the result.

    Returns:
        A vector; its length is the largest number of `x` plus one.

    Raises:
        ValueError: `minlength` is negative.
        MXNetError: `x` is not a vector of integers, or one of them is negative.

    Example:
        >>> x = mx.np.array([0, 1, 1, 3], dtype="int32")
        >>> mx.np.bincount(x)
        array([1, 2, 0, 1], dtype=int32)
        >>> mx.np.bincount(x, weights=mx.np.array([1, 0.5, 0.25, 2]))
        array([1.  , 0.75, 0.  , 2.  ])
    """
    if minlength < 0:
        raise ValueError("Minlength value should greater than 0")
    inputs = [x] if weights is None else [x, weights]
    return call("_npi_bincount", inputs, minlength=minlength, has_weights=weights is not None)


def histogram(a: ArrayOrSymbol, bins: int | ArrayOrSymbol = 10, range: tuple[float, float] | None = None,
              normed: bool | None = None, weights: ArrayOrSymbol | None = None, density: bool | None = None) -> Any:
    """Counts of the values per bin, and the bins' edges.

    Args:
        a: ndarray or symbol.
        bins: number of bins in `range`, or an ndarray of bin edges.
        range: the first and the last edge; values outside are ignored.
        normed: only None or False.
        weights: only None.
        density: only None or False.

    Returns:
        A list of the counts (int64) and the bin edges, one more than the number of bins.

    Raises:
        NotImplementedError: `normed`, `weights` or `density` is given, `bins` is a number and there is no `range`, or
            the edges are of another type.

    Example:
        >>> counts, edges = mx.np.histogram(mx.np.array([1, 2, 3]), bins=2, range=(0, 4))
        >>> counts
        array([1, 2], dtype=int64)
        >>> edges
        array([0., 2., 4.])
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
