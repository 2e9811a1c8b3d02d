"""Reductions along axes, positions of extremes, sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.params import np_dtype
from ..direct import Work, need, numpy_form
from ..program import Array
from .elementwise import NUMBERS, chosen, flat, floats, reads_none

__all__ = ["along", "total"]

_PART = 4  # up to this share of the numbers, the first ones are partitioned; above it, all are sorted
_SHORT = 512  # rows up to which a product with ones is the fastest way to sum


def along(axis: int, x: Array) -> int:
    """Returns a non-negative axis."""
    need(-x.ndim <= axis < x.ndim)
    return axis % x.ndim


def total(x: Array, axis: int | tuple[int, ...], keepdims: bool = False) -> Any:
    """Returns the sum over axes, for many short rows by BLAS."""
    last = axis if isinstance(axis, int) else axis[0] if len(axis) == 1 else None
    if last == x.ndim - 1 and 0 < x.shape[-1] <= _SHORT and x.dtype.kind == "f" and x.flags.c_contiguous:
        sums = x.reshape(-1, x.shape[-1]) @ np.ones(x.shape[-1], x.dtype)
        return sums.reshape(x.shape[:-1] + (1,) * keepdims)
    return np.add.reduce(x, axis, keepdims=keepdims)


# ------------------------------------------------------------ axes
def _axes(p: dict, x: Array) -> tuple[int, ...]:
    """Returns the reduced axes of classic operators; no axes mean all axes."""
    axis = p["axis"]
    if not axis:  # with `exclude`, too
        need(axis is None or not p.get("exclude"))
        return tuple(range(x.ndim))
    axes = {along(a, x) for a in axis}
    need(len(axes) == len(axis))
    return tuple([a for a in range(x.ndim) if (a in axes) != p.get("exclude", False)])


def _numpy_axes(p: dict, x: Array) -> tuple[int, ...]:
    """Returns the same for mx.np, whose results may have no axes."""
    need(p["axis"] != () and p.get("initial") is None and p.get("dtype") in (None, x.dtype.name))
    return _axes(p, x)


def _at_least_1d(x: Array) -> Any:
    return x if x.ndim else x.reshape(1)


def _back(out_grad: Array, x: Array, axes: tuple[int, ...]) -> Any:
    """Returns the output's gradient with the reduced axes as size 1."""
    return out_grad.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])


# ------------------------------------------------------------ numbers of each set
def _spread(p: dict, out_grad: Array, x: Array, axes: tuple[int, ...]) -> Any:
    return np.broadcast_to(_back(out_grad, x, axes), x.shape)


def _mean(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    need(x.size)
    mean = total(x, axes, keepdims)
    mean /= _count(x, axes)
    return mean


def _count(x: Array, axes: tuple[int, ...]) -> int:
    return math.prod([x.shape[a] for a in axes])


def _product_slope(p: dict, out_grad: Array, x: Array, axes: tuple[int, ...]) -> Any:
    product = np.multiply.reduce(x, axes, keepdims=True)
    need(np.isfinite(product).all() and product.all())
    return _back(out_grad, x, axes) * product / x


def _extreme(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Registers maximum or minimum; all elements that are equal to it receive the whole gradient."""
    def reduced(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
        need(x.size)
        return function(x, axes, keepdims=keepdims)

    def slope(p: dict, out_grad: Array, x: Array, axes: tuple[int, ...]) -> Any:
        there = x == function(x, axes, keepdims=True)
        return chosen(there, np.broadcast_to(_back(out_grad, x, axes), x.shape))
    return reduced, slope


def _without_nan(x: Array) -> Any:
    return chosen(x == x, x)


def _reduction(names: tuple[str, str | None], function: Callable[..., Any], slope: Callable[..., Any], *,
               reads: bool, integers: bool = False) -> None:
    """Registers a reduction, `function`(array, axes, keepdims).

    Args:
        names: names of the classic operator and of that in mx.np.
        function: returns the result, which is converted to the dtype of the array.
        slope: function(parameters, out_grad, array, axes) -> gradient of the array.
        reads: the slope reads the array.
        integers: it accepts integers, too.
    """
    fields = {**({} if reads else {"reads": reads_none}), **({"dtypes": NUMBERS} if integers else {})}
    for name, axes, shaped in zip(names, (_axes, _numpy_axes), (_at_least_1d, np.asarray), strict=True):
        def forward(p: dict, x: Array, axes: Callable = axes, shaped: Callable = shaped) -> Any:
            return shaped(np.asarray(function(x, axes(p, x), p["keepdims"]), x.dtype))

        def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array,
                     axes: Callable = axes) -> list[Any]:
            floats(x)
            return [slope(p, out_grads[0], x, axes(p, x))]
        if name is not None:
            numpy_form(name, backward=backward, **fields)(forward)


_reduction(("sum", "_np_sum"), total, _spread, reads=False, integers=True)
_reduction(("mean", "_npi_mean"), _mean,
           lambda p, out_grad, x, axes: _spread(p, out_grad / x.dtype.type(_count(x, axes)), x, axes), reads=False)
_reduction(("prod", "_np_prod"), lambda x, axes, keepdims: np.multiply.reduce(x, axes, keepdims=keepdims),
           _product_slope, reads=True)
_reduction(("nansum", None), lambda x, axes, keepdims: total(_without_nan(x), axes, keepdims),
           lambda p, out_grad, x, axes: chosen(x == x, _spread(p, out_grad, x, axes)), reads=True)
_reduction(("max", "_np_max"), *_extreme(np.maximum.reduce), reads=True, integers=True)
_reduction(("min", "_np_min"), *_extreme(np.minimum.reduce), reads=True, integers=True)


def _norm_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    axes = _axes(p, x)
    out_grad = _back(out_grads[0], x, axes)
    if p["ord"] == 1:
        sign = (x > 0).astype(x.dtype)
        sign -= x < 0
        sign *= out_grad
        return [sign]
    return [x * (out_grad / np.sqrt(total(np.square(x), axes, True)))]


@numpy_form("norm", backward=_norm_backward)
def _norm(p: dict, x: Array) -> Any:
    need(p["ord"] in (1, 2) and p["out_dtype"] in (None, x.dtype.name))
    sums = total(np.abs(x) if p["ord"] == 1 else np.square(x), _axes(p, x), p["keepdims"])
    return _at_least_1d(np.asarray(sums if p["ord"] == 1 else np.sqrt(sums)))


def _sums_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    axis = 0 if p["axis"] is None else along(p["axis"], x)
    return [np.flip(np.cumsum(np.flip(out_grads[0], axis), axis), axis).reshape(x.shape)]


@numpy_form("_np_cumsum", backward=_sums_backward, reads=reads_none)
def _sums(p: dict, x: Array) -> Any:
    need(p["dtype"] in (None, x.dtype.name) and x.ndim and x.dtype != np.bool_)
    return np.cumsum(x, None if p["axis"] is None else along(p["axis"], x))


def _deviation(name: str, function: Callable[..., Any]) -> None:
    """Registers the variance or standard deviation of mx.np, without gradients."""
    def forward(p: dict, x: Array) -> Any:
        axes = _numpy_axes(p, x)
        need(p["ddof"] < _count(x, axes))
        return np.asarray(function(x, axes, ddof=p["ddof"], keepdims=p["keepdims"]))
    numpy_form(name, backward=lambda p, out_grads, needs_grad, x: flat(x), reads=reads_none)(forward)


_deviation("_npi_var", np.var)
_deviation("_npi_std", np.std)


# ------------------------------------------------------------ positions and order
def _position(name: str, function: Callable[..., Any], classic: bool) -> None:
    """Registers positions of extremes: NaN is an extreme; classic results have the dtype of the array."""
    def forward(p: dict, x: Array) -> Any:
        need(x.size and x.ndim)
        result = np.asarray(function(x, None if p["axis"] is None else along(p["axis"], x), keepdims=p["keepdims"]))
        return _at_least_1d(result).astype(x.dtype) if classic else result.astype(np.int64)
    numpy_form(name, backward=lambda p, out_grads, needs_grad, x: _flat_floats(x), reads=reads_none,
               dtypes=NUMBERS)(forward)


def _flat_floats(x: Array) -> list[Any]:
    floats(x)
    return flat(x)


for _name, _function in {"argmax": np.argmax, "argmin": np.argmin}.items():
    _position(_name, _function, True)
    _position(f"_npi_{_name}", _function, False)


@numpy_form("argmax_channel", backward=lambda p, out_grads, needs_grad, x: flat(x), reads=reads_none)
def _argmax_channel(p: dict, x: Array) -> Any:
    need(x.size and x.ndim > 1)
    return np.argmax(x, 1).astype(x.dtype)


def _sorting_work(p: dict, x: tuple[int, ...]) -> Work:
    return Work(20.0 * math.prod(x), operations=30.0)


def _first(x: Array, count: int, ascending: bool) -> Any:
    """Returns the positions of the first numbers in sorted order along the last axis."""
    need(x.max() == x.max())  # NaN is the largest number, but not the smallest of -x
    keys = x if ascending else -x
    places = np.argpartition(keys, count - 1, -1)[..., :count]
    return np.take_along_axis(places, np.argsort(np.take_along_axis(keys, places, -1), -1), -1)


def _order(p: dict, x: Array, count: int = 0) -> tuple[Any, Any, int]:
    """Returns the sorted numbers along the axis, moved to the end, their positions, and the axis.

    The order of equal numbers has special rules, which do not matter if the first `count` numbers are unique.
    """
    need(x.size and x.ndim)
    axis = 0 if p["axis"] is None else along(p["axis"], x)
    last = x.ravel() if p["axis"] is None else np.moveaxis(x, axis, -1)
    if 0 < count < last.shape[-1] // _PART:
        places = _first(last, count + 1, p["is_ascend"])
    else:
        places = np.argsort(last, -1)
        places = places if p["is_ascend"] else places[..., ::-1]
    ordered = np.take_along_axis(last, places, -1)
    first = ordered[..., :count + 1]
    need(count == 0 or (first[..., 1:] != first[..., :-1]).all() and not np.isnan(first).any())
    return ordered, places, axis


def _put_back(out_grad: Array, places: Array, axis: int, x: Array, flattened: bool) -> Any:
    """Returns the gradients of selected numbers at their positions, elsewhere 0."""
    moved = x.ravel() if flattened else np.moveaxis(x, axis, -1)
    grad = np.zeros(moved.shape, x.dtype)
    np.put_along_axis(grad, places, out_grad if flattened else np.moveaxis(out_grad, axis, -1), -1)
    return grad.reshape(x.shape) if flattened else np.moveaxis(grad, -1, axis)


def _sort_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    _, places, axis = _order(p, x, x.size)
    return [_put_back(out_grads[0], places, axis, x, p["axis"] is None)]


@numpy_form("sort", backward=_sort_backward, work=_sorting_work)
def _sort(p: dict, x: Array) -> Any:
    ordered, _, axis = _order(p, x)
    return np.moveaxis(ordered, -1, axis)


@numpy_form("argsort", backward=lambda p, out_grads, needs_grad, x: flat(x), reads=reads_none, work=_sorting_work)
def _argsort(p: dict, x: Array) -> Any:
    _, places, axis = _order(p, x, x.size)
    return np.moveaxis(places, -1, axis).astype(np_dtype(p["dtype"]))


def _count_of(p: dict, x: Array) -> int:
    """Returns the number of selected values."""
    size = x.size if p["axis"] is None else x.shape[along(p["axis"], x)]
    need(p["k"] <= size and p["ret_typ"] != "mask")
    return p["k"] if p["k"] > 0 else size


def _topk_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    if p["ret_typ"] == "indices" or out_grads[0] is None:
        return flat(x)
    count = _count_of(p, x)
    _, places, axis = _order(p, x, count)
    return [_put_back(out_grads[0], places[..., :count], axis, x, p["axis"] is None)]


@numpy_form("topk", backward=_topk_backward, work=_sorting_work)
def _topk(p: dict, x: Array) -> Any:
    count = _count_of(p, x)
    ordered, places, axis = _order(p, x, count)
    values, places = [np.moveaxis(a[..., :count], -1, axis) for a in (ordered, places)]
    places = places.astype(np_dtype(p["dtype"]))
    return places if p["ret_typ"] == "indices" else (values, places)
