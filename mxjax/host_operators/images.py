"""Image operators that OpenCV computes on the host: decoding, resizing, borders. They need the extra "image"."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._support import images as _pixels
from ..array.dense import NDArray, _from_host
from ..base import MXNetError
from ..context import current_context
from ..ops.common import Array, gives
from ..ops.on_host import on_host
from ..ops.params import Floats, Shape


def _on_pixels(name: str, aliases: tuple[str, ...] = (), **attrs: Any) -> Callable[[Callable], Callable]:
    """Registers a function of NumPy arrays as an operator that runs on the host."""
    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def of_arrays(*arrays: Any, _ctx: Any = None, **params: Any) -> list[Any]:
            result = function(*[a.asnumpy() for a in arrays], **params)
            return [_from_host(result, _ctx or current_context(), type(arrays[0]) if arrays else NDArray)]
        on_host(name, aliases, **attrs)(of_arrays)
        return function
    return decorate


def _resized(height: int, width: int, size: tuple[int, ...], keep_ratio: bool) -> tuple[int, int]:
    """(height, width) of the result of `_image_resize`."""
    if len(size) not in (1, 2) or min(size) < 1:
        raise MXNetError(f"operator resize: size must be one or two positive numbers, got {size}")
    if len(size) == 2:
        return size[1], size[0]
    if not keep_ratio:
        return size[0], size[0]
    return (height * size[0] // width, size[0]) if height > width else (size[0], width * size[0] // height)


def _check_method(operator: str, interp: int) -> None:
    """Raises MXNetError for 9 and 10, which are for functions that choose a method, and for all that are none."""
    if interp not in range(6):
        raise MXNetError(f"operator {operator}: unknown interpolation method {interp}; known: 0 to 5")


@_on_pixels("_image_resize", ("_npx__image_resize",), FPartialShape=lambda p, x: (
    *x[:-3], *_resized(*x[-3:-1], p["size"], p["keep_ratio"]), x[-1]))
def resize(data: Array, *, size: Shape = (), keep_ratio: bool = False, interp: int = 1) -> Array:
    """Images (height, width, channel), or a batch of them, of another size.

    Args:
        data: uint8, float32 or float64.
        size: (width, height), or one number: of both, or with `keep_ratio` of the shorter side.
        keep_ratio: see size.
        interp: 0 nearest, 1 bilinear, 2 bicubic, 3 by area, 4 Lanczos, 5 bilinear in exact arithmetic.
    """
    _check_method("resize", interp)
    if data.ndim not in (3, 4):
        raise MXNetError(f"operator resize: data must be an image of 3 dimensions or a batch of 4, its shape is "
                         f"{data.shape}")
    height, width = _resized(*data.shape[-3:-1], size, keep_ratio)
    if data.ndim == 3:
        return _pixels.resize(data, width, height, interp)
    return np.stack([_pixels.resize(image, width, height, interp) for image in data])


@_on_pixels("_cvimdecode", ("_npi_cvimdecode",), infer_type=gives("uint8", "uint8"))
def cvimdecode(buf: Array, *, flag: int = 1, to_rgb: bool = True) -> Array:
    """An image file's bytes, uint8, as an image (height, width, channel); flag 0: grey, 1: colour."""
    return _pixels.decode(buf, flag, to_rgb)


@_on_pixels("_cvimread", ("_npi_cvimread",), infer_type=gives("uint8"))
def cvimread(*, filename: str, flag: int = 1, to_rgb: bool = True) -> Array:
    """An image file as an image (height, width, channel); flag 0: grey, 1: colour."""
    try:
        with open(filename, "rb") as file:
            return _pixels.decode(file.read(), flag, to_rgb)
    except OSError as error:
        raise MXNetError(f"Imread: {filename!r} couldn't open file: {error.strerror}") from None


@_on_pixels("_cvimresize", ("_npi_cvimresize",), FPartialShape=lambda p, x: (p["h"], p["w"], x[-1]))
def cvimresize(data: Array, *, w: int, h: int, interp: int = 1) -> Array:
    """An image (height, width, channel) with the size (h, w); `interp` as in `resize`."""
    _check_method("_cvimresize", interp)
    return _pixels.resize(data, w, h, interp)


@_on_pixels("_cvcopyMakeBorder", FPartialShape=lambda p, x: (
    x[0] + p["top"] + p["bot"], x[1] + p["left"] + p["right"], *x[2:]))
def copy_make_border(data: Array, *, top: int, bot: int, left: int, right: int, type: int = 0, value: float = 0.0,
                     values: Floats = ()) -> Array:
    """An image with a border of these widths; type: OpenCV's number, 0 is constant `value` or `values`."""
    return _pixels.border(data, top, bot, left, right, type, value, values)
