"""Indexing: reads and writes at index arrays, selection, batches of sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.common import normalized
from ...ops.np.indexing import selected_places
from ...ops.params import np_dtype
from ..direct import Work, need, numpy_form, to_dtype
from ..program import Array, Unknown
from .elementwise import summed_to
from .shapes import FLOATS, constant

__all__ = ["added"]

Shape = tuple[int, ...]
_MOST = 2.0 ** 31  # upper bound of a float index


def _whole(index: Array) -> Any:
    """Returns positions of any dtype as integers; fractions are truncated."""
    if index.dtype.kind == "f":
        need((np.abs(index) < _MOST).all())  # false for NaN
    need(index.dtype.kind in "iuf")
    return index.astype(np.intp)


def _inside(index: Array, size: int) -> Any:
    """Returns positions with negative ones counted from the end; raises Unknown if one is out of range."""
    if index.size:
        low, high = index.min(), index.max()
        need(low >= -size and high < size)
        if low < 0:
            return np.where(index < 0, index + size, index)
    return index


def added(shape: Shape, values: Array, index: Array) -> Any:
    """Returns zeros of this shape with the rows of values added to its rows.

    Args:
        shape: its rows have as many elements as those of values.
        values: (n, elements of a row).
        index: (n,) integers in the range.
    """
    need(values.size)
    total = np.zeros(shape, values.dtype)
    rows = total.reshape(-1, values.shape[1])
    if values.shape[1] == 1:
        rows[:, 0] = np.bincount(index, values[:, 0], len(rows))
        return total
    order = np.argsort(index, kind="stable")
    places = index[order]
    first = np.concatenate([[True], places[1:] != places[:-1]])
    if first.all():  # no duplicates
        rows[index] = values
    else:
        rows[places[first]] = np.add.reduceat(values[order], np.flatnonzero(first), 0)
    return total


def _reads_second(p: dict, needs_grad: Sequence[bool]) -> list[bool]:
    return [i == 1 for i in range(len(needs_grad))]


def _nothing(a: Array | None, needs_grad: bool) -> Any:
    """Returns the gradient of positions and conditions."""
    return np.zeros(a.shape, a.dtype) if needs_grad and a is not None else None


# ------------------------------------------------------------ along one axis
def _positions(p: dict, index: Array, size: int) -> Any:
    """Returns positions along an axis of this size; those out of range are clipped or wrapped, or refused."""
    need(size and index.size)
    if p["mode"] == "raise":
        need(index.min() > -1 and index.max() < size)  # the formula raises the error
    index = _whole(index)
    return np.clip(index, 0, size - 1) if p["mode"] == "clip" else index % size


def _axis(p: dict, ndim: int) -> int:
    need(p["axis"] is not None)
    return normalized(p["axis"], ndim)


def _taken_work(p: dict, a: Shape, index: Shape) -> Work:
    return Work(2.0 * math.prod(index) * math.prod(a) / max(a[_axis(p, len(a))], 1))


def _take_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], a: Array, index: Array) -> list[Any]:
    need(out_grads[0].dtype in FLOATS and a.dtype in FLOATS)
    grad = None
    if needs_grad[0]:
        need(a.size and index.size)
        axis = _axis(p, a.ndim)
        before, size, after = a.shape[:axis], a.shape[axis], a.shape[axis + 1:]
        rows = out_grads[0].reshape(math.prod(before), index.size, -1).swapaxes(0, 1).reshape(index.size, -1)
        grad = added((size, *before, *after), rows, _positions(p, index, size).ravel())
        if axis:
            grad = np.moveaxis(grad, 0, axis)
    return [grad, _nothing(index, needs_grad[1])]


@numpy_form("take", backward=_take_backward, reads=_reads_second, work=_taken_work, mixed=True)
def _take(p: dict, a: Array, index: Array) -> Any:
    axis = _axis(p, a.ndim)
    return np.take(a, _positions(p, index, a.shape[axis]), axis)


_ROWS = {"axis": 0, "mode": "clip"}


def _embedding_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], index: Array,
                        table: Array) -> list[Any]:
    of_table, of_index = _take_backward(_ROWS, out_grads, needs_grad[::-1], table, index)
    return [of_index, of_table]


@numpy_form("Embedding", "_contrib_SparseEmbedding", backward=_embedding_backward, mixed=True,
            reads=lambda p, needs_grad: [True, False], work=lambda p, index, table: _taken_work(_ROWS, table, index))
def _embedding(p: dict, index: Array, table: Array) -> Any:
    need(table.shape == (p["input_dim"], p["output_dim"]))
    return _take(_ROWS, table, index)


def _one_of_each(a: Array, index: Array, axis: int, p: dict) -> Any:
    """Returns positions along an axis that is kept with size 1."""
    shape = (*a.shape[:axis], 1, *a.shape[axis + 1:])
    need(index.size == math.prod(shape))
    return _positions(p, index, a.shape[axis]).reshape(shape)


def _picking(name: str, axis_of: Callable[[dict, int], int], mode: str | None,
             result: Callable[[dict, Shape, Shape], Shape]) -> None:
    """One element along an axis at every other position; `result`: its shape, of both arrays' shapes."""
    def places(p: dict, a: Array, index: Array) -> tuple[Any, int]:
        axis = axis_of(p, a.ndim)
        return _one_of_each(a, index, axis, {"mode": mode or p["mode"]}), axis

    def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], a: Array, index: Array) -> list[Any]:
        need(out_grads[0].dtype in FLOATS and a.dtype in FLOATS)
        grad = None
        if needs_grad[0]:
            where, axis = places(p, a, index)
            grad = np.zeros(a.shape, a.dtype)
            np.put_along_axis(grad, where, out_grads[0].reshape(where.shape), axis)
        return [grad, _nothing(index, needs_grad[1])]

    @numpy_form(name, backward=backward, reads=_reads_second, mixed=True, work=lambda p, a, index: Work(
        2.0 * math.prod(index)))
    def pick(p: dict, a: Array, index: Array) -> Any:
        shape = result(p, a.shape, index.shape)
        where, axis = places(p, a, index)
        return np.take_along_axis(a, where, axis).reshape(shape)


def _picked(p: dict, a: Shape, index: Shape) -> Shape:
    axis = _axis(p, len(a))
    rest = a[:axis] + a[axis + 1:]
    need([n for n in index if n != 1] == [n for n in rest if n != 1])
    return (*a[:axis], 1, *a[axis + 1:]) if p["keepdims"] else rest or (1,)


def _matrix_rows(p: dict, a: Shape, index: Shape) -> Shape:
    need(len(a) == 2)
    return index


_picking("pick", lambda p, ndim: _axis(p, ndim), None, _picked)
_picking("batch_take", lambda p, ndim: 1, "clip", _matrix_rows)


@constant("one_hot", work=lambda p, index: Work(2.0 * math.prod(index) * p["depth"]))
def _one_hot(p: dict, index: Array) -> Any:
    need(p["depth"] > 0)
    places, dtype = _whole(index).ravel(), np_dtype(p["dtype"])
    on, off = to_dtype(p["on_value"], dtype), to_dtype(p["off_value"], dtype)
    result = np.full((places.size, p["depth"]), off)
    rows = np.flatnonzero((places >= 0) & (places < p["depth"]))
    result[rows, places[rows]] = on
    return result.reshape(*index.shape, p["depth"])


# ------------------------------------------------------------ along several axes
def _coordinates(index: Array, shape: Shape) -> tuple[Any, ...]:
    need(index.ndim and 1 <= len(index) <= len(shape))
    return tuple([_inside(row, n) for row, n in zip(_whole(index), shape, strict=False)])


def _spread(values: Array, index: Array, shape: Shape) -> Any:
    """Returns zeros of this shape with values added at coordinates."""
    places, count = _coordinates(index, shape), len(index)
    flat = np.ravel_multi_index(places, shape[:count]).ravel()
    need(flat.size and values.shape == index.shape[1:] + shape[count:])
    return added(shape, values.reshape(flat.size, -1), flat)


def _gather_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], a: Array,
                     index: Array) -> list[Any]:
    need(out_grads[0].dtype in FLOATS and a.dtype in FLOATS)
    return [_spread(out_grads[0], index, a.shape) if needs_grad[0] else None, _nothing(index, needs_grad[1])]


@numpy_form("gather_nd", backward=_gather_backward, reads=_reads_second, mixed=True)
def _gather(p: dict, a: Array, index: Array) -> Any:
    return a[_coordinates(index, a.shape)]


def _gather_again(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], values: Array,
                  index: Array) -> list[Any]:
    need(out_grads[0].dtype in FLOATS and values.dtype in FLOATS)
    by_values = out_grads[0][_coordinates(index, out_grads[0].shape)] if needs_grad[0] else None
    return [by_values, _nothing(index, needs_grad[1])]


@numpy_form("scatter_nd", backward=_gather_again, reads=_reads_second, mixed=True)
def _scatter(p: dict, values: Array, index: Array) -> Any:
    result, places = np.zeros(p["shape"], values.dtype), _coordinates(index, p["shape"])
    need(values.shape == index.shape[1:] + p["shape"][len(index):])
    result[places] = values
    return result


@numpy_form("_backward_gather_nd", backward=_gather_again, reads=_reads_second, mixed=True)
def _scatter_added(p: dict, values: Array, index: Array) -> Any:
    need(values.dtype in FLOATS)
    return _spread(values, index, p["shape"])


@numpy_form("_scatter_set_nd", mixed=True)
def _scatter_set(p: dict, a: Array, values: Array, index: Array) -> Any:
    need(values.dtype == a.dtype and values.shape == index.shape[1:] + a.shape[len(index):])
    result = a.copy()
    result[_coordinates(index, a.shape)] = values
    return result


def _copy_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], old: Array, index: Array,
                   new: Array) -> list[Any]:
    need(out_grads[0].dtype in FLOATS and old.dtype in FLOATS)
    places, kept = _inside(_whole(index), len(old)), None
    need(len(np.unique(places)) == places.size)  # otherwise, only the last row of each position has a gradient
    if needs_grad[0]:
        kept = out_grads[0].copy()
        kept[places] = 0
    return [kept, _nothing(index, needs_grad[1]), out_grads[0][places] if needs_grad[2] else None]


@numpy_form("_contrib_index_copy", backward=_copy_backward, reads=_reads_second, mixed=True)
def _index_copy(p: dict, old: Array, index: Array, new: Array) -> Any:
    need(new.dtype == old.dtype and new.shape == index.shape + old.shape[1:])
    result = old.copy()
    result[_inside(_whole(index), len(old))] = new
    return result


@constant("_contrib_index_array")
def _index_array(p: dict, x: Array) -> Any:
    axes = range(x.ndim) if p["axes"] is None else [normalized(a, x.ndim) for a in p["axes"]]
    need(axes)
    return np.stack([np.broadcast_to(np.arange(x.shape[a]).reshape(-1, *(1,) * (x.ndim - a - 1)), x.shape)
                     for a in axes], -1)


# ------------------------------------------------------------ choices
def _reads_first(p: dict, needs_grad: Sequence[bool]) -> list[bool]:
    return [i == 0 for i in range(len(needs_grad))]


def _select(holds: Array, x: Array, y: Array) -> Any:
    """Returns x where the boolean condition is true, and y elsewhere, with broadcasting."""
    shape = np.broadcast_shapes(holds.shape, x.shape, y.shape)
    if x.dtype not in FLOATS:
        return np.where(holds, x, y)
    result, bits = np.empty(shape, x.dtype), np.dtype(f"i{x.itemsize}")  # by their bits, without a branch per element
    chosen = -(holds.view(np.int8).astype(bits))
    np.bitwise_xor((x.view(bits) ^ y.view(bits)) & chosen, y.view(bits), out=result.view(bits))
    return result


def _rowwise(condition: Array, x: Array) -> Any:
    """Returns the boolean condition, which has the full shape or one number per row."""
    need(condition.shape in (x.shape, x.shape[:1]))
    return (condition != 0).reshape(condition.shape + (1,) * (x.ndim - condition.ndim))


def _where_backward(holds: Callable[..., Any], positive: Sequence[bool]) -> Callable[..., list[Any]]:
    """Returns the gradients of a selection; `positive`: for each array after the condition, whether it is selected
    where the condition is true."""
    def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], condition: Array,
                 *arrays: Array) -> list[Any]:
        out_grad = out_grads[0]
        need(out_grad.dtype in FLOATS and arrays[0].dtype in FLOATS)
        chosen, zero = holds(condition, out_grad), np.zeros((), out_grad.dtype)
        return [_nothing(condition, needs_grad[0]), *[
            summed_to(_select(chosen, *((out_grad, zero) if first else (zero, out_grad))), a.shape) if w else None
            for a, first, w in zip(arrays, positive, needs_grad[1:], strict=True)]]
    return backward


@numpy_form("where", backward=_where_backward(_rowwise, (True, False)), reads=_reads_first, mixed=True)
def _where(p: dict, condition: Array, x: Array, y: Array) -> Any:
    need(x.shape == y.shape and x.dtype == y.dtype)
    return _select(_rowwise(condition, x), x, y)


def _holds(condition: Array, x: Array) -> Any:
    return condition != 0


def _broadcasts(*arrays: Array) -> bool:
    ndim = max([a.ndim for a in arrays])
    shapes = [(1,) * (ndim - a.ndim) + a.shape for a in arrays]
    return all([len(set(sizes) - {1}) < 2 for sizes in zip(*shapes, strict=True)])


@numpy_form("_npi_where", backward=_where_backward(_holds, (True, False)), reads=_reads_first, mixed=True)
def _np_where(p: dict, condition: Array, x: Array, y: Array) -> Any:
    need(x.dtype == y.dtype and _broadcasts(condition, x, y))
    return _select(condition != 0, x, y)


@numpy_form("_npi_where_lscalar", backward=_where_backward(_holds, (False,)), reads=_reads_first, mixed=True)
def _where_number_first(p: dict, condition: Array, x: Array) -> Any:
    need(x.dtype in FLOATS and _broadcasts(condition, x))
    return _select(condition != 0, np.asarray(p["scalar"], x.dtype), x)


@numpy_form("_npi_where_rscalar", backward=_where_backward(_holds, (True,)), reads=_reads_first, mixed=True)
def _where_number_last(p: dict, condition: Array, y: Array) -> Any:
    need(y.dtype in FLOATS and _broadcasts(condition, y))
    return _select(condition != 0, y, np.asarray(p["scalar"], y.dtype))


@numpy_form("_npi_where_scalar2", mixed=True)
def _where_numbers(p: dict, condition: Array) -> Any:
    return _select(condition != 0, np.asarray(p["x"], np.float32), np.asarray(p["y"], np.float32))


@numpy_form("_npi_boolean_mask_assign_scalar", mixed=True)
def _assigned_where(p: dict, x: Array, mask: Array) -> Any:
    start = p["start_axis"]
    need(mask.shape == x.shape[start:start + mask.ndim])
    chosen = (mask != 0).reshape((1,) * start + mask.shape + (1,) * (x.ndim - start - mask.ndim))
    return _select(chosen, to_dtype(p["value"], x.dtype), x)


# ------------------------------------------------------------ sequences
def _lengths(p: dict, x: Array, lengths: Array | None) -> Any:
    """Returns the lengths of sequences; raises Unknown if one exceeds the time axis."""
    need(p["axis"] in (0, 1) and x.ndim > 1)
    if not p["use_sequence_length"]:
        return None
    if lengths is None:
        raise Unknown
    need(lengths.shape == (x.shape[1 - p["axis"]],) and lengths.size)
    result = _whole(lengths)
    need(result.max() <= x.shape[p["axis"]])
    return result


def _sequences(name: str, back: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers function(parameters, data, integer lengths or None), linear in the data, and its gradient."""
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array,
                     lengths: Array | None = None) -> list[Any]:
            need(out_grads[0].dtype in FLOATS and x.dtype in FLOATS)
            grad = back(p, out_grads[0], x.shape, _lengths(p, x, lengths)) if needs_grad[0] else None
            return [grad, *[_nothing(lengths, w) for w in needs_grad[1:]]]

        def forward(p: dict, x: Array, lengths: Array | None = None) -> Any:
            return function(p, x, _lengths(p, x, lengths))
        numpy_form(name, backward=backward, reads=_reads_second, mixed=True)(forward)
        return function
    return register


def _masked(x: Array, lengths: Array | None, axis: int, value: float) -> Any:
    if lengths is None:
        return x
    time = np.arange(x.shape[axis])
    ended = time[:, None] >= lengths if axis == 0 else time >= lengths[:, None]
    result = x.copy()
    result[ended] = value
    return result


@_sequences("SequenceMask", back=lambda p, out_grad, x, lengths: _masked(out_grad, lengths, p["axis"], 0))
def _sequence_mask(p: dict, x: Array, lengths: Array | None) -> Any:
    need(x.dtype in FLOATS or not p["value"])
    return _masked(x, lengths, p["axis"], p["value"])


def _last_places(p: dict, x: Shape, lengths: Array | None) -> tuple:
    batch, time = np.arange(x[1 - p["axis"]]), x[p["axis"]] - 1 if lengths is None else np.maximum(lengths - 1, 0)
    return (time, batch) if p["axis"] == 0 else (batch, time)


def _last_backward(p: dict, out_grad: Array, x: Shape, lengths: Array | None) -> Any:
    grad = np.zeros(x, out_grad.dtype)
    grad[_last_places(p, x, lengths)] = out_grad
    return grad


@_sequences("SequenceLast", back=_last_backward)
def _sequence_last(p: dict, x: Array, lengths: Array | None) -> Any:
    need(x.size)
    return x[_last_places(p, x.shape, lengths)]


def _reversed_places(x: Shape, lengths: Array) -> tuple:
    time = np.arange(x[0])[:, None]
    return np.where(time < lengths, lengths - 1 - time, time), np.arange(x[1])


def _reversed(p: dict, x: Array, shape: Shape, lengths: Array | None) -> Any:
    """Registers a permutation that is its own inverse and transpose."""
    need(p["axis"] == 0)
    return x[::-1] if lengths is None else x[_reversed_places(shape, lengths)]


@_sequences("SequenceReverse", back=_reversed)
def _sequence_reverse(p: dict, x: Array, lengths: Array | None) -> Any:
    return _reversed(p, x, x.shape, lengths)


# ------------------------------------------------------------ sizes
constant("shape_array")(lambda p, x: np.array(x.shape, np.int64))
constant("size_array")(lambda p, x: np.array([x.size], np.int64))


# ------------------------------------------------------------ results whose shapes depend on values
def _rows_of(data: Array, index: Array) -> Any:
    need(index.ndim == 1 and index.shape[0] == data.shape[0])
    return np.flatnonzero(index)


def _boolean_mask_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], data: Array,
                           index: Array) -> list[Any]:
    grad = None
    if needs_grad[0]:
        grad = np.zeros(data.shape, data.dtype)
        grad[_rows_of(data, index)] = out_grads[0]
    return [grad, _nothing(index, needs_grad[1])]


@numpy_form("_contrib_boolean_mask", backward=_boolean_mask_backward, mixed=True,
            reads=lambda p, needs_grad: [False, True])
def _boolean_mask(p: dict, data: Array, index: Array) -> Any:
    need(p["axis"] == 0)
    return data[_rows_of(data, index)]


@numpy_form("_npx_nonzero", mixed=True)
def _nonzero(p: dict, x: Array) -> Any:
    return np.argwhere(np.atleast_1d(x)).astype(np.int64)


def _selected(p: dict, name: str, a: Array, places: Array | None) -> tuple[Any, Any, int]:
    """Returns the array, flattened if there is no axis, the positions on its axis, and the axis."""
    a, axis = (a.ravel(), 0) if p["axis"] is None else (a, normalized(p["axis"], a.ndim))
    return a, selected_places(name, a.shape[axis], p["start"], p["stop"], p["step"], p["int_ind"], places), axis


@numpy_form("_npi_delete", mixed=True)
def _delete(p: dict, a: Array, places: Array | None = None) -> Any:
    return np.delete(*_selected(p, "_npi_delete", a, places))


def _inserting(kind: str) -> None:
    name = f"_npi_insert_{kind}"

    @numpy_form(name, mixed=True)
    def _insert(p: dict, a: Array, *others: Array) -> Any:
        values = others[0] if p["val"] is None else np.asarray(p["val"])
        a, places, axis = _selected(p, name, a, others[-1] if kind == "tensor" else None)
        return np.insert(a, places, to_dtype(values, a.dtype), axis)


for _kind in ("scalar", "slice", "tensor"):
    _inserting(_kind)
