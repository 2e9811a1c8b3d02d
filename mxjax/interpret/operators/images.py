"""Operators on one image: tensors, normalization, and random changes of colours, as data loaders call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._support.images import GREY, PCA_VALUES, PCA_VECTORS
from ..direct import Work, need, numpy_form
from ..program import Array

__all__: list[str] = []

_DTYPES = frozenset(map(np.dtype, ("u1", "f4", "f8")))


def _kept(values: Array, like: Array) -> Array:
    """Returns values in the dtype of an image; uint8 cut off to its range."""
    return (np.clip(values, 0, 255) if like.dtype == np.uint8 else values).astype(like.dtype, copy=False)


def _wide(data: Array) -> Array:
    return data if data.dtype.kind == "f" else data.astype(np.float32)


def _brightness(data: Array, factor: Array) -> Array:
    return _kept(_wide(data) * factor, data)


def _contrast(data: Array, factor: Array) -> Array:
    wide = _wide(data)
    grey = wide @ np.array(GREY, wide.dtype) if data.shape[2] == 3 else wide
    return _kept(wide * factor + (1 - factor) * grey.mean(), data)


def _saturation(data: Array, factor: Array) -> Array:
    wide = _wide(data)
    return _kept(wide * factor + (1 - factor) * wide.dtype.type(GREY[2]) * wide[..., 2:], data)


def _hue(data: Array, turn: Array) -> Array:
    red, green, blue = planes = np.ascontiguousarray(np.moveaxis(_wide(data), 2, 0)) / np.float32(255)
    high, low = planes.max(0), planes.min(0)
    range_, total = high - low, high + low
    light = total / 2
    coloured = range_ > np.finfo(np.float32).eps
    step = np.where(coloured, 1 / np.where(coloured, range_, 1), 0).astype(range_.dtype, copy=False)
    hue = np.where(high == red, (green - blue) * step,
                   np.where(high == green, (blue - red) * step + 2, (red - green) * step + 4))
    saturation = range_ / np.where(coloured, np.where(light < 0.5, total, 2 - total), 1)
    top = np.where(light <= 0.5, light * (1 + saturation), light + saturation - light * saturation)
    bottom = 2 * light - top
    hue = hue + turn * 6
    out = np.empty_like(planes)
    for plane, offset in zip(out, (2, 0, 4), strict=True):
        place = (hue + offset) % 6
        part = np.clip(np.minimum(place, 4 - place), 0, 1)
        plane[...] = np.where(coloured, bottom + (top - bottom) * part, light)
    return _kept(np.moveaxis(out, 0, 2) * np.float32(255), data)


def _lighting(data: Array, alpha: Array) -> Array:
    wide = _wide(data)
    return _kept(wide + np.array(PCA_VECTORS * PCA_VALUES, wide.dtype) @ np.asarray(alpha, wide.dtype), data)


_CHANGES = (_brightness, _contrast, _saturation, _hue)
# passes over the pixels, and operations that XLA would compile
_WORK = {_brightness: (4, 10), _contrast: (8, 20), _saturation: (6, 15), _hue: (60, 160), _lighting: (5, 15)}


def _changed(change: Callable[[Array, Array], Array], data: Array, factor: Array) -> Array:
    if data.shape[2] == 1 and change not in (_brightness, _contrast):
        return data
    return change(data, factor)


def _drawn(p: dict[str, Any], data: Array) -> Array:
    """Returns the numbers drawn on the host for an image."""
    key = p.get("_key", ())
    need(len(key) == 1 and data.ndim == 3 and data.shape[2] in (1, 3) and data.dtype in _DTYPES)
    return np.asarray(key[0])


def _same(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], data: Array) -> list[Any]:
    return [out_grads[0]]


def _work(passes: int, operations: int) -> Callable[..., Work]:
    return lambda p, data: Work(float(passes) * np.prod(data), operations=operations)


def _register(name: str, change: Callable[[Array, Array], Array]) -> None:
    @numpy_form(name, backward=_same, reads=lambda p, needs_grad: [False], work=_work(*_WORK[change]), mixed=True)
    def form(p: dict[str, Any], data: Array) -> Array:
        return _changed(change, data, _drawn(p, data))


for _name, _change in zip(("brightness", "contrast", "saturation", "hue", "lighting"), (*_CHANGES, _lighting),
                          strict=True):
    _register(f"_image_random_{_name}", _change)


@numpy_form("_image_random_color_jitter", backward=_same, reads=lambda p, needs_grad: [False],
            work=_work(80, 840), mixed=True)
def _jitter(p: dict[str, Any], data: Array) -> Array:
    drawn = _drawn(p, data)
    used = [change for change, name in zip(_CHANGES, ("brightness", "contrast", "saturation", "hue"), strict=True)
            if p[name] > 0]
    for number in drawn[0].astype(int) if used else ():
        data = _changed(used[number], data, drawn[1][number])
    return data


def _flips(name: str, axis: int) -> None:
    @numpy_form(name, backward=_same, reads=lambda p, needs_grad: [False], mixed=True)
    def form(p: dict[str, Any], data: Array) -> Array:
        return data if _drawn(p, data) else np.flip(data, axis)


_flips("_image_random_flip_left_right", 1)
_flips("_image_random_flip_top_bottom", 0)


@numpy_form("_image_to_tensor", mixed=True, backward=None)
def _to_tensor(p: dict[str, Any], data: Array) -> Array:
    need(data.ndim in (3, 4) and data.dtype in _DTYPES)
    return np.moveaxis(data, -1, -3).astype(np.float32) / np.float32(255)


def _scale(p: dict[str, Any], data: Array, name: str) -> Array:
    values = np.array(p[name], data.dtype)
    need(data.ndim in (3, 4) and len(values) in (1, data.shape[-3]))
    return values[:, None, None]


def _normalize_backward(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool],
                        data: Array) -> list[Any]:
    return [out_grads[0] / _scale(p, data, "std")]


@numpy_form("_image_normalize", backward=_normalize_backward, reads=lambda p, needs_grad: [False])
def _normalize(p: dict[str, Any], data: Array) -> Array:
    return (data - _scale(p, data, "mean")) / _scale(p, data, "std")
