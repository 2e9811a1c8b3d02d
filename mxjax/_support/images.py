"""Image operations of `mx.image` and the record iterators on NumPy arrays (height, width, channels), with OpenCV.

OpenCV releases the interpreter lock, so these functions run in parallel in threads.
"""

from __future__ import annotations

import contextlib
import math
import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from .files import check_unpacked

__all__ = ["GREY", "PCA_VALUES", "PCA_VECTORS", "border", "crop", "cv2", "decode", "interpolation", "resize",
           "resize_short", "unpacked"]

GREY = (0.299, 0.587, 0.114)  # shares of red, green and blue
# eigenvalues and eigenvectors of the covariance of ImageNet's colours (red, green, blue)
PCA_VALUES = np.array([55.46, 4.794, 1.148])
PCA_VECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])

_HEAD = 1 << 18  # bytes that contain the size of a photograph, behind its preview
_PNG = b"\x89PNG\r\n\x1a\n"


def cv2() -> Any:
    """Returns the OpenCV module.

    Raises:
        MXNetError: it is not installed.
    """
    try:
        import cv2 as module
    except ImportError:
        raise MXNetError("images need OpenCV: pip install 'mxjax[image]'") from None
    return module


def decode(data: bytes | bytearray | memoryview | np.ndarray, flag: int = 1, to_rgb: bool = True) -> np.ndarray:
    """Decodes the content of an image file to pixels.

    Args:
        data: the file's bytes.
        flag: 1 (colour) or 0 (grey), or another of OpenCV's flags.
        to_rgb: channels in the order red, green, blue; otherwise blue, green, red.

    Returns:
        (height, width, 3) or, grey, (height, width, 1), uint8.

    Raises:
        MXNetError: the data is not an image.
    """
    opencv = cv2()
    if flag < 0:
        raise MXNetError(f"value {flag} for parameter flag should be greater equal to 0: 0 is grey, 1 is colour")
    data = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else data
    if not data.size:
        raise MXNetError("Input cannot be an empty buffer")
    head = data[:11].tobytes()
    if head[:4] == b"\xff\xd8\xff\xe0" and head[6:] == b"JFIF\0" or head[:8] == _PNG:
        flag |= opencv.IMREAD_IGNORE_ORIENTATION  # MXNet turns only those photographs whose size it cannot foretell
    pixels = unpacked(data, flag)
    if pixels is None:
        raise MXNetError("Decoding failed. Invalid image file.")
    if pixels.ndim == 2:
        return pixels[:, :, None]
    return opencv.cvtColor(pixels, opencv.COLOR_BGR2RGB) if to_rgb else pixels


def unpacked(data: np.ndarray, flag: int) -> np.ndarray | None:
    """Calls `cv2.imdecode`, unless the header announces an image much larger than the data.

    Raises:
        MXNetError: the image would be too large, or OpenCV rejects the data.
    """
    opencv = cv2()
    check_unpacked(3 * math.prod(_size(data[:_HEAD].tobytes())), data.size, "image")
    if data[:8].tobytes() == _PNG:
        check_unpacked(_longest_chunk(data), data.size, "image")
    try:
        return opencv.imdecode(data, flag)
    except opencv.error as error:
        raise MXNetError(f"Decoding failed. Invalid image file. {error}") from error


def _longest_chunk(data: np.ndarray) -> int:
    """The largest length of a part that a PNG file promises: OpenCV takes memory for it before it reads."""
    place, longest = 8, 0
    while place + 8 <= data.size:
        length = int.from_bytes(data[place:place + 4].tobytes(), "big")
        place, longest = place + 12 + length, max(longest, length)
    return longest


def _size(head: bytes) -> tuple[int, int]:
    """Returns the size in the header of a PNG, JPEG, BMP or WebP file; (0, 0) if it has none.

    Of other kinds, OpenCV itself refuses those of more than 2**30 pixels.
    """
    with contextlib.suppress(struct.error):
        if head[:8] == _PNG:
            return struct.unpack_from(">II", head, 16)
        if head[:2] == b"BM":
            width, height = struct.unpack_from("<ii", head, 18)
            return abs(width), abs(height)
        if head[:4] + head[8:16] == b"RIFFWEBPVP8X":
            return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
        place = 2 if head[:2] == b"\xff\xd8" else len(head)
        while place < len(head):
            mark, kind, length = struct.unpack_from(">BBH", head, place)
            if mark != 0xFF:
                break
            if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
                return struct.unpack_from(">HH", head, place + 5)
            place += 1 if kind == 0xFF else 2 + length  # a mark may be filled up with 0xFF
    return 0, 0


@contextlib.contextmanager
def _as_mxnet_resizes(opencv: Any) -> Iterator[None]:
    """OpenCV without Intel's IPP in this thread: MXNet's OpenCV has none, and bicubic uint8 pixels differ by 1."""
    used = opencv.ipp.useIPP()
    opencv.ipp.setUseIPP(False)
    try:
        yield
    finally:
        opencv.ipp.setUseIPP(used)


def interpolation(interp: int, sizes: Sequence[float] = ()) -> int:
    """Returns OpenCV's number of an interpolation method.

    Args:
        interp: 0 nearest, 1 bilinear, 2 bicubic, 3 by area, 4 Lanczos, 5 bilinear in exact
            arithmetic; 9: bicubic to enlarge, by area to shrink, otherwise bilinear; 10: a random
            one of 0 to 4.
        sizes: (old height, old width, new height, new width), for 9.

    Raises:
        MXNetError: unknown number.
    """
    if interp == 9:
        if not sizes:
            return 2
        height, width, new_height, new_width = sizes
        if new_height > height and new_width > width:
            return 2
        return 3 if new_height < height and new_width < width else 1
    if interp == 10:
        return random.randint(0, 4)
    if interp not in range(6):
        raise MXNetError(f"unknown interpolation method {interp}; known: 0 to 5, 9 and 10")
    return interp


def shaped(pixels: np.ndarray) -> np.ndarray:
    """With the axis of a single channel, which OpenCV drops."""
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def resize(pixels: np.ndarray, width: int, height: int, interp: int = 1) -> np.ndarray:
    """Resizes an image; `interp` as in `interpolation`.

    Raises:
        MXNetError: the size is not positive, or OpenCV does not support the image's dtype.
    """
    opencv = cv2()
    if width < 1 or height < 1:
        raise MXNetError(f"the size of an image must be positive, got width {width} and height {height}")
    method = interpolation(interp, (*pixels.shape[:2], height, width))
    if pixels.shape[:2] == (height, width):
        return pixels.copy()
    try:
        with _as_mxnet_resizes(opencv):
            return shaped(opencv.resize(pixels, (width, height), interpolation=method))
    except opencv.error as error:
        raise MXNetError(f"an image of shape {pixels.shape} and dtype {pixels.dtype} cannot be resized to "
                         f"{width} x {height}: {error}") from error


def resize_short(pixels: np.ndarray, size: int, interp: int = 2) -> np.ndarray:
    """Resizes an image so that its shorter edge has the given length."""
    height, width = pixels.shape[:2]
    new = (size, size * height // width) if height > width else (size * width // height, size)
    return resize(pixels, *new, interp)


def crop(pixels: np.ndarray, x0: int, y0: int, width: int, height: int, size: Sequence[int] | None = None,
         interp: int = 2) -> np.ndarray:
    """Crops a rectangle of an image and optionally resizes it to `size` (width, height).

    Raises:
        MXNetError: the rectangle has no columns. As in MXNet, it may have no rows.
    """
    part = pixels[y0:y0 + height, x0:x0 + width]
    if not part.shape[1]:
        raise MXNetError(f"a crop of {width} columns from column {x0} is outside an image of shape {pixels.shape}")
    if size is None or (width, height) == tuple(size):
        return np.ascontiguousarray(part)
    new_width, new_height = size
    return resize(np.ascontiguousarray(part), new_width, new_height, interp)


def border(pixels: np.ndarray, top: int, bottom: int, left: int, right: int, kind: int = 0, value: float = 0.0,
           values: Sequence[float] | float = ()) -> np.ndarray:
    """Adds a border to an image.

    Args:
        pixels: the image.
        top, bottom, left, right: the border's widths.
        kind: OpenCV's number of the kind: 0 constant, 1 mirrored, 2 mirrored without the edge, 3
            repeated edge, 4 repeated image.
        value, values: its colour, if it is constant: one number for all (three) channels, or one
            per channel. As in MXNet, a single number as `values` applies to the first channel.
    """
    given = np.atleast_1d(values).tolist()
    colour = tuple(given) if given else (value, value, value)
    return shaped(cv2().copyMakeBorder(pixels, top, bottom, left, right, kind, value=colour))
