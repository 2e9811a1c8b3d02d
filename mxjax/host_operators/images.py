"""Image operators that OpenCV computes on the host: decoding, resizing, borders. They need the extra "image"."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._random import streams
from .._support import images as _pixels
from ..array.dense import NDArray, _from_host
from ..base import MXNetError
from ..context import Context, current_context
from ..ops.common import gives
from ..ops.on_host import on_host
from ..ops.params import Floats, Shape


def _uniform(ctx: Context) -> Callable[[], float]:
    """Returns a function that draws numbers in [0, 1)."""
    return (lambda: float(streams.source.uniform(1)[0])) if streams.on_host(ctx) else streams.host_generator(ctx).random


def _on_pixels(name: str, aliases: tuple[str, ...] = (), draws: bool = False,
               **attrs: Any) -> Callable[[Callable], Callable]:
    """Registers a function of NumPy arrays as an operator that runs on the host; `draws`: it is given `_uniform`."""
    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def of_arrays(*arrays: NDArray, _ctx: Context | None = None, **params: Any) -> list[Any]:
            if draws:
                params["_uniform"] = _uniform(_ctx or current_context())
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
    *x[:-3], *_resized(x[-3], x[-2], p["size"], p["keep_ratio"]), x[-1]))
def resize(data: np.ndarray, *, size: Shape = (), keep_ratio: bool = False, interp: int = 1) -> np.ndarray:
    """Images (height, width, channel), or a batch of them, of another size.

    Args:
        data: uint8, float32 or float64.
        size: width and height of the result, or one number for both, with `keep_ratio` for the shorter side.
        keep_ratio: see size.
        interp: 0 nearest, 1 bilinear, 2 bicubic, 3 by area, 4 Lanczos, 5 bilinear in exact arithmetic.
    """
    _check_method("resize", interp)
    _check_images("resize", data)
    height, width = _resized(data.shape[-3], data.shape[-2], size, keep_ratio)
    return _resize_all(data, width, height, interp)


def _check_images(operator: str, data: np.ndarray) -> None:
    if data.ndim not in (3, 4):
        raise MXNetError(f"operator {operator}: data must be an image (3 dimensions) or a batch of images (4), "
                         f"got shape {data.shape}")


def _resize_all(data: np.ndarray, width: int, height: int, interp: int) -> np.ndarray:
    """Images of another size, where that is another one."""
    if data.shape[-3:-1] == (height, width):
        return np.ascontiguousarray(data)
    if data.ndim == 3:
        return _pixels.resize(np.ascontiguousarray(data), width, height, interp)
    return np.stack([_pixels.resize(np.ascontiguousarray(image), width, height, interp) for image in data])


def _check_crop(operator: str, data: np.ndarray, width: int, height: int, interp: int) -> None:
    _check_method(operator, interp)
    _check_images(operator, data)
    _check_size(operator, width, height)


def _check_size(operator: str, width: int, height: int) -> None:
    if min(width, height) < 1:
        raise MXNetError(f"operator {operator}: width and height must be positive, got {width} and {height}")


def _check_places(xrange: tuple[float, ...], yrange: tuple[float, ...]) -> None:
    for name, bounds in (("xrange", xrange), ("yrange", yrange)):
        if len(bounds) != 2 or not 0 <= bounds[0] <= bounds[1] <= 1:
            raise MXNetError(f"operator random_crop: {name} must be two numbers in [0, 1] in ascending order, "
                             f"got {bounds}")


def _cropped_at_random(p: dict[str, Any], x: tuple) -> tuple:
    _check_size("random_crop", p["width"], p["height"])
    _check_places(p["xrange"], p["yrange"])
    return *x[:-3], p["height"], p["width"], x[-1]


@_on_pixels("_image_random_crop", ("_npx__image_random_crop",), draws=True, FPartialShape=_cropped_at_random)
def random_crop(data: np.ndarray, *, xrange: Floats = (0.0, 1.0), yrange: Floats = (0.0, 1.0), width: int, height: int,
                interp: int = 1, _uniform: Any = None) -> np.ndarray:
    """A rectangle at a random place, the same of all images of a batch; enlarged where an image is too small.

    Args:
        data: (height, width, channel), or a batch of them.
        xrange, yrange: bounds of the place, from 0 (left, top) to 1 (right, bottom).
        width, height: size of the result.
        interp: as in `resize`.
    """
    _check_crop("random_crop", data, width, height, interp)
    _check_places(xrange, yrange)
    rows, columns = data.shape[-3:-1]
    high, wide = min(height, rows), min(width, columns)
    x = int((xrange[0] + _uniform() * (xrange[1] - xrange[0])) * (columns - wide))
    y = int((yrange[0] + _uniform() * (yrange[1] - yrange[0])) * (rows - high))
    return _resize_all(data[..., y:y + high, x:x + wide, :], width, height, interp)


def _resized_at_random(p: dict[str, Any], x: tuple) -> tuple:
    _check_size("random_resized_crop", p["width"], p["height"])
    return *x[:-3], p["height"], p["width"], x[-1]


@_on_pixels("_image_random_resized_crop", ("_npx__image_random_resized_crop",), draws=True,
            FPartialShape=_resized_at_random)
def random_resized_crop(data: np.ndarray, *, width: int, height: int, area: Floats = (0.08, 1.0),
                        ratio: Floats = (0.75, 4 / 3), interp: int = 1, max_trial: int = 10,
                        _uniform: Any = None) -> np.ndarray:
    """A rectangle of random size, shape and place, resized; the middle, where no attempt gives one that fits.

    Args:
        data: (height, width, channel), or a batch of them.
        width, height: size of the result.
        area: bounds of the rectangle's part of the image.
        ratio: bounds of its width over its height.
        interp: as in `resize`.
        max_trial: how many attempts are made.
    """
    _check_crop("random_resized_crop", data, width, height, interp)
    for name, bounds in (("area", area), ("ratio", ratio)):
        if len(bounds) != 2 or not max(bounds) > 0 or name == "ratio" and not min(bounds) > 0:
            raise MXNetError(f"operator random_resized_crop: {name} must be two positive numbers, got {bounds}")
    rows, columns = data.shape[-3:-1]
    low, most = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(max_trial):
        pixels = rows * columns * (area[0] + _uniform() * (area[1] - area[0]))
        shape = math.exp(low + _uniform() * (most - low))
        wide, high = round(math.sqrt(pixels * shape)), round(math.sqrt(pixels / shape))
        if 0 < wide <= columns and 0 < high <= rows:
            x, y = int(_uniform() * (columns - wide)), int(_uniform() * (rows - high))
            return _resize_all(data[..., y:y + high, x:x + wide, :], width, height, interp)
    high, wide = min(height, rows), min(width, columns)
    x, y = (columns - wide) // 2, (rows - high) // 2
    return _resize_all(data[..., y:y + high, x:x + wide, :], width, height, interp)


@_on_pixels("_cvimdecode", ("_npi_cvimdecode",), infer_type=gives("uint8", "uint8"))
def cvimdecode(buf: np.ndarray, *, flag: int = 1, to_rgb: bool = True) -> np.ndarray:
    """An image file's bytes, uint8, as an image (height, width, channel); flag 0: grey, 1: colour."""
    return _pixels.decode(buf, flag, to_rgb)


@_on_pixels("_cvimread", ("_npi_cvimread",), infer_type=gives("uint8"))
def cvimread(*, filename: str, flag: int = 1, to_rgb: bool = True) -> np.ndarray:
    """An image file as an image (height, width, channel); flag 0: grey, 1: colour."""
    try:
        with open(filename, "rb") as file:
            return _pixels.decode(file.read(), flag, to_rgb)
    except OSError as error:
        raise MXNetError(f"Imread: {filename!r} couldn't open file: {error.strerror}") from None


@_on_pixels("_cvimresize", ("_npi_cvimresize",), FPartialShape=lambda p, x: (p["h"], p["w"], x[-1]))
def cvimresize(data: np.ndarray, *, w: int, h: int, interp: int = 1) -> np.ndarray:
    """An image (height, width, channel) with the size (h, w); `interp` as in `resize`."""
    _check_method("_cvimresize", interp)
    return _pixels.resize(data, w, h, interp)


@_on_pixels("_cvcopyMakeBorder", FPartialShape=lambda p, x: (
    x[0] + p["top"] + p["bot"], x[1] + p["left"] + p["right"], *x[2:]))
def copy_make_border(data: np.ndarray, *, top: int, bot: int, left: int, right: int, type: int = 0, value: float = 0.0,
                     values: Floats = ()) -> np.ndarray:
    """An image with a border of these widths; type: OpenCV's number, 0 is constant `value` or `values`."""
    return _pixels.border(data, top, bot, left, right, type, value, values)
