"""Products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..direct import Work, need, numpy_form
from ..program import Array
from .elementwise import summed_to

__all__: list[str] = []


# ------------------------------------------------------------ dense
def _rows(p: dict, x: Array) -> Any:
    return x.reshape(len(x), -1) if p["flatten"] else x.reshape(-1, x.shape[-1])


def _dense_work(p: dict, x: tuple[int, ...], w: tuple[int, ...], b: tuple[int, ...] | None = None) -> Work:
    rows = x[0] if p["flatten"] else math.prod(x[:-1])
    return Work(2 * math.prod(x) + rows * w[0], rows * math.prod(w))


def _dense_reads(p: dict, needs_grad: Sequence[bool]) -> list[bool]:
    return [needs_grad[1], needs_grad[0], False][:len(needs_grad)]


def _product(a: Array, b: Array, shape: Sequence[int]) -> Any:
    """Returns the product of two matrices in this shape, as a new array, because views would be copied."""
    out = np.empty(shape, a.dtype)
    np.matmul(a, b, out=out.reshape(len(a), b.shape[1]))
    return out


def _dense_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array, w: Array,
                    b: Array | None = None) -> list[Any]:
    out_grad = out_grads[0].reshape(-1, len(w))
    return [_product(out_grad, w, x.shape) if needs_grad[0] else None,
            out_grad.T @ _rows(p, x) if needs_grad[1] else None,
            out_grad.sum(0).reshape(b.shape) if b is not None and needs_grad[2] else None][:len(needs_grad)]


@numpy_form("FullyConnected", backward=_dense_backward, reads=_dense_reads, work=_dense_work)
def _dense(p: dict, x: Array, w: Array, b: Array | None = None) -> Any:
    need(x.ndim and x.size and w.ndim == 2 and len(w) == p["num_hidden"])
    rows = _rows(p, x)
    need(rows.shape[1] == w.shape[1] and (b is None or b.shape == w.shape[:1]))
    y = _product(rows, w.T, (*(x.shape[:1] if p["flatten"] else x.shape[:-1]), len(w)))
    if b is not None:
        y += b
    return y


# ------------------------------------------------------------ sums over some axes of two arrays
Axes = tuple[Sequence[int], Sequence[int]]


def _as_matrices(axes: Axes, a: Array, b: Array) -> tuple[Any, Any, list[int], list[int]]:
    """Returns matrices whose product is the sum over these axes, and the order of axes for them."""
    first, second = [[axis + x.ndim * (axis < 0) for axis in own] for own, x in zip(axes, (a, b), strict=True)]
    need(all(0 <= axis < x.ndim for own, x in ((first, a), (second, b)) for axis in own))
    need(len(set(first)) == len(first) == len(set(second)) == len(second) and a.size and b.size)
    need([a.shape[axis] for axis in first] == [b.shape[axis] for axis in second])
    left = [axis for axis in range(a.ndim) if axis not in first] + first
    right = second + [axis for axis in range(b.ndim) if axis not in second]
    inner = math.prod([a.shape[axis] for axis in first])
    return a.transpose(left).reshape(-1, inner), b.transpose(right).reshape(inner, -1), left, right


def _contraction(*names: str, axes: Callable[[dict[str, Any], int, int], Axes], one: bool = False) -> None:
    """Registers sums of products over pairs of axes.

    Args:
        names: names of the operator.
        axes: function(parameters, dimensions of each array) -> the summed axes of each.
        one: a scalar result has the shape (1,).
    """
    def forward(p: dict[str, Any], a: Array, b: Array) -> Any:
        summed = axes(p, a.ndim, b.ndim)
        first, second, left, right = _as_matrices(summed, a, b)
        count = len(summed[0])
        shape = [a.shape[axis] for axis in left[:a.ndim - count]] + [b.shape[axis] for axis in right[count:]]
        return _product(first, second, shape or [1] * one)

    def backward(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], a: Array,
                 b: Array) -> list[Any]:
        first, second, left, right = _as_matrices(axes(p, a.ndim, b.ndim), a, b)
        out_grad = out_grads[0].reshape(len(first), -1)
        return [_ordered(out_grad @ second.T, a, left) if needs_grad[0] else None,
                _ordered(first.T @ out_grad, b, right) if needs_grad[1] else None]

    def work(p: dict[str, Any], a: tuple[int, ...], b: tuple[int, ...]) -> Work:
        inner = math.prod([a[axis] for axis in axes(p, len(a), len(b))[0] if -len(a) <= axis < len(a)]) or 1
        return Work(2 * (math.prod(a) + math.prod(b)) + math.prod(a) // inner * (math.prod(b) // inner),
                    math.prod(a) * math.prod(b) / inner)
    numpy_form(*names, backward=backward, reads=_other, work=work)(forward)


def _ordered(matrix: Array, like: Array, order: Sequence[int]) -> Any:
    """Returns a matrix in the shape of the array from which `_as_matrices` created it."""
    return matrix.reshape([like.shape[axis] for axis in order]).transpose(np.argsort(order))


def _other(p: dict[str, Any], needs_grad: Sequence[bool]) -> list[bool]:
    """The gradient of each factor reads the other."""
    return [needs_grad[1], needs_grad[0]]


_contraction("dot", one=True, axes=lambda p, m, n: ([0 if p["transpose_a"] and m > 1 else m - 1],
                                                    [n - 1 if p["transpose_b"] and n > 1 else 0]))
_contraction("_np_dot", axes=lambda p, m, n: ([m - 1], [max(n - 2, 0)]))
_contraction("_npi_tensordot", axes=lambda p, m, n: (p["a_axes_summed"], p["b_axes_summed"]))
_contraction("_npi_tensordot_int_axes", axes=lambda p, m, n: (range(m - p["axes"], m), range(p["axes"])))


# ------------------------------------------------------------ products of many matrices
def _turned(x: Array, turned: bool = True) -> Any:
    return x.swapaxes(-1, -2) if turned else x


def _factors(p: dict[str, Any], a: Array, b: Array) -> tuple[Any, Any]:
    """Returns two arrays as stacks of matrices that can be multiplied."""
    need(min(a.ndim, b.ndim) > 1 and a.size and b.size and p.get("axis", -2) == -2)
    a, b = _turned(a, p.get("transpose_a", False)), _turned(b, p.get("transpose_b", False))
    need(a.shape[-1] == b.shape[-2])
    return a, b


def _alpha(p: dict[str, Any], x: Array) -> Any:
    return x.dtype.type(float(p.get("alpha", 1)))


def _matrix_gradients(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], a: Array,
                      b: Array) -> list[Any]:
    left, right = _factors(p, a, b)
    grads, out_grad = [None, None], out_grads[0]
    if (alpha := _alpha(p, out_grad)) != 1:
        out_grad = out_grad * alpha
    if needs_grad[0]:  # the transpose of a product is the product of the transposes in reverse order
        grads[0] = right @ _turned(out_grad) if p.get("transpose_a") else out_grad @ _turned(right)
    if needs_grad[1]:
        grads[1] = _turned(out_grad) @ left if p.get("transpose_b") else _turned(left) @ out_grad
    return [grad if grad is None else summed_to(grad, x.shape) for grad, x in zip(grads, (a, b), strict=True)]


def _matrix_work(p: dict[str, Any], a: tuple[int, ...], b: tuple[int, ...], *rest: tuple[int, ...]) -> Work:
    rows, columns = a[-1:] if p.get("transpose_a") else a[-2:-1], b[-2:-1] if p.get("transpose_b") else b[-1:]
    outer = max(math.prod(a[:-2]), math.prod(b[:-2])) * math.prod(rows)
    return Work(2 * (math.prod(a) + math.prod(b)) + outer * math.prod(columns), outer * math.prod((*b[-2:-1], *b[-1:])))


def _many(*names: str, fits: Callable[[Any, Any], bool]) -> None:
    """Registers products of stacked matrices; fits: function(arrays) -> whether the stacks have the same size."""
    @numpy_form(*names, backward=_matrix_gradients, reads=_other, work=_matrix_work)
    def forward(p: dict[str, Any], a: Array, b: Array) -> Any:
        need(fits(a, b))
        out = np.matmul(*_factors(p, a, b))
        if (alpha := _alpha(p, out)) != 1:
            out *= alpha
        return out


_many("batch_dot", fits=lambda a, b: a.ndim > 2 and a.shape[:-2] == b.shape[:-2])
_many("_linalg_gemm2", fits=lambda a, b: a.shape[:-2] == b.shape[:-2])
_many("_npi_matmul", fits=lambda a, b: all(m == n or 1 in (m, n) for m, n in zip(
    reversed(a.shape[:-2]), reversed(b.shape[:-2]), strict=False)))


@numpy_form("_linalg_gemm", work=_matrix_work, reads=lambda p, needs_grad: [*_other(p, needs_grad[:2]), False],
            backward=lambda p, out_grads, needs_grad, a, b, c: [
                *_matrix_gradients(p, out_grads, needs_grad[:2], a, b),
                out_grads[0] * out_grads[0].dtype.type(float(p["beta"])) if needs_grad[2] else None])
def _gemm(p: dict[str, Any], a: Array, b: Array, c: Array) -> Any:
    need(a.shape[:-2] == b.shape[:-2])
    out = np.matmul(*_factors(p, a, b))
    need(out.shape == c.shape)
    out *= _alpha(p, out)
    out += c * out.dtype.type(float(p["beta"]))
    return out


# ------------------------------------------------------------ attention on interleaved projections
def _heads(p: dict[str, Any], x: Array, parts: int) -> Any:
    """Returns a view of (time, batch, heads · parts · size) as (parts, batch, heads, time, size)."""
    need(x.ndim == 3 and x.size and x.shape[2] % (p["heads"] * parts) == 0)
    return x.reshape(*x.shape[:2], p["heads"], parts, -1).transpose(3, 1, 2, 0, 4)


def _queries_and_keys(p: dict[str, Any], x: Array, other: Array | None = None) -> tuple[Any, Any]:
    if other is None:
        queries, keys, _ = _heads(p, x, 3)
    else:
        queries, keys = _heads(p, x, 1)[0], _heads(p, other, 2)[0]
        need(queries.shape[:2] == keys.shape[:2] and queries.shape[3] == keys.shape[3])
    return queries, keys


def _root(queries: Array) -> Any:
    return queries.dtype.type(queries.shape[-1] ** 0.5)


def _score_gradients(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool],
                     *arrays: Array) -> list[Any]:
    queries, keys = _queries_and_keys(p, *arrays)
    out_grad = out_grads[0].reshape(*queries.shape[:2], -1, out_grads[0].shape[2])
    grads = [np.zeros(x.shape, x.dtype) for x in arrays]  # in C order, so that writes go to views of them
    by_queries, by_keys = _queries_and_keys(p, *grads)
    if needs_grad[0]:
        np.matmul(out_grad, keys, out=by_queries)
        by_queries /= _root(queries)
    if needs_grad[-1]:
        np.matmul(_turned(out_grad), queries / _root(queries), out=by_keys)
    return grads


@numpy_form("_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_encdec_qk",
            backward=_score_gradients, reads=lambda p, needs_grad: [*reversed(needs_grad)],
            work=lambda p, x, y=None: _attention_work(x, (y or x)[0]))
def _scores(p: dict[str, Any], *arrays: Array) -> Any:
    queries, keys = _queries_and_keys(p, *arrays)
    out = np.empty((queries.shape[0] * queries.shape[1], queries.shape[2], keys.shape[2]), queries.dtype)
    np.matmul(queries / _root(queries), _turned(keys), out=out.reshape(*queries.shape[:2], *out.shape[1:]))
    return out


def _attention_work(x: tuple[int, ...], times: int) -> Work:
    return Work(2 * math.prod(x) + x[0] * times * x[1], math.prod(x) * times / 2)


def _weighing(name: str, parts: int) -> None:
    """Registers values weighted by attention; the values are the last of this number of interleaved projections."""
    def given(p: dict[str, Any], x: Array, attention: Array) -> tuple[Any, Any]:
        values = _heads(p, x, parts)[-1]
        need(attention.ndim == 3 and attention.size)
        need((len(attention), attention.shape[2]) == (values.shape[0] * values.shape[1], values.shape[2]))
        return values, attention.reshape(*values.shape[:2], *attention.shape[1:])

    def backward(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array,
                 attention: Array) -> list[Any]:
        values, weights = given(p, x, attention)
        out_grad, by_x, by_attention = _heads(p, out_grads[0], 1)[0], None, None
        if needs_grad[0]:
            by_x = np.zeros(x.shape, x.dtype)
            np.matmul(_turned(weights), out_grad, out=_heads(p, by_x, parts)[-1])
        if needs_grad[1]:
            by_attention = np.empty(attention.shape, attention.dtype)
            np.matmul(out_grad, _turned(values), out=by_attention.reshape(weights.shape))
        return [by_x, by_attention]

    @numpy_form(name, backward=backward, reads=_other, work=lambda p, x, attention: _attention_work(x, attention[1]))
    def forward(p: dict[str, Any], x: Array, attention: Array) -> Any:
        values, weights = given(p, x, attention)
        out = np.empty((attention.shape[1], x.shape[1], x.shape[2] // parts), x.dtype)
        np.matmul(weights, values, out=_heads(p, out, 1)[0])
        return out


_weighing("_contrib_interleaved_matmul_selfatt_valatt", 3)
_weighing("_contrib_interleaved_matmul_encdec_valatt", 2)
