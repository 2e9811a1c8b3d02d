"""Image functions on NDArrays (height, width, channels) in RGB order."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any, TypeAlias

import numpy as np

from .. import ndarray as nd
from .._support import images as _pixels
from ..array.dense import _from_host
from ..base import MXNetError, UnknownArgument, numeric_types
from ..context import cpu
from ..ndarray import NDArray
from ..numpy import ndarray as np_ndarray
from ..util import is_np_array

__all__ = ["center_crop", "color_normalize", "copyMakeBorder", "fixed_crop", "imdecode", "imread", "imresize",
           "imrotate", "random_crop", "random_rotate", "random_size_crop", "resize_short", "scale_down"]

Image: TypeAlias = NDArray | np.ndarray
Rectangle = tuple[int, int, int, int]  # x, y, width, height


def array_class() -> type:
    """Returns the class of images: NDArray, or mx.np.ndarray under NumPy semantics."""
    if is_np_array():
        return np_ndarray
    return NDArray


def host(src: Image) -> np.ndarray:
    """Returns an image's values as a read-only NumPy array."""
    return np.asarray(src.read()) if isinstance(src, NDArray) else src


def like(values: np.ndarray, src: Image | None, out: NDArray | None = None) -> Any:
    """Converts a result to the type of its source (NDArray or NumPy array), or writes it to `out`."""
    if out is not None:
        out[:] = _from_host(np.ascontiguousarray(values), out.context, type(out))
        return out
    if not isinstance(src, NDArray):
        return values
    return _from_host(np.ascontiguousarray(values), src.context, type(src))


def _decoded(data: bytes | bytearray | memoryview | np.ndarray, flag: int = 1, to_rgb: bool = True,
             out: NDArray | None = None, name: str | None = None, **unknown: Any) -> NDArray:
    if unknown:
        raise UnknownArgument(f"images are decoded by flag, to_rgb and out, got {', '.join(unknown)}")
    pixels = _pixels.decode(data, int(flag), bool(to_rgb))
    return like(pixels, None, out) if out is not None else _from_host(pixels, cpu(), array_class())


def imread(filename: str | os.PathLike[str], *args: Any, **kwargs: Any) -> NDArray:
    """Reads an image file.

    Args:
        filename: its path.
        flag: 1 (default) for colour, 0 for grey.
        to_rgb: channels in the order red, green, blue (default); otherwise blue, green, red.
        out: an array to write to.

    Returns:
        (height, width, 3) or, grey, (height, width, 1), uint8.

    Raises:
        MXNetError: the file cannot be read or is not an image; the message names it.
    """
    try:
        with open(filename, "rb") as file:
            data = file.read()
        return _decoded(data, *args, **kwargs)
    except OSError as error:
        raise MXNetError(f"imread: couldn't open file {os.fspath(filename)!r}: {error.strerror}") from error
    except MXNetError as error:
        raise MXNetError(f"imread: {os.fspath(filename)!r}: {error}") from error


def imdecode(buf: bytes | bytearray | np.ndarray | NDArray, *args: Any, **kwargs: Any) -> NDArray:
    """Decodes the content of an image file.

    Args:
        buf: its bytes.
        flag, to_rgb, out: as in `imread`.

    Raises:
        ValueError: `buf` is of another type.
        MXNetError: the bytes are not an image.
    """
    if isinstance(buf, NDArray):
        buf = host(buf)
    elif not isinstance(buf, (bytes, bytearray, memoryview, np.ndarray)):
        raise ValueError("buf must be of type bytes, bytearray or numpy.ndarray; convert a str to bytes")
    return _decoded(buf, *args, **kwargs)


def imresize(src: Image, w: int, h: int, *args: Any, **kwargs: Any) -> Any:
    """Resizes an image.

    Args:
        src: (height, width, channels).
        w, h: the new width and height.
        interp: 0 nearest, 1 bilinear (default), 2 bicubic, 3 by area, 4 Lanczos, 5 bilinear in exact arithmetic;
            9: bicubic to enlarge, by area to shrink, otherwise bilinear; 10: a random one of 0 to
                4.
        out: an array to write to.

    Raises:
        MXNetError: the size is not positive.
        ValueError: unknown `interp`.
    """
    return _resized(src, w, h, *args, **kwargs)


def _resized(src: Image, w: int, h: int, interp: int = 1, out: NDArray | None = None, name: str | None = None) -> Any:
    return like(_pixels.resize(host(src), w, h, interp), src, out)


def scale_down(src_size: Sequence[int], size: Sequence[int]) -> tuple[int, int]:
    """Scales `size` down to fit into `src_size` and keeps its aspect ratio; both are (width, height).

    Example:
        >>> scale_down((640, 480), (720, 120))
        (640, 106)
    """
    w, h = size
    sw, sh = src_size
    if sh < h:
        w, h = float(w * sh) / h, sh
    if sw < w:
        w, h = sw, float(h * sw) / w
    return int(w), int(h)


def copyMakeBorder(src: Image, top: int, bot: int, left: int, right: int, *args: Any,  # noqa: N802
                   **kwargs: Any) -> Any:
    """Adds a border to an image.

    Args:
        src: (height, width, channels).
        top, bot, left, right: the border's widths.
        type: 0 (default) constant colour, 1 mirrored, 2 mirrored without the edge, 3 repeated edge,
            4 repeated image.
        value, values: the colour: one number, or one per channel; 0 by default.
        out: an array to write to.
    """
    return _bordered(src, top, bot, left, right, *args, **kwargs)


def _bordered(src: Image, top: int, bot: int, left: int, right: int, type: int = 0, value: float = 0.0,
              values: Sequence[float] | float = (), out: NDArray | None = None, name: str | None = None) -> Any:
    return like(_pixels.border(host(src), top, bot, left, right, type, value, values), src, out)


def resize_short(src: Image, size: int, interp: int = 2) -> Any:
    """Resizes an image so that its shorter edge has length `size`, keeping the aspect ratio.

    Args:
        src: image (height, width, channels).
        size: length of the shorter edge in pixels.
        interp: as in `imresize`.
    """
    return like(_pixels.resize_short(host(src), size, interp), src)


def fixed_crop(src: Image, x0: int, y0: int, w: int, h: int, size: Sequence[int] | None = None, interp: int = 2) -> Any:
    """Crops a rectangle of an image and optionally resizes it to `size` (width, height)."""
    return like(_pixels.crop(host(src), x0, y0, w, h, size, interp), src)


def random_crop(src: Image, size: Sequence[int], interp: int = 2) -> tuple[Any, Rectangle]:
    """Crops a rectangle at a random position, and enlarges it if the image is too small.

    Args:
        src: (height, width, channels).
        size: (width, height) of the result.
        interp: as in `imresize`.

    Returns:
        (image, (x, y, width, height) of the rectangle).
    """
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = random.randint(0, w - new_w), random.randint(0, h - new_h)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def center_crop(src: Image, size: Sequence[int], interp: int = 2) -> tuple[Any, Rectangle]:
    """Crops the center of an image; arguments and result as in `random_crop`."""
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = (w - new_w) // 2, (h - new_h) // 2
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def color_normalize(src: Image, mean: Image | None, std: Image | None = None) -> Any:
    """Computes (src - mean) / std in place. src: a float array; mean, std: arrays that broadcast to it, or None."""
    if mean is not None:
        src -= mean
    if std is not None:
        src /= std
    return src


def renamed_area(area: float | Sequence[float], kwargs: dict[str, Any], what: str) -> Any:
    """Returns `area`, or its value under its old name."""
    if "min_area" in kwargs:
        warnings.warn("`min_area` is deprecated. Please use `area` instead.", DeprecationWarning, stacklevel=3)
        area = kwargs.pop("min_area")
    if kwargs:
        raise AssertionError(f"unexpected keyword arguments for `{what}`: {', '.join(kwargs)}")
    return area


def random_size_crop(src: Image, size: Sequence[int], area: float | Sequence[float], ratio: tuple[float, float],
                     interp: int = 2, **kwargs: Any) -> tuple[Any, Rectangle]:
    """Crops a random rectangle and resizes it; crops the center if ten attempts find no rectangle
    that fits into the image.

    Args:
        src: (height, width, channels).
        size: (width, height) of the result.
        area: bounds of the rectangle's area relative to the image's, or only the lower bound (the
            upper one is then 1).
        ratio: bounds of its aspect ratio, width / height.
        interp: as in `imresize`.

    Returns:
        As `random_crop`.
    """
    area = renamed_area(area, kwargs, "random_size_crop")
    h, w = src.shape[:2]
    bounds: Any = (area, 1.0) if isinstance(area, numeric_types) else area
    for _ in range(10):
        target = random.uniform(bounds[0], bounds[1]) * h * w
        proportion = np.exp(random.uniform(np.log(ratio[0]), np.log(ratio[1])))
        new_w, new_h = int(round(np.sqrt(target * proportion))), int(round(np.sqrt(target / proportion)))
        if new_w <= w and new_h <= h:
            x0, y0 = random.randint(0, w - new_w), random.randint(0, h - new_h)
            return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)
    return center_crop(src, size, interp)


def imrotate(src: NDArray, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """Rotates images about their center.

    Args:
        src: (channels, height, width) or (batch, channels, height, width), float32.
        rotation_degrees: the angle, or for a batch one angle per image.
        zoom_in: zoom in until no padding (zeros) is visible.
        zoom_out: zoom out until the whole image is visible.

    Raises:
        ValueError: both zooms are set, the number of axes is wrong, or the numbers of angles and
            images differ.
        TypeError: the dtype is not float32, or there are several angles for one image.
    """
    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    if src.dtype != np.float32:
        raise TypeError(f"imrotate expects float32 images, got {np.dtype(src.dtype)}")
    if src.ndim == 3:
        if not isinstance(rotation_degrees, Number):
            raise TypeError("one image (3 axes) requires one angle, a number")
        return imrotate(src.expand_dims(axis=0), rotation_degrees, zoom_in, zoom_out)[0]
    if src.ndim != 4:
        raise ValueError(f"imrotate expects images with 3 axes or batches with 4, got {src.ndim}")
    count, _, height, width = src.shape
    angles = np.full(count, rotation_degrees, np.float32) if isinstance(rotation_degrees, Number) \
        else np.asarray(host(rotation_degrees), np.float32)
    if len(angles) != count:
        raise ValueError(f"{count} images require the same number of angles, got {len(angles)}")
    grid = _rotation_grid(angles * np.float32(np.pi / 180), height, width, zoom_in, zoom_out)
    return nd.BilinearSampler(src, _from_host(grid, src.context, type(src)))


def _rotation_grid(angles: np.ndarray, height: int, width: int, zoom_in: bool, zoom_out: bool) -> np.ndarray:
    """Returns where each pixel of rotated images comes from: (images, 2, height, width) in [-1, 1]."""
    angles = angles[:, None, None]
    half_y, half_x = (height - 1) / 2, (width - 1) / 2
    y = (np.arange(height, dtype=np.float32) - half_y)[None, :, None]
    x = (np.arange(width, dtype=np.float32) - half_x)[None, None, :]
    sin, cos = np.sin(angles), np.cos(angles)
    grid = np.stack([(x * cos - y * sin) / half_x, (x * sin + y * cos) / half_y], axis=1)
    if zoom_in or zoom_out:
        # the farthest that the corners of the rotated frame get, in each direction
        reach, slope = np.hypot(height, width), np.arctan(height / width)
        corners = [slope + np.abs(angles), slope - np.abs(angles)]
        far_x = reach * np.maximum(*np.abs(np.cos(corners)))
        far_y = reach * np.maximum(*np.abs(np.sin(corners)))
        scale = np.maximum(far_x / width, far_y / height) if zoom_out else \
            np.minimum(width / far_x, height / far_y)
        grid = grid * scale[:, None]
    return grid.astype(np.float32)


def random_rotate(src: NDArray, angle_limits: tuple[float, float], zoom_in: bool = False,
                  zoom_out: bool = False) -> NDArray:
    """Rotates images by random angles between two limits, in degrees; other arguments as in `imrotate`."""
    angles = np.random.uniform(*angle_limits, size=None if src.ndim == 3 else src.shape[0])
    return imrotate(src, angles, zoom_in=zoom_in, zoom_out=zoom_out)
