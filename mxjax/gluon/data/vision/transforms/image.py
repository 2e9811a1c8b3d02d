"""MXNet 2's image transforms, on `mx.np` arrays; further arguments are returned unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..... import numpy as np
from .....base import numeric_types
from . import _both
from ._both import *  # noqa: F403
from ._both import ImageOp

if TYPE_CHECKING:
    from .....ndarray import NDArray
    from ...._types import Size

__all__ = [*_both.__all__, "CenterCrop", "RandomCrop", "RandomFlipLeftRight", "RandomFlipTopBottom", "RandomGray",
           "RandomResizedCrop"]


def _size(size: Size) -> tuple[Any, ...]:
    return (size, size) if isinstance(size, numeric_types) else tuple(size)


class CenterCrop(ImageOp):
    """Crops the center, and enlarges it if the image is too small; x: (H, W, C) or (N, H, W, C).

    Args:
        size: (width, height), or a number for both.
        interpolation: as in `Resize`.
    """

    _op = "random_crop"

    def __init__(self, size: Size, interpolation: int = 1) -> None:
        super().__init__()
        self._args = ((0.5, 0.5), (0.5, 0.5), *_size(size), interpolation)


class RandomCrop(ImageOp):
    """Crops a rectangle at a random position; x: (H, W, C), or without padding also (N, H, W, C).

    Args:
        size: (width, height), or a number for both.
        pad: width of the padding: a number, or (above, below, left, right).
        pad_value: value of the padding; 0 by default.
        interpolation: as in `Resize`; used if the image is too small.
    """

    _op = "random_crop"

    def __init__(self, size: Size, pad: Size | None = None, pad_value: int = 0, interpolation: int = 1) -> None:
        super().__init__()
        self._args = ((0, 1), (0, 1), *_size(size), interpolation)
        self._pad_value = pad_value
        if isinstance(pad, int):
            pad = (pad,) * 4
        if pad is not None and len(pad) < 4:
            raise AssertionError(f"pad must be one number or four, got {pad}")
        self._pad = pad and ((pad[0], pad[1]), (pad[2], pad[3]), (0, 0))

    def _changed(self, x: NDArray, images: ModuleType) -> Any:
        if self._pad:
            x = np.pad(x, pad_width=self._pad, mode="constant", constant_values=self._pad_value)
        return super()._changed(x, images)


class RandomResizedCrop(ImageOp):
    """Crops a random rectangle and resizes it; x: (H, W, C) or (N, H, W, C).

    Args:
        size: (width, height) of the result, or a number for both.
        scale: bounds of the rectangle's area relative to the image's, or only the lower bound.
        ratio: bounds of its aspect ratio, width / height.
        interpolation: as in `Resize`.
    """

    def __init__(self, size: Size, scale: Sequence[float] = (0.08, 1.0),
                 ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0), interpolation: int = 1) -> None:
        super().__init__()
        width, height = _size(size)
        self._kwargs = {"width": width, "height": height, "ratio": ratio, "interp": interpolation, "max_trial": 10,
                        "area": (scale, 1.0) if isinstance(scale, numeric_types) else scale}

    def _changed(self, x: NDArray, images: ModuleType) -> Any:
        return images.random_resized_crop(x, **self._kwargs)


class _RandomFlip(ImageOp):
    _op = ""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def _changed(self, x: NDArray, images: ModuleType) -> Any:
        if self.p <= 0:
            return x
        if self.p >= 1:
            return getattr(images, self._op)(x)
        return getattr(images, f"random_{self._op}")(x, p=self.p)


class RandomFlipLeftRight(_RandomFlip):
    """Mirrors left and right.

    Args:
        p: the probability.
    """

    _op = "flip_left_right"


class RandomFlipTopBottom(_RandomFlip):
    """Mirrors top and bottom.

    Args:
        p: the probability.
    """

    _op = "flip_top_bottom"


class RandomGray(ImageOp):
    """Converts an image to grey, as float32; x: (H, W, 3).

    Args:
        p: the probability.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def _changed(self, x: NDArray, images: ModuleType) -> Any:
        x = x.astype("float32")
        weights = np.concatenate([np.full((3, 1), part) for part in (0.2989, 0.587, 0.114)], axis=1)
        return np.where(self.p < np.random.uniform(), x, np.dot(x, weights))
