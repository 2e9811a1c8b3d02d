"""Reshaping, transposition, slicing, splitting, joining, repetition, padding, diagonals.

All of these functions are linear in their first array, so their gradients need only shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.common import normalized
from ...ops.elementwise import broadcast
from ...ops.np import rearranging as np_rearranging
from ...ops.np.reductions import axes_of
from ...ops.shape import rearranging, slicing
from ..direct import Work, need, numpy_form
from ..program import Array
from .elementwise import summed_to

__all__ = ["FLOATS", "constant", "linear", "reads_nothing"]

FLOATS = frozenset(map(np.dtype, ("f4", "f8")))
Shape = tuple[int, ...]
Forward = Callable[..., Any]


def reads_nothing(p: dict, needs_grad: Sequence[bool]) -> list[bool]:
    """Declares that the gradients do not read the values of arrays."""
    return [False] * len(needs_grad)


def linear(*names: str, back: Callable[..., Any], **fields: Any) -> Callable[[Forward], Forward]:
    """Registers a function that is linear in its first array; only the shapes of the others are used.

    Args:
        names: names of the operators.
        back: function(parameters, gradient of the output, shape of the first array, other shapes ...) -> its gradient.
        fields: further fields of `Form`.
    """
    def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], *arrays: Array) -> list[Any]:
        need(out_grads[0].dtype in FLOATS and arrays[0].dtype in FLOATS)
        first = back(p, out_grads[0], *[a.shape for a in arrays]) if needs_grad[0] else None
        return [first, *[np.zeros(a.shape, a.dtype) if w else None
                         for a, w in zip(arrays[1:], needs_grad[1:], strict=True)]]
    return numpy_form(*names, backward=backward, reads=reads_nothing, mixed=True, **fields)


def constant(name: str, mixed: bool = True, **fields: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function of arrays whose gradients are 0."""
    return numpy_form(name, backward=lambda p, out_grads, needs_grad, *arrays: [np.zeros(a.shape, a.dtype)
                                                                                for a in arrays],
                      reads=reads_nothing, mixed=mixed, **fields)


# ------------------------------------------------------------ other shapes
def _shaped(name: str, target: Callable[..., Any]) -> None:
    """Registers a reshape to the shape that `target` computes from the parameters and the arrays' shapes."""
    linear(name, back=lambda p, out_grad, x, *others: out_grad.reshape(x))(
        lambda p, x, *others: x.reshape(target(p, x.shape, *[a.shape for a in others])))


def _like(p: dict, x: Shape, like: Shape) -> Shape:
    first, last = rearranging.dim_range("lhs", p["lhs_begin"], p["lhs_end"], len(x))
    start, stop = rearranging.dim_range("rhs", p["rhs_begin"], p["rhs_end"], len(like))
    shape = x[:first] + like[start:stop] + x[last:]
    need(math.prod(shape) == math.prod(x))
    return shape


def _c_order(target: Callable[[dict, Shape], Any]) -> Callable[[dict, Shape], Any]:
    def checked(p: dict, x: Shape) -> Any:
        need(p["order"] == "C")
        return target(p, x)
    return checked


def _without_ones(p: dict, x: Shape) -> Shape:
    need(p["axis"] is None or x and all([x[a] == 1 for a in axes_of("_np_squeeze", p["axis"], len(x))]))
    return np_rearranging.squeezed(p, x)


def _new_axis(p: dict, x: Shape) -> Shape:
    axis = normalized(p["axis"], len(x) + 1)
    return (*x[:axis], 1, *x[axis:])


_shaped("Reshape", lambda p, x: x if (target := rearranging.reshape_target(p, x)) is None else target)
_shaped("Flatten", lambda p, x: (x[0], math.prod(x[1:])))
_shaped("reshape_like", _like)
_shaped("expand_dims", _new_axis)
_shaped("squeeze", rearranging.squeezed)
_shaped("_np_reshape", _c_order(lambda p, x: np_rearranging.np_reshaped(x, p["newshape"])))
_shaped("_npx_reshape", _c_order(lambda p, x: np_rearranging.npx_reshaped(x, p["newshape"], p["reverse"])))
_shaped("_np_squeeze", _without_ones)


# ------------------------------------------------------------ orders
def _ordered(name: str, order: Callable[[dict, int], Sequence[int]]) -> None:
    """Registers a permutation of axes."""
    linear(name, back=lambda p, out_grad, x: out_grad.transpose(np.argsort(order(p, len(x)))))(
        lambda p, x: x.transpose(order(p, x.ndim)))


def _swapped(p: dict, ndim: int) -> list[int]:
    order = list(range(ndim))
    one, other = normalized(p["dim1"], ndim), normalized(p["dim2"], ndim)
    order[one], order[other] = other, one
    return order


def _np_order(p: dict, ndim: int) -> Sequence[int]:
    order = [normalized(a, ndim) for a in p["axes"] or range(ndim)[::-1]]
    need(sorted(order) == list(range(ndim)))
    return order


def _moved(p: dict, ndim: int) -> list[int]:
    need(len(p["source"]) == len(p["destination"]) and all([-ndim <= a < ndim for a in p["source"] + p["destination"]]))
    source, destination = ([a % ndim for a in p[n]] for n in ("source", "destination"))
    need(len(set(source)) == len(source) and len(set(destination)) == len(destination))
    order = [a for a in range(ndim) if a not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return order


_ordered("transpose", lambda p, ndim: rearranging.axes_order(p["axes"], ndim))
_ordered("SwapAxis", _swapped)
_ordered("_np_transpose", _np_order)
_ordered("_np_moveaxis", _moved)


def _involution(name: str, function: Callable[[dict, Any], Any]) -> None:
    """Registers a function that is its own inverse and transpose."""
    linear(name, back=lambda p, out_grad, x: function(p, out_grad))(function)


_involution("reverse", lambda p, x: np.flip(x, tuple([normalized(a, x.ndim) for a in p["axis"]])))
_involution("_npi_flip", lambda p, x: np.flip(x, axes_of("_npi_flip", p["axis"], x.ndim)))


def _rolled(p: dict, x: Array, sign: int = 1) -> Any:
    shift, axis = p["shift"], p["axis"]
    need(shift and (len(shift) == 1 if axis is None else len(shift) in (1, len(axis))
                    and all([-x.ndim <= a < x.ndim for a in axis])))
    shift = [sign * n for n in shift]
    return np.roll(x, shift[0]) if axis is None else np.roll(x, shift * (len(axis) // len(shift)), axis)


def _turned(p: dict, x: Array, sign: int = 1) -> Any:
    need(p["axes"] and len(p["axes"]) == 2 <= x.ndim and len(axes_of("_npi_rot90", p["axes"], x.ndim)) == 2)
    return np.rot90(x, sign * p["k"], p["axes"])


linear("_np_roll", back=lambda p, out_grad, x: _rolled(p, out_grad, -1))(_rolled)
linear("_npi_rot90", back=lambda p, out_grad, x: _turned(p, out_grad, -1))(_turned)


def _to_space(p: dict, x: Array) -> Any:
    b = p["block_size"]
    need(x.ndim == 4 and b > 0 and x.size and x.shape[1] % b ** 2 == 0)
    n, c, h, w = x.shape
    return x.reshape(n, b, b, c // b ** 2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // b ** 2, h * b, w * b)


def _to_depth(p: dict, x: Array) -> Any:
    b = p["block_size"]
    need(x.ndim == 4 and b > 0 and x.size and x.shape[2] % b == x.shape[3] % b == 0)
    n, c, h, w = x.shape
    return x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b ** 2, h // b, w // b)


linear("depth_to_space", back=lambda p, out_grad, x: _to_depth(p, out_grad))(_to_space)
linear("space_to_depth", back=lambda p, out_grad, x: _to_space(p, out_grad))(_to_depth)


# ------------------------------------------------------------ slices
def _within(part: tuple, out_grad: Array, shape: Shape) -> Any:
    """Returns zeros of this shape with the gradient in a part."""
    grad = np.zeros(shape, out_grad.dtype)
    grad[part] = out_grad
    return grad


def _part(name: str, part: Callable[..., tuple]) -> None:
    """Registers a slice of the first array that `part` computes from the parameters and the arrays' shapes."""
    linear(name, back=lambda p, out_grad, *shapes: _within(part(p, *shapes), out_grad, shapes[0]))(
        lambda p, x, *others: x[part(p, x.shape, *[a.shape for a in others])])


def _leading(p: dict, x: Shape, like: Shape) -> tuple[slice, ...]:
    need(p["axes"] or len(x) == len(like))
    parts = [slice(None)] * len(x)
    for a in p["axes"] or range(len(x)):
        a = normalized(a, len(x))
        need(a < len(like) and like[a] <= x[a])
        parts[a] = slice(like[a])
    return tuple(parts)


def _crop(p: dict, x: Shape, like: Shape | None = None) -> tuple[slice, ...]:
    size = p["h_w"] if like is None else like[2:]
    need(len(x) == 4 and len(size) == 2)
    room = [whole - part for whole, part in zip(x[2:], size, strict=True)]
    start = [r // 2 for r in room] if p["center_crop"] else p["offset"]
    need(min(size) > 0 and all([0 <= s <= r for s, r in zip(start, room, strict=True)]))
    return (slice(None), slice(None), *[slice(s, s + n) for s, n in zip(start, size, strict=True)])


_part("slice", slicing.slice_part)
_part("slice_axis", slicing.slice_axis_part)
_part("slice_like", _leading)
_part("Crop", _crop)


def _assigned_part(p: dict, x: Array, *value: Array) -> tuple[slice, ...]:
    return slicing.slices("_slice_assign", x.ndim, p["begin"], p["end"], p["step"])


def _assign_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array,
                     *value: Array) -> list[Any]:
    out_grad, part = out_grads[0], _assigned_part(p, x)
    need(out_grad.dtype in FLOATS and x.dtype in FLOATS)
    kept = None
    if needs_grad[0]:
        kept = out_grad.copy()
        kept[part] = 0
    return [kept, out_grad[part] if needs_grad[-1] else None][:len(needs_grad)]


@numpy_form("_slice_assign", backward=_assign_backward, reads=reads_nothing)
def _slice_assign(p: dict, x: Array, value: Array) -> Any:
    result, part = x.copy(), _assigned_part(p, x)
    need(result[part].shape == value.shape)
    result[part] = value
    return result


@numpy_form("_slice_assign_scalar", backward=_assign_backward, reads=reads_nothing)
def _slice_assign_scalar(p: dict, x: Array) -> Any:
    result = x.copy()
    result[_assigned_part(p, x)] = p["scalar"]
    return result


# ------------------------------------------------------------ pieces
def _pieces(name: str, axis_of: Callable[[dict, int], int], limits: Callable[[dict, int], Sequence[int]]) -> None:
    """Registers a split of an axis; `limits`: computes the boundaries of the pieces from the parameters and the
    size."""
    def parts(p: dict, shape: Shape) -> tuple[int, list[tuple[slice, ...]]]:
        axis = normalized(axis_of(p, len(shape)), len(shape))
        ends = list(limits(p, shape[axis]))
        need(sorted(ends) == ends and ends[-1] == shape[axis])
        need(not p["squeeze_axis"] or all([b - a == 1 for a, b in zip(ends, ends[1:], strict=False)]))
        return axis, [(slice(None),) * axis + (slice(a, b),) for a, b in zip(ends, ends[1:], strict=False)]

    def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
        need(x.dtype in FLOATS and all([h is None or h.dtype in FLOATS for h in out_grads]))
        axis, cuts = parts(p, x.shape)
        grad = np.zeros(x.shape, x.dtype)
        for out_grad, cut in zip(out_grads, cuts, strict=True):
            if out_grad is not None:
                grad[cut] = np.expand_dims(out_grad, axis) if p["squeeze_axis"] else out_grad
        return [grad]

    @numpy_form(name, backward=backward, reads=reads_nothing, mixed=True)
    def split(p: dict, x: Array) -> tuple:
        axis, cuts = parts(p, x.shape)
        return tuple([x[cut].squeeze(axis) if p["squeeze_axis"] else x[cut] for cut in cuts])


def _equal(count: int, size: int) -> Sequence[int]:
    need(count > 0 and size % count == 0)
    return [size // count * i for i in range(count + 1)]


def _almost_equal(p: dict, size: int) -> Sequence[int]:
    if p["sections"] <= 0:
        return (*(p["indices"] if size else (0,) * len(p["indices"])), size)
    least, longer = divmod(size, p["sections"])
    return [least * i + min(i, longer) for i in range(p["sections"] + 1)]


def _np_limits(p: dict, size: int) -> Sequence[int]:
    return _equal(p["sections"], size) if p["sections"] else _almost_equal(p, size)


_pieces("SliceChannel", lambda p, ndim: p["axis"], lambda p, size: _equal(p["num_outputs"], size))
_pieces("_split_v2", lambda p, ndim: p["axis"], _almost_equal)
_pieces("_npi_hsplit", lambda p, ndim: 1 if ndim > 1 else 0, _np_limits)
_pieces("_npi_dsplit", lambda p, ndim: 2, _np_limits)


# ------------------------------------------------------------ joins
def _joined(name: str, axis_of: Callable[[dict, int], int], lift: Callable[[dict, Shape], Shape] | None = None) -> None:
    """Registers a concatenation of arrays along an axis.

    Args:
        name: name of the operator.
        axis_of: function(parameters, number of dimensions) -> the axis.
        lift: function(parameters, shape of an array) -> the shape for the concatenation; by default its shape.
    """
    def lifted(p: dict, arrays: Sequence[Any]) -> tuple[list[Shape], int]:
        shapes = [a.shape if lift is None else lift(p, a.shape) for a in arrays]
        axis = normalized(axis_of(p, len(shapes[0])), len(shapes[0]))
        need(len({(*s[:axis], None, *s[axis + 1:]) for s in shapes}) == 1)
        return shapes, axis

    def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], *arrays: Array) -> list[Any]:
        need(out_grads[0].dtype in FLOATS and arrays[0].dtype in FLOATS)
        shapes, axis = lifted(p, arrays)
        grads, begin = [], 0
        for a, shape, w in zip(arrays, shapes, needs_grad, strict=True):
            end = begin + shape[axis]
            grads.append(out_grads[0][(slice(None),) * axis + (slice(begin, end),)].reshape(a.shape) if w else None)
            begin = end
        return grads

    @numpy_form(name, backward=backward, reads=reads_nothing, mixed=True)
    def join(p: dict, *arrays: Array) -> Any:
        need(arrays and len({a.dtype for a in arrays}) == 1)
        shapes, axis = lifted(p, arrays)
        return np.concatenate([a.reshape(s) for a, s in zip(arrays, shapes, strict=True)], axis)


def _in_new_axis(p: dict, x: Shape) -> Shape:
    axis = normalized(p["axis"], len(x) + 1)
    return (*x[:axis], 1, *x[axis:])


_joined("Concat", lambda p, ndim: p["dim"])
_joined("_rnn_param_concat", lambda p, ndim: p["dim"])
_joined("_npi_concatenate", lambda p, ndim: p["axis"] or 0, lambda p, x: (math.prod(x),) if p["axis"] is None else x)
for _name in ("stack", "_npi_stack"):
    _joined(_name, lambda p, ndim: p["axis"], _in_new_axis)
_joined("_npi_vstack", lambda p, ndim: 0, lambda p, x: np_rearranging.lifted(x, 2))
_joined("_npi_hstack", lambda p, ndim: min(1, ndim - 1), lambda p, x: np_rearranging.lifted(x, 1))
_joined("_npi_dstack", lambda p, ndim: 2, lambda p, x: np_rearranging.lifted(x, 3))
_joined("_npi_column_stack", lambda p, ndim: 1, lambda p, x: x if len(x) > 1 else (*x, 1) if x else (1, 1))


# ------------------------------------------------------------ repetition
def _repeated(name: str, layout: Callable[..., tuple[Shape, Shape, Shape]]) -> None:
    """Registers a repetition of an array along axes.

    `layout` computes three shapes from the parameters and the arrays' shapes: that of the first array with axes of size
    1, the same with these repeated, and that of the result.
    """
    def back(p: dict, out_grad: Array, x: Shape, *others: Shape) -> Any:
        ones, full, _ = layout(p, x, *others)
        return summed_to(out_grad.reshape(full), ones).reshape(x)

    def work(p: dict, *shapes: Shape) -> Work:
        return Work(2.0 * math.prod(layout(p, *shapes)[1]))

    @linear(name, back=back, work=work)
    def repeat(p: dict, x: Array, *others: Array) -> Any:
        ones, full, result = layout(p, x.shape, *[a.shape for a in others])
        return np.broadcast_to(x.reshape(ones), full).reshape(result)


def _tile(p: dict, x: Shape) -> tuple[Shape, Shape, Shape]:
    need(p["reps"] and min(p["reps"]) > 0)
    ndim = max(len(x), len(p["reps"]))
    sizes, reps = (1,) * (ndim - len(x)) + x, (1,) * (ndim - len(p["reps"])) + p["reps"]
    full = tuple([m for pair in zip(reps, sizes, strict=True) for m in pair])
    return tuple([m for n in sizes for m in (1, n)]), full, tuple([r * n for r, n in zip(reps, sizes, strict=True)])


def _repeat(p: dict, x: Shape) -> tuple[Shape, Shape, Shape]:
    need(p["repeats"] > 0)
    shape, axis = ((math.prod(x),), 0) if p["axis"] is None else (x, normalized(p["axis"], len(x)))
    before, after = shape[:axis + 1], shape[axis + 1:]
    return (*before, 1, *after), (*before, p["repeats"], *after), (*before[:-1], before[-1] * p["repeats"], *after)


def _stretch(target: Callable[..., Any]) -> Callable[..., tuple[Shape, Shape, Shape]]:
    def layout(p: dict, x: Shape, *others: Shape) -> tuple[Shape, Shape, Shape]:
        shape = tuple(target(p, x, *others))
        need(len(shape) >= len(x))
        ones = (1,) * (len(shape) - len(x)) + x
        need(all([n in (1, m) for n, m in zip(ones, shape, strict=True)]))
        return ones, shape, shape
    return layout


def _like_other(p: dict, x: Shape, like: Shape) -> Shape:
    need(p["lhs_axes"] != () and (p["lhs_axes"] is None or p["rhs_axes"] is None or
                                  len(p["lhs_axes"]) == len(p["rhs_axes"])))
    shape = broadcast.like_shape(p, x, like)
    need(len(shape) == len(x))
    return shape


def _to(p: dict, x: Shape) -> Shape:
    need(len(x) == len(p["shape"]))
    return broadcast.to_shape(p, x)


def _along(p: dict, x: Shape) -> Shape:
    need(len(p["axis"]) == len(p["size"]) and all([x[normalized(a, len(x))] == 1 for a in p["axis"]]))
    return broadcast.along_shape(p, x)


for _name in ("tile", "_npi_tile"):
    _repeated(_name, _tile)
_repeated("repeat", _repeat)
_repeated("broadcast_to", _stretch(_to))
_repeated("broadcast_axis", _stretch(_along))
_repeated("broadcast_like", _stretch(_like_other))
_repeated("_npi_broadcast_to", _stretch(np_rearranging.stretched))


# ------------------------------------------------------------ padding
Widths = Sequence[tuple[int, int]]


def _inner(x: Shape, widths: Widths) -> tuple[slice, ...]:
    return tuple([slice(a, a + n) for n, (a, _) in zip(x, widths, strict=True)])


def _padded(p: dict, x: Array, widths: Widths) -> Any:
    """Returns the array with padding before and after each axis."""
    mode = p["mode"]
    if mode != "constant":
        _need_source(mode, x.shape, widths)
        return np.pad(x, widths, mode)
    value = p["constant_value"]
    need(x.dtype in FLOATS or not value)
    result = np.full([n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)], value, x.dtype)
    result[_inner(x.shape, widths)] = x
    return result


def _need_source(mode: str, x: Shape, widths: Widths) -> None:
    """Raises Unknown for modes that are not linear, and for padding that is wider than its source."""
    need(mode in ("edge", "symmetric", "reflect") and all(x))
    need(mode == "edge" or all([max(pair) <= n - (mode == "reflect") for n, pair in zip(x, widths, strict=True)]))


def _unpadded(p: dict, out_grad: Array, x: Shape, widths: Widths) -> Any:
    """Returns the gradient of the array that was padded."""
    mode = p["mode"]
    if mode == "constant":
        return out_grad[_inner(x, widths)]
    _need_source(mode, x, widths)
    for axis, (n, (before, after)) in enumerate(zip(x, widths, strict=True)):
        if before or after:
            out_grad = np.moveaxis(_folded(mode, np.moveaxis(out_grad, axis, 0), n, before), 0, axis)
    return out_grad


def _folded(mode: str, out_grad: Array, n: int, before: int) -> Any:
    """Adds the padding along the first axis to its source."""
    grad, first, last = out_grad[before:before + n].copy(), out_grad[:before], out_grad[before + n:]
    after = len(last)
    if mode == "edge":
        grad[0] += first.sum(0)
        grad[-1] += last.sum(0)
    else:
        skipped = mode == "reflect"
        grad[skipped:before + skipped] += first[::-1]
        grad[n - after - skipped:n - skipped] += last[::-1]
    return grad


def _pairs(p: dict, x: Shape) -> Widths:
    width = p["pad_width"]
    need(len(x) in (4, 5) and len(width) == 2 * len(x) and not any(width[:4]) and min(width) >= 0)
    return list(zip(width[::2], width[1::2], strict=True))


def _np_pairs(p: dict, x: Shape) -> Widths:
    need(len(p["pad_width"]) == len(x) and all([len(pair) == 2 and min(pair) >= 0 for pair in p["pad_width"]]))
    return p["pad_width"]


def _padding(name: str, widths: Callable[[dict, Shape], Widths]) -> None:
    linear(name, back=lambda p, out_grad, x: _unpadded(p, out_grad, x, widths(p, x)))(
        lambda p, x: _padded(p, x, widths(p, x.shape)))


_padding("Pad", _pairs)
_padding("_npi_pad", _np_pairs)


# ------------------------------------------------------------ diagonals and triangles
def _diagonal(x: Array, k: int, axes: tuple[int, int]) -> Any:
    """Returns a view of the k-th diagonals of two axes as the last axis."""
    one, other = (normalized(a, x.ndim) for a in axes)
    need(one != other)
    return np.diagonal(x, k, one, other)


def _on_diagonal(out_grad: Array, shape: Shape, k: int, axes: tuple[int, int]) -> Any:
    """Returns zeros of this shape with the numbers on the k-th diagonals of two axes."""
    need(len(shape) > 1)
    result = np.zeros(shape, out_grad.dtype)
    diagonal = _diagonal(result, k, axes)
    diagonal.flags.writeable = True
    diagonal[...] = out_grad
    return result


def _matrix(x: Array, k: int) -> Any:
    n = len(x) + abs(k)
    return _on_diagonal(x, (n, n), k, (0, 1))


def _diagonals(name: str, of: Callable[[dict], tuple[int, tuple[int, int]]], most: float = math.inf) -> None:
    """Registers the diagonals of arrays of at most so many axes, or the matrix of a vector.

    `of` determines the diagonal and the axes from the parameters.
    """
    def back(p: dict, out_grad: Array, x: Shape) -> Any:
        k, axes = of(p)
        return np.diagonal(out_grad, k) if len(x) == 1 else _on_diagonal(out_grad, x, k, axes)

    @linear(name, back=back)
    def diag(p: dict, x: Array) -> Any:
        k, axes = of(p)
        if x.ndim == 1:
            return _matrix(x, k)
        need(1 < x.ndim <= most)
        result = _diagonal(x, k, axes)
        need(result.size)
        return result


_diagonals("diag", lambda p: (p["k"], (p["axis1"], p["axis2"])))
_diagonals("_np_diag", lambda p: (p["k"], (0, 1)), 2)
linear("_np_diagflat", back=lambda p, out_grad, x: np.diagonal(out_grad, p["k"]).reshape(x))(
    lambda p, x: _matrix(x.reshape(-1), p["k"]))


def _axes(p: dict) -> tuple[int, int]:
    return p["axis1"], p["axis2"]


@linear("_np_diagonal", back=lambda p, out_grad, x: _on_diagonal(out_grad, x, p["offset"], _axes(p)))
def _np_diagonal(p: dict, x: Array) -> Any:
    need(x.ndim > 1)
    return _diagonal(x, p["offset"], _axes(p))


@linear("_np_trace", back=lambda p, out_grad, x: _on_diagonal(out_grad[..., None], x, p["offset"], _axes(p)))
def _np_trace(p: dict, x: Array) -> Any:
    need(x.ndim > 1 and x.dtype in FLOATS)
    return np.asarray(_diagonal(x, p["offset"], _axes(p)).sum(-1))


def _tril(p: dict, x: Array) -> Any:
    need(x.ndim > 1)
    return np.tril(x, p["k"])


def _tril_back(p: dict, out_grad: Array, x: Shape) -> Any:
    need(len(x) > 1)
    return np.tril(out_grad, p["k"])


linear("_npi_tril", back=_tril_back)(_tril)
