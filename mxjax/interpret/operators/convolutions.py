"""Convolutions and their transposes, over any number of spatial axes, as products of matrices.

Windows of the data become the columns of a matrix for one product: those of some rows of one image, so that they stay
in the processor's cache, or of several small images. The transpose adds the columns to their original
positions. Arrays are (batch, channel, *space) here, weights (filter, channel / groups, *kernel).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..direct import Work, need, numpy_form
from ..program import Array

__all__: list[str] = []

_CACHE = 1 << 21  # bytes of columns that are computed at a time
_MOST = 1 << 24  # the maximum for the gradient of the weight, because each block adds to the whole gradient
_FEW = 160  # positions of an image below which several images share columns, with the image as the last axis
_COLUMNS = 512  # number of images in this case
_LEAST = 128  # columns from which a product is fast

Sizes = tuple[int, ...]


class _Steps(NamedTuple):
    """The windows of a convolution: strides, padding and dilation along each axis, and number of groups."""

    stride: Sizes
    dilate: Sizes
    pad: Sizes
    groups: int


# ------------------------------------------------------------ columns
def _image_last(x: Array) -> Any:
    """Returns a view of (image, ...) as (..., image)."""
    return x.transpose(*range(1, x.ndim), 0)  # a tenth of the time of np.moveaxis


def _image_first(x: Array) -> Any:
    """Returns a view of (..., image) as (image, ...)."""
    return x.transpose(-1, *range(x.ndim - 1))


def _padded(x: Array, pad: Sizes) -> Any:
    """Returns images with zero padding as (channel, *space, image)."""
    if not any(pad):
        return np.ascontiguousarray(_image_last(x)) if len(x) > 1 else _image_last(x)
    out = np.zeros((x.shape[1], *[n + 2 * p for n, p in zip(x.shape[2:], pad, strict=True)], len(x)), x.dtype)
    out[_inside(x.shape[2:], pad)] = _image_last(x)
    return out


def _inside(space: Sizes, pad: Sizes) -> tuple:
    return (slice(None), *[slice(p, p + n) for n, p in zip(space, pad, strict=True)])


def _windows(x: Array, kernel: Sizes, places: Sizes, steps: _Steps) -> Any:
    """Returns a view of (channel, *space, image) as (channel, *kernel, *places, image)."""
    channel, *space, image = x.strides
    shape = len(x), *kernel, *places, x.shape[-1]
    strides = (channel, *[s * n for s, n in zip(space, steps.dilate, strict=True)],
               *[s * n for s, n in zip(space, steps.stride, strict=True)], image)
    if x.flags.c_contiguous:  # an eighth of the time of as_strided
        return np.ndarray(shape, x.dtype, x, 0, strides)
    return np.lib.stride_tricks.as_strided(x, shape, strides)


def _blocks(batch: int, places: Sizes, height: int, itemsize: int, room: int) -> Iterator[tuple[slice, list[slice]]]:
    """Returns slices of images and of rows whose columns of this height fit in this number of bytes."""
    count, column = math.prod(places), height * itemsize
    row = count // places[0]
    images, rows = 1, min(places[0], max(room // (row * column), -(-_LEAST // row)))
    if count < _FEW:
        images, rows = max(1, min(batch, _COLUMNS // count, _MOST // (count * column))), places[0]
    for start in range(0, batch, images):
        yield slice(start, min(start + images, batch)), [slice(i, min(i + rows, places[0]))
                                                         for i in range(0, places[0], rows)]


def _columns(windows: Array, rows: slice, steps: _Steps, kernel: Sizes) -> Any:
    """Returns the windows of some rows as (groups, channel · kernel, columns)."""
    part = windows[(slice(None),) * (1 + len(kernel)) + (rows,)]
    return part.reshape(steps.groups, len(windows) // steps.groups * math.prod(kernel), -1)


def _of_one(image: Array, rows: slice, groups: int) -> Any:
    """Returns rows of an image (channel, *places) as a view (groups, channel / groups, places)."""
    row = math.prod(image.shape[2:])
    return image.reshape(groups, len(image) // groups, -1)[..., rows.start * row:rows.stop * row]


def _of_images(x: Array, images: slice, rows: slice, groups: int) -> Any:
    """Returns rows of images (batch, channel, *places) as (groups, channel / groups, places · images)."""
    if images.stop - images.start == 1:
        return _of_one(x[images.start], rows, groups)
    return _image_last(x[images, :, rows]).reshape(groups, x.shape[1] // groups, -1)


# ------------------------------------------------------------ the three products
def _correlate(x: Array, w: Array, places: Sizes, steps: _Steps, bias: Array | None = None) -> Any:
    """Returns the convolution of data with a weight, plus the bias."""
    kernel = w.shape[2:]
    filters = w.reshape(steps.groups, len(w) // steps.groups, -1)
    out = np.empty((len(x), len(w), *places), x.dtype)
    for images, parts in _blocks(len(x), places, filters.shape[2] * steps.groups, x.itemsize, _CACHE):
        windows = _windows(_padded(x[images], steps.pad), kernel, places, steps)
        for rows in parts:
            columns = _columns(windows, rows, steps, kernel)
            if windows.shape[-1] == 1:
                product = _of_one(out[images.start], rows, steps.groups)
                np.matmul(filters, columns, out=product)
            else:
                product = filters @ columns
            if bias is not None:
                product += bias.reshape(steps.groups, -1, 1)
            if windows.shape[-1] > 1:
                out[images, :, rows] = _image_first(product.reshape(len(w), -1, *places[1:], windows.shape[-1]))
    return out


def _spread(out_grad: Array, w: Array, space: Sizes, steps: _Steps) -> Any:
    """Returns the gradient of the data of this size: the transpose of `_correlate`."""
    kernel, channels, places = w.shape[2:], w.shape[1] * steps.groups, out_grad.shape[2:]
    if _turns(w, places, steps):
        pad = tuple([k - 1 - p for k, p in zip(kernel, steps.pad, strict=True)])
        turned = np.flip(w, tuple(range(2, w.ndim))).reshape(steps.groups, -1, *w.shape[1:]).swapaxes(1, 2)
        return _correlate(out_grad, turned.reshape(channels, -1, *kernel), space, steps._replace(pad=pad))
    filters = w.reshape(steps.groups, len(w) // steps.groups, -1).swapaxes(1, 2)
    out = np.empty((len(out_grad), channels, *space), out_grad.dtype)
    for images, parts in _blocks(len(out_grad), places, filters.shape[1] * steps.groups, out_grad.itemsize, _CACHE):
        image = out[images]
        count = len(image)
        if _is_plain(kernel, steps):
            image[:] = _image_first((filters @ _of_images(out_grad, images, slice(0, places[0]), steps.groups)).reshape(
                channels, *space, count))
            continue
        whole = np.zeros((channels, *[n + 2 * p for n, p in zip(space, steps.pad, strict=True)], count), out_grad.dtype)
        windows = _windows(whole, kernel, places, steps)
        for rows in parts:
            columns = (filters @ _of_images(out_grad, images, rows, steps.groups)).reshape(
                channels, *kernel, -1, *places[1:], count)
            for tap in itertools.product(*map(range, kernel)):
                windows[(slice(None), *tap, rows)] += columns[(slice(None), *tap)]
        image[:] = _image_first(whole[_inside(space, steps.pad)])
    return out


def _is_plain(kernel: Sizes, steps: _Steps) -> bool:
    """Returns whether windows and positions correspond one to one."""
    return math.prod(kernel) == math.prod(steps.stride) == 1 and not any(steps.pad)


def _turns(w: Array, places: Sizes, steps: _Steps) -> bool:
    """Returns whether the transpose is faster as a convolution with the flipped kernel: creating columns takes less
    time than adding them up, if the weight is small.
    """
    small = steps.groups > 1 or math.prod(places) >= _FEW
    return small and len(w) <= 2 * w.shape[1] * steps.groups and not _is_plain(w.shape[2:], steps) and max(
        *steps.stride, *steps.dilate) == 1 and all(p < k for p, k in zip(steps.pad, w.shape[2:], strict=True))


def _products(x: Array, out_grad: Array, kernel: Sizes, steps: _Steps) -> Any:
    """Returns the gradient of the weight."""
    places, groups, inner = out_grad.shape[2:], steps.groups, x.shape[1] // steps.groups
    out = np.empty((out_grad.shape[1], inner, *kernel), x.dtype)
    total = out.reshape(groups, out_grad.shape[1] // groups, -1)
    first = True
    for images, parts in _blocks(len(x), places, x.shape[1] * math.prod(kernel), x.itemsize, _MOST):
        windows = _windows(_padded(x[images], steps.pad), kernel, places, steps)
        for rows in parts:
            factors = _of_images(out_grad, images, rows, groups), _columns(windows, rows, steps, kernel).swapaxes(1, 2)
            if first:
                np.matmul(*factors, out=total)
                first = False
            else:
                total += np.matmul(*factors)
    return out


# ------------------------------------------------------------ the operators
def _steps(p: dict[str, Any], x: Array, w: Array) -> _Steps:
    """Returns the parameters for each axis, of arrays with channels first."""
    steps = _steps_of(p, x.ndim - 2)
    need(x.size and w.size and w.shape[2:] == p["kernel"])
    need(x.shape[1] % steps.groups == len(w) % steps.groups == p["num_filter"] % steps.groups == 0)
    return steps


def _steps_of(p: dict[str, Any], dims: int) -> _Steps:
    kernel, stride, dilate = p["kernel"], p["stride"] or (1,) * dims, p["dilate"] or (1,) * dims
    pad, groups = p["pad"] or (0,) * dims, p["num_group"]
    need(dims >= 1 and len(kernel) == len(stride) == len(dilate) == len(pad) == dims)
    need(min(*kernel, *stride, *dilate, groups) > 0 and min(pad) >= 0)
    return _Steps(stride, dilate, pad, groups)


def _is_last(p: dict[str, Any]) -> bool:
    return p["layout"] is not None and p["layout"][-1] == "C"


def _first(p: dict[str, Any], array: Array) -> Any:
    """Returns an array with channels as its second axis."""
    return np.moveaxis(array, -1, 1) if _is_last(p) else array


def _back(p: dict[str, Any], array: Array) -> Any:
    return np.moveaxis(array, 1, -1) if _is_last(p) else array


def _places(space: Sizes, kernel: Sizes, steps: _Steps) -> Sizes:
    places = tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, d, p in
                    zip(space, kernel, *steps[:3], strict=True)])
    need(min(places) > 0)
    return places


def _biased(out: Array, bias: Array | None) -> Any:
    """Returns the output with the bias added in place."""
    if bias is not None:
        need(bias.shape == (out.shape[1],))
        out += bias.reshape(-1, *(1,) * (out.ndim - 2))
    return out


def _convolution(p: dict[str, Any], x: Array, w: Array, bias: Array | None = None) -> Any:
    x, w = _first(p, x), _first(p, w)
    steps = _steps(p, x, w)
    need(w.shape[:2] == (p["num_filter"], x.shape[1] // steps.groups))
    need(bias is None or bias.shape == w.shape[:1])
    return _back(p, _correlate(x, w, _places(x.shape[2:], w.shape[2:], steps), steps, bias))


def _transposed_steps(p: dict[str, Any], x: Array, w: Array) -> tuple[_Steps, Sizes]:
    """Returns the convolution whose transpose this is, and the size of the output."""
    steps = _steps(p, x, w)
    need(w.shape[:2] == (x.shape[1], p["num_filter"] // steps.groups))
    adj, reach = p["adj"] or (0,) * len(steps.pad), [
        s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], *steps[:2], strict=True)]
    need(len(adj) == len(reach) and min(adj) >= 0)
    if p["target_shape"]:
        need(len(p["target_shape"]) == len(reach))
        excess = [n - t for n, t in zip(reach, p["target_shape"], strict=True)]
        need(min(excess) >= 0)
        steps, adj = steps._replace(pad=tuple([(e + 1) // 2 for e in excess])), tuple([e % 2 for e in excess])
    space = tuple([n - 2 * q + a for n, q, a in zip(reach, steps.pad, adj, strict=True)])
    need(min(space) > 0 and _places(space, w.shape[2:], steps) == x.shape[2:])
    return steps, space


def _transposed(p: dict[str, Any], x: Array, w: Array, bias: Array | None = None) -> Any:
    x, w = _first(p, x), _first(p, w)
    steps, space = _transposed_steps(p, x, w)
    return _back(p, _biased(_spread(x, w, space, steps), bias))


def _gradients(by_data: Callable[..., Any], by_weight: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Returns the gradients of an operator, from functions(parameters, out_grad, x, w)."""
    def backward(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array, w: Array,
                 bias: Array | None = None) -> list[Any]:
        out_grad, x, w = _first(p, out_grads[0]), _first(p, x), _first(p, w)
        return [_back(p, by_data(p, out_grad, x, w)) if needs_grad[0] else None,
                _back(p, by_weight(p, out_grad, x, w)) if needs_grad[1] else None,
                out_grad.reshape(*out_grad.shape[:2], -1).sum(2).sum(0) if bias is not None and needs_grad[2] else None]
    return backward


def _reads(p: dict[str, Any], needs_grad: Sequence[bool]) -> list[bool]:
    """The gradient of each factor reads the other."""
    return [needs_grad[1], needs_grad[0], False][:len(needs_grad)]


_OPERATIONS = 17.0  # a convolution compiles in 80 ms, its gradients in 120 to 350


def _work(transposed: bool) -> Callable[..., Work]:
    def work(p: dict[str, Any], x: Sizes, w: Sizes, bias: Sizes | None = None) -> Work:
        space = x[1:-1] if _is_last(p) else x[2:]
        count = math.prod(space if transposed else _places(space, p["kernel"], _steps_of(p, len(space))))
        products = x[0] * count * math.prod(w)
        columns = products * p["num_group"] / max(1, w[0])
        return Work(2 * math.prod(x) + 2 * x[0] * count * p["num_filter"] + columns / 4, products, _OPERATIONS)
    return work


numpy_form("Convolution", "Convolution_v1", reads=_reads, work=_work(False), backward=_gradients(
    lambda p, out_grad, x, w: _spread(out_grad, w, x.shape[2:], _steps(p, x, w)),
    lambda p, out_grad, x, w: _products(x, out_grad, w.shape[2:], _steps(p, x, w))))(_convolution)
numpy_form("Deconvolution", reads=_reads, work=_work(True), backward=_gradients(
    lambda p, out_grad, x, w: _correlate(out_grad, w, x.shape[2:], _transposed_steps(p, x, w)[0]),
    lambda p, out_grad, x, w: _products(out_grad, x, w.shape[2:], _transposed_steps(p, x, w)[0])))(_transposed)
