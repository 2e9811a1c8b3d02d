"""Pooling, axis by axis, and upsampling of images."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._support.bounded import bounded_cache
from ..direct import Work, need, numpy_form
from ..program import Array

__all__: list[str] = []

_CACHE = 1 << 19  # bytes of data whose axes are all reduced at a time

Sizes = tuple[int, ...]


# ------------------------------------------------------------ windows along one axis
class _Axis(NamedTuple):
    """Windows along an axis: their size, stride and number, and the padding before and after the data."""

    size: int
    kernel: int
    stride: int
    pad: int
    places: int

    @property
    def behind(self) -> int:
        return max((self.places - 1) * self.stride + self.kernel - self.size - self.pad, 0)

    @property
    def is_whole(self) -> bool:
        """Returns whether a single window covers all data."""
        return self.places == 1 and self.kernel == self.size and not self.pad

    def part(self, x: Array, axis: int, place: int) -> Any:
        """Returns the elements at one position of all windows."""
        return x[(slice(None),) * axis + (slice(place, place + (self.places - 1) * self.stride + 1, self.stride),)]

    def shares(self, include: bool) -> Any:
        """Returns how many elements each window averages over; padding counts up to size + pad."""
        start = np.arange(self.places) * self.stride - self.pad
        stop = np.minimum(start + self.kernel, self.size + self.pad)
        return np.maximum(stop - start if include else np.minimum(stop, self.size) - np.maximum(start, 0), 1)


def _axes(p: dict[str, Any], space: Sizes) -> Sequence[_Axis]:
    return _axes_of(space, p["kernel"], p["stride"], p["pad"], p["pooling_convention"], p["global_pool"])


@bounded_cache(1024)
def _axes_of(space: Sizes, kernel: Sizes, stride: Sizes, pad: Sizes, convention: str,
             is_global: bool) -> Sequence[_Axis]:
    dims = len(space)
    if is_global:
        need(convention != "same")
        kernel, stride, pad = space, (), ()
    stride, pad = stride or (1,) * dims, pad[:dims] or (0,) * dims
    need(1 <= dims <= 3 and len(kernel) == len(stride) == len(pad) == dims and min(*space, *kernel, *stride) > 0)
    need(min(pad) >= 0 and not (convention == "same" and any(pad)))
    need(all(q < k for q, k in zip(pad, kernel, strict=True)))
    axes = []
    for size, k, s, q in zip(space, kernel, stride, pad, strict=True):
        room = size + 2 * q - k
        need(room >= 0 or convention == "same")
        count = -(-size // s) if convention == "same" else (-(-room // s) if convention == "full" else room // s) + 1
        need((count - 1) * s - q < size)  # otherwise some windows contain only padding
        axes.append(_Axis(size, k, s, q, count))
    return axes


def _reduced(x: Array, axis: int, windows: _Axis, function: Any) -> Any:
    """Returns the windows along an axis, reduced by `np.add` or `np.maximum`."""
    if windows.is_whole and function is np.add and axis == x.ndim - 1:
        return (x @ np.ones(windows.size, x.dtype))[..., np.newaxis]  # a fifth of the time of np.sum
    if windows.is_whole:
        return function.reduce(x, axis, keepdims=True)
    out = windows.part(x, axis, 0)
    for place in range(1, windows.kernel):
        out = function(out, windows.part(x, axis, place), out=out if place > 1 else None)
    return out


def _spread(out_grad: Array, axis: int, windows: _Axis) -> Any:
    """Returns the gradient of padded data for the sums of windows along an axis."""
    size = windows.pad + windows.size + windows.behind
    shape = out_grad.shape[:axis] + (size,) + out_grad.shape[axis + 1:]
    if windows.is_whole:
        return np.broadcast_to(out_grad, shape)
    out = np.zeros(shape, out_grad.dtype)
    for place in range(windows.kernel):
        windows.part(out, axis, place)[...] += out_grad
    return out


def _first_maxima(x: Array, axes: Sequence[_Axis]) -> Any:
    """Returns the index of the (first) maximum of each window of (image, *space), counted row by row.
    """
    code, width = np.zeros(x.shape, np.min_scalar_type(math.prod([axis.kernel for axis in axes]))), 1
    for axis, windows in reversed(list(enumerate(axes, 1))):
        if windows.is_whole:
            place = x.argmax(axis, keepdims=True)
            code = np.take_along_axis(code, place, axis) + (place * width).astype(code.dtype)
            x = np.take_along_axis(x, place, axis)
        else:
            best, first = windows.part(x, axis, 0), windows.part(code, axis, 0).copy()
            for place in range(1, windows.kernel):
                value = windows.part(x, axis, place)
                change = windows.part(code, axis, place) + code.dtype.type(place * width)
                change ^= first
                change &= np.negative((value > best).astype(code.dtype))  # a tenth of the time of np.where
                first ^= change
                best = np.maximum(best, value)
            x, code = best, first
        width *= windows.kernel
    need(x.min() >= _least(x.dtype))
    return code


def _least(dtype: np.dtype) -> Any:
    return np.finfo(dtype).min  # neither NaN nor -inf is a maximum


# ------------------------------------------------------------ all axes
def _is_last(p: dict[str, Any]) -> bool:
    return p["layout"] is not None and p["layout"][-1] == "C"


def _geometry(p: dict[str, Any], x: Array) -> tuple[Any, Sequence[_Axis], Sequence[_Axis]]:
    """Returns the images (batch, channel, *space) and their axes, with the whole image as one axis if possible."""
    if _is_last(p):
        x = np.moveaxis(x, -1, 1)
    need(x.size)
    axes = _axes(p, x.shape[2:])
    if all(axis.is_whole for axis in axes):
        count = math.prod(x.shape[2:])
        return x, axes, [_Axis(count, count, 1, 0, 1)]
    return x, axes, axes


def _blocks(x: Array) -> Iterator[slice]:
    """Returns parts of the images that fit in the processor's cache."""
    rows = max(1, _CACHE // (x[0].size * x.itemsize))
    for start in range(0, len(x), rows):
        yield slice(start, start + rows)


def _padded(x: Array, axes: Sequence[_Axis], value: float) -> Any:
    """Returns images (image, *space) padded with a value for all windows."""
    around = [(axis.pad, axis.behind) for axis in axes]
    return np.pad(x, [(0, 0), *around], constant_values=value) if any(map(any, around)) else x


def _flat(x: Array, axes: Sequence[_Axis]) -> Any:
    """Returns (batch, channel, *space) as (image, *space)."""
    return x.reshape(-1, *[axis.size for axis in axes])


def _flat_places(x: Array, axes: Sequence[_Axis]) -> Any:
    """Returns (batch, channel, *places) as (image, *places)."""
    return x.reshape(-1, *[axis.places for axis in axes])


def _result(p: dict[str, Any], out: Array) -> Any:
    return np.moveaxis(out, 1, -1) if _is_last(p) else out


def _divided(p: dict[str, Any], x: Array, axes: Sequence[_Axis]) -> Any:
    """Returns an array of positions, divided by the number of elements of each average."""
    return x / _shares(tuple(axes), p["count_include_pad"] is not False, x.dtype)


@bounded_cache(64)
def _shares(axes: Sequence[_Axis], include: bool, dtype: np.dtype) -> Any:
    return functools.reduce(np.multiply.outer, [axis.shares(include) for axis in axes]).astype(dtype)


def _power(p: dict[str, Any]) -> int:
    power = 2 if p["p_value"] is None else p["p_value"]
    need(power in (1, 2, 3))
    return power


def _pool_work(p: dict[str, Any], x: Sizes) -> Work:
    elements = math.prod(x)
    work = 2 * elements
    for axis in _axes(p, x[1:-1] if _is_last(p) else x[2:]):
        elements = elements // axis.size * axis.places
        work += elements * axis.kernel
    return Work(work, operations=8.0)


def _pool_backward(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    kind, out_grad = p["pool_type"], out_grads[0]
    x, axes, reduced = _geometry(p, x)
    out_grad = np.moveaxis(out_grad, -1, 1) if _is_last(p) else out_grad
    if kind == "avg":
        out_grad = _divided(p, out_grad, axes)
    elif kind == "lp":
        power, total = _power(p), _pooled(p, x, axes, reduced)
        out_grad = out_grad if power == 1 else np.divide(out_grad, total if power == 2 else 3 * total * total,
                                                         out=np.zeros_like(total), where=total != 0)
    out = np.empty(x.shape, x.dtype)
    images, slopes, target = _flat(x, reduced), _flat_places(out_grad, reduced), _flat(out, reduced)
    for block in _blocks(images):
        if kind == "max":
            target[block] = _to_maxima(images[block], slopes[block], reduced)
        else:
            part: Any = slopes[block]
            for axis in reversed(range(len(reduced))):
                part = _spread(part, axis + 1, reduced[axis])
            target[block] = part[(slice(None), *[slice(a.pad, a.pad + a.size) for a in reduced])]
    if kind == "lp" and _power(p) > 1:
        out *= x if _power(p) == 2 else 3 * x * x
    return [_result(p, out)]


def _to_maxima(x: Array, out_grad: Array, axes: Sequence[_Axis]) -> Any:
    """Returns the gradient of images for the maxima of their windows."""
    weights = [math.prod([a.size for a in axes[i + 1:]]) for i in range(len(axes))]
    within = functools.reduce(np.add.outer, [w * np.arange(a.kernel) for w, a in zip(weights, axes, strict=True)])
    place = within.ravel().take(_first_maxima(_padded(x, axes, -np.inf), axes))
    starts = [w * (a.stride * np.arange(a.places) - a.pad) for w, a in zip(weights, axes, strict=True)]
    place += functools.reduce(np.add.outer, [x[0].size * np.arange(len(x)), *starts])
    if all(a.stride >= a.kernel for a in axes):
        out = np.zeros(x.size, x.dtype)
        out[place.ravel()] = out_grad.ravel()
    else:
        out = np.bincount(place.ravel(), out_grad.ravel(), x.size)
    return out.reshape(x.shape)


def _pooled(p: dict[str, Any], x: Array, axes: Sequence[_Axis], reduced: Sequence[_Axis]) -> Any:
    """Returns images (batch, channel, *space) pooled."""
    kind = p["pool_type"]
    if kind == "lp":
        x = x ** _power(p)
    out = np.empty((*x.shape[:2], *[axis.places for axis in axes]), x.dtype)
    target, images = _flat_places(out, reduced), _flat(x, reduced)
    function, outside = (np.maximum, -np.inf) if kind == "max" else (np.add, 0)
    for block in _blocks(images):
        part = _padded(images[block], reduced, outside)
        for axis, windows in enumerate(reduced, 1):
            part = _reduced(part, axis, windows, function)
        target[block] = part
    need(kind != "max" or out.min() >= _least(x.dtype))
    if kind == "avg":
        return _divided(p, out, axes)
    if kind == "lp" and _power(p) > 1:
        return np.sqrt(out) if _power(p) == 2 else np.cbrt(out)
    return out


@numpy_form("Pooling", backward=_pool_backward, work=_pool_work,
            reads=lambda p, needs_grad: [p["pool_type"] in ("max", "lp")])
def _pooling(p: dict[str, Any], x: Array) -> Any:
    return _result(p, _pooled(p, *_geometry(p, x)))


# ------------------------------------------------------------ larger images
def _enlargements(p: dict[str, Any], arrays: Sequence[Any]) -> list[tuple[int, int]]:
    """Returns the repetitions of each array's pixels along height and width."""
    need(p["sample_type"] == "nearest" and all(a.ndim == 4 and a.size for a in arrays))
    height, width = [n * p["scale"] for n in arrays[0].shape[2:]]
    need(all(height % a.shape[2] == width % a.shape[3] == 0 and len(a) == len(arrays[0]) for a in arrays))
    need(p["multi_input_mode"] == "concat" or all(a.shape[1] == arrays[0].shape[1] for a in arrays))
    return [(height // a.shape[2], width // a.shape[3]) for a in arrays]


def _each(p: dict[str, Any], whole: Array, arrays: Sequence[Any]) -> Iterator[Any]:
    """Returns the channels of the output that belong to each array."""
    first = 0
    for array in arrays:
        yield whole if p["multi_input_mode"] == "sum" else whole[:, first:first + array.shape[1]]
        first += array.shape[1]


def _enlarge_backward(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool],
                      *arrays: Array) -> list[Any]:
    times = _enlargements(p, arrays)
    return [_summed(_summed(part, 2, t[0]), 3, t[1]) if w else None for part, t, w in
            zip(_each(p, out_grads[0], arrays), times, needs_grad, strict=False)]


def _summed(x: Array, axis: int, count: int) -> Any:
    """Returns sums of this number of neighbours along an axis."""
    return _reduced(x, axis, _Axis(x.shape[axis], count, count, 0, x.shape[axis] // count), np.add)


def _enlarge_work(p: dict[str, Any], *shapes: Sizes) -> Work:
    return Work(2 * p["scale"] ** 2 * math.prod(shapes[0]) * len(shapes))


def _enlarge_reads(p: dict[str, Any], needs_grad: Sequence[bool]) -> list[bool]:
    return [p["sample_type"] != "nearest"] * len(needs_grad)


@numpy_form("UpSampling", backward=_enlarge_backward, work=_enlarge_work, reads=_enlarge_reads)
def _enlarge(p: dict[str, Any], *arrays: Array) -> Any:
    times, adds = _enlargements(p, arrays), p["multi_input_mode"] == "sum"
    height, width = [n * p["scale"] for n in arrays[0].shape[2:]]
    channels = arrays[0].shape[1] if adds else sum([a.shape[1] for a in arrays])
    out = (np.zeros if adds else np.empty)((len(arrays[0]), channels, height, width), arrays[0].dtype)
    for part, array, t in zip(_each(p, out, arrays), arrays, times, strict=True):
        wide = array.repeat(t[1], 3)
        for row in range(t[0]):
            rows = part[:, :, row::t[0]]
            np.add(rows, wide, out=rows) if adds else np.copyto(rows, wide)
    return out
