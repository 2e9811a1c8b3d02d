"""Forms of primitives along axes: sums, sorting, matrix products, windows, convolutions, factorizations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..ops.reduce._ties_by_numpy import positions
from .program import Array, Aval, need

__all__ = ["AXES", "MATRICES"]


def _limit(which: str, dtype: np.dtype) -> Any:
    """Returns the smallest ("min") or largest ("max") value of a dtype."""
    if dtype.kind == "b":
        return which == "max"
    return getattr(np.iinfo(dtype), which) if dtype.kind in "iu" else np.inf if which == "max" else -np.inf


def _reduced(ufunc: np.ufunc, start: str = "") -> Callable:
    """start: the result without elements: the smallest ("min") or largest ("max") value, otherwise the identity."""
    def make(params: dict, ins: list, out: Aval) -> Callable:
        axes, first = tuple(params["axes"]), _limit(start, out.dtype) if start else ufunc.identity
        return lambda x: ufunc.reduce(x, axes, x.dtype) if x.size else ufunc.reduce(x, axes, x.dtype, initial=first)
    return make


def _sort(params: dict, ins: list, out: Aval) -> Callable:
    axis, keys = params["dimension"], params["num_keys"]

    def sort(*xs: Array) -> list[Any]:
        order = np.argsort(xs[0], axis, kind="stable") if keys == 1 else np.lexsort(xs[keys - 1::-1], axis)
        return [np.take_along_axis(x, order, axis) for x in xs]
    return sort


def _so_far(ufunc: np.ufunc) -> Callable:
    def make(params: dict, ins: list, out: Aval) -> Callable:
        axis, back = params["axis"], params["reverse"]
        turned = (lambda x: np.flip(x, axis)) if back else (lambda x: x)
        return lambda x: turned(ufunc.accumulate(turned(x), axis, dtype=x.dtype))
    return make


def _top_k(params: dict, ins: list, out: Aval) -> Callable:
    axis, count = params.get("axis", -1), params["k"]
    need(not (axis not in (-1, len(ins[0].shape) - 1) or ins[0].dtype.kind == "u"))

    def top(x: Array) -> list[Any]:
        order = np.argsort(-x if x.dtype.kind == "f" else ~x, -1, kind="stable")[..., :count]
        return [np.take_along_axis(x, order, -1), order]
    return top


def _dot(params: dict, ins: list, out: Aval) -> Callable:
    (left_sum, right_sum), (left_batch, right_batch) = params["dimension_numbers"]

    def order(rank: int, batch: Sequence[int], sums: Sequence[int]) -> list[int]:
        return [i for i in range(rank) if i not in batch and i not in sums]
    left, right = ins
    left_own = order(len(left.shape), left_batch, left_sum)
    right_own = order(len(right.shape), right_batch, right_sum)
    batch = tuple(left.shape[i] for i in left_batch)
    count = math.prod(left.shape[i] for i in left_sum)
    rows, columns = (math.prod(a.shape[i] for i in own) for a, own in ((left, left_own), (right, right_own)))
    dtype = out.dtype

    def dot(x: Array, y: Array) -> Any:
        x = x.transpose(*left_batch, *left_own, *left_sum).reshape(*batch, rows, count)
        y = y.transpose(*right_batch, *right_sum, *right_own).reshape(*batch, count, columns)
        return np.matmul(x, y, dtype=dtype).reshape(out.shape)
    return dot


# ------------------------------------------------------------ windows
def _spread(x: Array, axes: Sequence[int], pads: Sequence[Sequence[int]], between: Sequence[int],
            fill: Array | float) -> Any:
    """Returns the array with `between - 1` positions inserted after each element along axes, and edges; negative edges
    crop it."""
    shape, into, kept = list(x.shape), [slice(None)] * x.ndim, [slice(None)] * x.ndim
    for axis, (low, high), step in zip(axes, pads, between, strict=True):
        own = max(0, (x.shape[axis] - 1) * step + 1)
        shape[axis] = own + max(low, 0) + max(high, 0)
        into[axis] = slice(max(low, 0), max(low, 0) + own, step)
        kept[axis] = slice(max(-low, 0), shape[axis] - max(-high, 0))
    if shape == list(x.shape) and all(k in (slice(None), slice(0, n)) for k, n in zip(kept, shape, strict=True)):
        return x
    result = np.full(shape, fill, x.dtype)
    result[tuple(into)] = x
    return result[tuple(kept)]


def _windows(x: Array, axes: Sequence[int], sizes: Sequence[int], strides: Sequence[int],
             apart: Sequence[int]) -> Any:
    """Returns a view of all windows: their positions along the axes, their contents along further axes at the end."""
    whole = [(n - 1) * step + 1 for n, step in zip(sizes, apart, strict=True)]
    view = sliding_window_view(x, whole, tuple(axes))
    steps: list[Any] = [slice(None)] * x.ndim
    for axis, stride in zip(axes, strides, strict=True):
        steps[axis] = slice(None, None, stride)
    return view[(*steps, *[slice(None, None, step) for step in apart])]


def _reduced_windows(ufunc: np.ufunc) -> Callable:
    def make(params: dict, ins: list, out: Aval) -> Callable:
        sizes, strides, pads = params["window_dimensions"], params["window_strides"], params["padding"]
        between, apart = params["base_dilation"], params["window_dilation"]
        axes, kind, dtype = range(len(sizes)), out.dtype.kind, out.dtype
        fill = 0 if ufunc is np.add else _limit("min" if ufunc is np.maximum else "max", dtype)
        need(not (kind == "b" or not math.prod(out.shape) * math.prod(sizes)))
        last = tuple(range(-len(sizes), 0))

        def reduced(x: Array) -> Any:
            view = _windows(_spread(x, axes, pads, between, fill), axes, sizes, strides, apart)
            return ufunc.reduce(view, last, dtype)
        return reduced
    return make


def _convolution(params: dict, ins: list, out: Aval) -> Callable:
    numbers, pads = params["dimension_numbers"], params["padding"]
    groups, of_batch = params["feature_group_count"], params["batch_group_count"]
    strides, between, apart = params["window_strides"], params["lhs_dilation"], params["rhs_dilation"]
    weight = [ins[1].shape[i] for i in numbers.rhs_spec]  # (outputs, inputs, *sizes)
    sizes, rank = weight[2:], len(weight)
    made = [out.shape[i] for i in numbers.out_spec]  # (batch, outputs, *places)
    places = made[2:]
    need(not (not math.prod(made) * math.prod(weight)))
    axes = range(2, rank)
    order = np.argsort(numbers.out_spec)

    def convolve(x: Array, w: Array) -> Any:
        x, w = x.transpose(numbers.lhs_spec), w.transpose(numbers.rhs_spec)
        x = _spread(x, axes, pads, between, 0)
        view = _windows(x, axes, sizes, strides, apart)  # (batch, inputs, *places, *sizes)
        batch, inputs = x.shape[:2]
        many = groups * of_batch
        view = view.reshape(of_batch, batch // of_batch, groups, inputs // groups, *view.shape[2:])
        view = view.transpose(0, 2, 1, *range(4, 2 + rank), 3, *range(2 + rank, 2 * rank))
        rows = (batch // of_batch) * math.prod(places)
        w = w.reshape(many, weight[0] // many, -1)
        result = np.matmul(view.reshape(many, rows, -1), w.transpose(0, 2, 1), dtype=out.dtype)
        result = result.reshape(many, batch // of_batch, *places, weight[0] // many)
        result = np.moveaxis(result, -1, 1)  # (groups, outputs of one, batch, *places)
        result = result.reshape(weight[0], made[0], *places).swapaxes(0, 1)
        return result.transpose(order)
    return convolve


# ------------------------------------------------------------ factorizations
def _matrices(function: Callable[..., Sequence[Any]]) -> Callable:
    """Returns a function of matrices for stacks of them; matrices without a solution have NaN, as in XLA."""
    def one(*xs: Array) -> Sequence[Any]:
        try:
            return function(*xs)
        except np.linalg.LinAlgError:
            return [np.full(x.shape, np.nan, x.dtype) for x in xs[-1:]]

    def call(*xs: Array) -> list[Any]:
        results = [one(*[x[i] for x in xs]) for i in np.ndindex(xs[0].shape[:-2])]
        return [np.reshape(np.stack(column), (*xs[0].shape[:-2], *column[0].shape))
                for column in zip(*results, strict=True)]
    return call


def _lu(params: dict, ins: list, out: Aval) -> Callable:
    def lu(a: Array) -> tuple[Any, ...]:
        import scipy.linalg  # takes 0.2 s

        factors, pivots = scipy.linalg.lu_factor(a, check_finite=False)
        order = np.arange(a.shape[0])
        for i, j in enumerate(pivots):
            order[[i, j]] = order[[j, i]]
        return factors, pivots.astype(np.int32), order.astype(np.int32)
    return _matrices(lu)


def _cholesky(params: dict, ins: list, out: Aval) -> Callable:
    one = _matrices(lambda a: [np.linalg.cholesky(a)])

    def cholesky(x: Array) -> Any:
        try:
            return np.linalg.cholesky(x)
        except np.linalg.LinAlgError:
            return one(x)[0]  # only the matrices without a solution become NaN
    return cholesky


def _triangular_solve(params: dict, ins: list, out: Aval) -> Callable:
    lower, unit, left = params["lower"], params["unit_diagonal"], params["left_side"]
    turned = params["transpose_a"] == left
    matrix = ins[0].shape
    many = math.prod(matrix[:-2]) > matrix[-1]

    def solve(a: Array, b: Array) -> tuple[Any]:
        from scipy.linalg.blas import get_blas_funcs  # takes 0.2 s

        trsm: Any = get_blas_funcs("trsm", (a, b))
        return (trsm(1, a, b, lower=lower, trans_a=turned, diag=unit),)

    def call(a: Array, b: Array) -> Any:
        a, b = a.conj() if params["conjugate_a"] else a, b if left else b.mT
        if many:
            x = _substituted(a.mT if turned else a, b, lower != turned, unit)
        else:
            x = _matrices(solve)(a, b)[0]
        return x if left else x.mT
    return call


def _substituted(a: Array, b: Array, lower: bool, unit: bool) -> Any:
    """Solves triangular systems row by row, each row for the whole stack, which is faster for many small matrices."""
    x, size = np.empty_like(b), a.shape[-1]
    for i in range(size) if lower else range(size - 1, -1, -1):
        known = slice(i) if lower else slice(i + 1, size)
        row = b[..., i, :] - np.matmul(a[..., i:i + 1, known], x[..., known, :])[..., 0, :]
        x[..., i, :] = row if unit else row / a[..., i, i, None]
    return x


def _eigh(params: dict, ins: list, out: Aval) -> Callable:
    return lambda x: np.linalg.eigh(x, "L" if params["lower"] else "U")[::-1]


def _eig(params: dict, ins: list, out: Aval) -> Callable:
    need(not (params["compute_left_eigenvectors"]))
    return np.linalg.eig if params["compute_right_eigenvectors"] else lambda x: [np.linalg.eigvals(x)]


def _svd(params: dict, ins: list, out: Aval) -> Callable:
    if not params["compute_uv"]:
        return lambda x: [np.linalg.svd(x, compute_uv=False)]

    def svd(x: Array) -> list[Any]:
        left, values, right = np.linalg.svd(x, params["full_matrices"])
        return [values, left, right]
    return svd


AXES: dict[str, Callable[[dict, list, Any], Callable]] = {
    "reduce_sum": _reduced(np.add), "reduce_prod": _reduced(np.multiply), "reduce_max": _reduced(np.maximum, "min"),
    "reduce_min": _reduced(np.minimum, "max"), "reduce_and": _reduced(np.bitwise_and, "max"),
    "reduce_or": _reduced(np.bitwise_or, "min"), "reduce_xor": _reduced(np.bitwise_xor),
    "argmax": lambda p, ins, out: lambda x: np.argmax(x, p["axes"][0]),
    "argmin": lambda p, ins, out: lambda x: np.argmin(x, p["axes"][0]),
    "cumsum": _so_far(np.add), "cumprod": _so_far(np.multiply), "cummax": _so_far(np.maximum),
    "cummin": _so_far(np.minimum), "cumlogsumexp": _so_far(np.logaddexp), "sort": _sort, "top_k": _top_k,
    "mxnet_order": lambda params, ins, out: lambda keys: positions(keys, **params),
    "dot_general": _dot, "conv_general_dilated": _convolution, "reduce_window_sum": _reduced_windows(np.add),
    "reduce_window_max": _reduced_windows(np.maximum), "reduce_window_min": _reduced_windows(np.minimum),
}
MATRICES: dict[str, Callable[[dict, list, Any], Callable]] = {
    "cholesky": _cholesky, "lu": _lu, "triangular_solve": _triangular_solve, "eigh": _eigh, "svd": _svd, "eig": _eig,
    "qr": lambda p, ins, out: lambda x: np.linalg.qr(x, "complete" if p["full_matrices"] else "reduced"),
}
